"""The command: try all items of the scorecard, one after the other, and write down what came of them."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .figures import REPORT, SIZE, Row
from .report import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
ITEMS = range(1, 26)
REDIS = 23  # has tests of its own, which are the same at any size
REDIS_TESTS = [f"tests/plugins/event_rate_limit/{name}.py" for name in ("test_redis_budget", "test_configure")]


def main() -> int:
    """Try the items; 1 if one has failed."""
    arguments = _arguments()
    rows: list[Row] = []
    for item in arguments.only or ITEMS:
        began = time.monotonic()
        found = _redis() if item == REDIS else _tried(item, full=not arguments.ci)
        for row in found:
            told = f"{'passed' if row.passed else 'FAILED'}: {row.claim}: {row.measured} (wanted {row.wanted})"
            print(f"{row.item:2} {time.monotonic() - began:4.0f} s  {told}", flush=True)
        rows += found
    if arguments.ci or arguments.only:
        print(f"\n{page(rows)}")
    else:
        PAGE.write_text(page(rows))
        print(f"written to {PAGE.relative_to(ROOT)}")
    return 0 if all(row.passed for row in rows) else 1


def _tried(item: int, *, full: bool) -> list[Row]:
    """What became of an item; what ended without a figure has failed too."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        environment = {REPORT: str(report), SIZE: "full" if full else "ci"}
        code, output = _pytest("tests/reliability", "-k", f"test_item_{item:02}_", **environment)
        rows = Row.all(report)
    if not rows or (code and all(row.passed for row in rows)):
        rows.append(Row(item, f"test_item_{item:02}", f"no figure: {_last(output)}", "a figure", passed=False))
    if code:
        print(output)
    return rows


def _redis() -> list[Row]:
    if shutil.which("redis-server") is None:
        return [Row(REDIS, "shared limits", "not tried: there is no redis-server", "decisions go on", passed=False)]
    code, output = _pytest(*REDIS_TESTS)
    claim = "Redis killed, paused, emptied, slow, in " + " and ".join(f"`{Path(path).stem}`" for path in REDIS_TESTS)
    wanted = "decisions go on, local limits in <= 1 s, recovery <= 5 s"
    told = _last(output)
    return [Row(REDIS, claim, told, wanted, passed=code == 0 and "skipped" not in told)]


def _pytest(*arguments: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, env={**os.environ, **environment}, capture_output=True)
    return done.returncode, done.stdout.decode()


def _last(output: str) -> str:
    """What pytest sums up with."""
    return output.strip().rpartition("\n")[2].strip("= ")


def _arguments() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        found = [int(each) for each in text.split(",")]
        if not set(found) <= set(ITEMS):
            raise ValueError(text)
        return found

    parser = argparse.ArgumentParser("python -m tests.reliability", description=__doc__)
    parser.add_argument("--ci", action="store_true", help="less of everything, as in the tests; print the page")
    parser.add_argument("--only", type=numbers, metavar="5,6", help="these items; print the page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""The command: runs all items of the scorecard one by one, and writes the page of results."""

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
REDIS = 23  # is covered by other tests, which have only one size
REDIS_TESTS = [
    f"tests/plugins/event_rate_limit/{name}.py"
    for name in ("test_redis_budget", "test_redis_connector", "test_configure")
]


def main() -> int:
    """Run the items; return 1 if one of them fails."""
    arguments = _arguments()
    rows: list[Row] = []
    for item in arguments.only or ITEMS:
        start = time.monotonic()
        results = _run_redis_tests() if item == REDIS else _run_item(item, full=not arguments.ci)
        for row in results:
            text = f"{'passed' if row.passed else 'FAILED'}: {row.claim}: {row.measured} (condition: {row.condition})"
            print(f"{row.item:2} {time.monotonic() - start:4.0f} s  {text}", flush=True)
        rows += results
    if arguments.ci or arguments.only:
        print(f"\n{page(rows)}")
    else:
        PAGE.write_text(page(rows))
        print(f"written to {PAGE.relative_to(ROOT)}")
    return 0 if all(row.passed for row in rows) else 1


def _run_item(item: int, *, full: bool) -> list[Row]:
    """Run an item. A test without a figure has failed."""
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


def _run_redis_tests() -> list[Row]:
    if shutil.which("redis-server") is None:
        return [Row(REDIS, "shared limits", "not run: redis-server is not installed", "decisions go on", passed=False)]
    code, output = _pytest(*REDIS_TESTS)
    claim = "Redis killed, paused, emptied, slow, in " + " and ".join(f"`{Path(path).stem}`" for path in REDIS_TESTS)
    condition = "decisions go on, local limits in <= 1 s, recovery <= 5 s"
    summary = _last(output)
    return [Row(REDIS, claim, summary, condition, passed=code == 0 and "skipped" not in summary)]


def _pytest(*arguments: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *arguments], cwd=ROOT, env={**os.environ, **environment}, capture_output=True)
    return done.returncode, done.stdout.decode()


def _last(output: str) -> str:
    """Return the last line of pytest: its summary."""
    return output.strip().rpartition("\n")[2].strip("= ")


def _arguments() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        items = [int(part) for part in text.split(",")]
        if not set(items) <= set(ITEMS):
            raise ValueError(text)
        return items

    parser = argparse.ArgumentParser("python -m tests.reliability", description=__doc__)
    parser.add_argument("--ci", action="store_true", help="run at a reduced size; print the page")
    parser.add_argument("--only", type=numbers, metavar="5,6", help="run only these items; print the page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

"""The command: send very many bodies, and say what came of them."""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import gettempdir

from .answering import Endpoints, endpoints
from .bodies import make
from .laws import check

_FAILURES = 10  # so many are kept; then it is clear enough
_INTERVAL = 5.0  # seconds between lines


def main() -> int:
    """Send bodies; 1 if a law was broken."""
    arguments = _arguments()
    print(f"seed {arguments.seed}")
    began = time.monotonic()
    with endpoints() as ours:
        counts, failures = _run(ours, Random(arguments.seed), arguments.bodies)
    seconds = time.monotonic() - began
    sent = counts.total() + len(failures)
    print(f"{sent:,} bodies in {seconds:.0f} s, {sent / seconds:,.0f} a second")
    for (path, what), count in sorted(counts.items()):
        print(f"  {path:20} {what:28} {count:10,}")
    for failure in failures:
        print(f"  BROKEN {failure}")
    print(f"{len(failures)} broken laws" + (", and then it ended" if len(failures) == _FAILURES else ""))
    return 1 if failures else 0


def _run(ours: Endpoints, random: Random, bodies: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    counts: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    began = told = time.monotonic()
    for number in range(1, bodies + 1):
        path, body = make(random)
        try:
            answer = ours.answer(path, body)
            counts[path, check(path, body, answer.code, answer.body)] += 1
        except Exception as error:
            failures.append(f"{path}: {type(error).__name__}: {error}; the body is in {_kept(body, len(failures))}")
            if len(failures) == _FAILURES:
                break
        now = time.monotonic()
        if now - told > _INTERVAL:
            told = now
            rate = number / (now - began)
            left = (bodies - number) / rate
            print(f"{number:,} of {bodies:,}, {rate:,.0f} a second, {left:.0f} s left", file=sys.stderr)
    return counts, failures


def _kept(body: bytes, number: int) -> Path:
    file = Path(gettempdir()) / f"fuzz-{os.getpid()}-{number}.body"
    file.write_bytes(body)
    return file


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--bodies", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="the same seed sends the same bodies")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

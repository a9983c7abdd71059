"""The command: sends a large number of bodies, and prints the results."""

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import gettempdir

from .bodies import make_request
from .endpoints import Endpoints, running_endpoints
from .invariants import check

_MAX_FAILURES = 10  # the command stops after this number
_INTERVAL = 5.0  # seconds between lines


def main() -> int:
    """Send bodies; return 1 if an invariant was broken."""
    arguments = _arguments()
    print(f"seed {arguments.seed}")
    started = time.monotonic()
    with running_endpoints() as endpoints:
        counts, failures = _send_bodies(endpoints, Random(arguments.seed), arguments.bodies)
    seconds = time.monotonic() - started
    sent = counts.total() + len(failures)
    print(f"{sent:,} bodies in {seconds:.0f} s, {sent / seconds:,.0f} per second")
    for (path, result), count in sorted(counts.items()):
        print(f"  {path:20} {result:28} {count:10,}")
    for failure in failures:
        print(f"  BROKEN {failure}")
    print(f"{len(failures)} broken invariants" + (", stopped" if len(failures) == _MAX_FAILURES else ""))
    return 1 if failures else 0


def _send_bodies(endpoints: Endpoints, random: Random, bodies: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    counts: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    started = reported = time.monotonic()
    for number in range(1, bodies + 1):
        path, body = make_request(random)
        try:
            response = endpoints.answer(path, body)
            counts[path, check(path, body, response.code, response.body)] += 1
        except Exception as error:
            failures.append(
                f"{path}: {type(error).__name__}: {error}; the body is in {_save_body(body, len(failures))}"
            )
            if len(failures) == _MAX_FAILURES:
                break
        now = time.monotonic()
        if now - reported > _INTERVAL:
            reported = now
            rate = number / (now - started)
            remaining = (bodies - number) / rate
            print(f"{number:,} of {bodies:,}, {rate:,.0f} per second, {remaining:.0f} s left", file=sys.stderr)
    return counts, failures


def _save_body(body: bytes, number: int) -> Path:
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

"""The command: measures the servers, prints the tables and saves the figures."""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.bench import report
from tests.bench.candidates import EVENTS, EXTRAS, ONE_FIELD, OURS, PEERS
from tests.bench.measure import DECISIONS, TARGET_CONNECTIONS, Plan, measure
from tests.bench.servers import BenchError, make_certificate


def main() -> int:
    """Run the benchmark. Missed targets are printed; only an error sets the exit code."""
    arguments = _arguments()
    durations = arguments.rounds, arguments.seconds, arguments.warmup
    plan = Plan(*durations, (1, TARGET_CONNECTIONS, 32), starts=5, keys=5_000_000, only=arguments.only)
    if arguments.quick:
        plan = Plan(
            rounds=1,
            seconds=1,
            warmup=1,
            connections=(TARGET_CONNECTIONS,),
            starts=1,
            keys=200_000,
            only=arguments.only,
        )
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} before", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        try:
            results = measure(plan, make_certificate(scratch), scratch)
        except BenchError as error:
            print(f"FAILED: {error}", file=sys.stderr)
            return 1
    print(report.format_report(results, plan.connections))
    if arguments.json:
        arguments.json.write_text(json.dumps(report.to_json(results), indent=1))
    return 0


def _arguments() -> argparse.Namespace:
    names = [*(candidate.name for candidate in [*PEERS, OURS, *EXTRAS, ONE_FIELD]), *EVENTS, DECISIONS]
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3, help="duration of each measurement")
    parser.add_argument("--warmup", type=int, default=2, help="seconds of warm-up for each server and body")
    parser.add_argument("--quick", action="store_true", help="1 round of 1 second, 8 connections only")
    parser.add_argument("--only", nargs="+", choices=names, default=(), metavar="NAME", help=", ".join(names))
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the raw figures")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

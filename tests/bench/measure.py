"""The measurements: interleaved rounds, so that what the machine does meanwhile falls on everyone alike."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench import bodies
from tests.bench.candidates import EXTRAS, MUTATE, ONE_FIELD, OURS, PEERS
from tests.bench.check import check, check_one_field
from tests.bench.load import Sample, load
from tests.bench.servers import Candidate, NotHereError, Server, running

BODIES = {"small": bodies.SMALL, "large": bodies.LARGE}
AT = 8  # the number of connections that the targets are about
ONE_FIELD_POLICIES = ("allow", "read", "patch", "replace")


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int
    seconds: int
    warmup: int
    connections: Sequence[int]
    starts: int
    only: Sequence[str] = ()

    def wants(self, candidate: Candidate) -> bool:
        return not self.only or candidate.name in self.only


class Case(NamedTuple):
    """One cell of the table."""

    server: str
    body: str
    connections: int


class Cost(NamedTuple):
    """What one request of one policy took, in microseconds."""

    wall_us: float
    cpu_us: float


@dataclass
class Results:
    """Everything that was seen; each list holds one entry a round."""

    titles: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    samples: dict[Case, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory_mb: dict[str, float] = field(default_factory=dict)
    one_field: dict[str, list[Cost]] = field(default_factory=lambda: defaultdict(list))

    def has(self, *names: str) -> bool:
        return all(name in self.titles for name in names)

    def rate(self, case: Case) -> float:
        return median(sample.rate for sample in self.samples[case])

    def p99_ms(self, case: Case) -> float:
        return median(sample.p99_ms for sample in self.samples[case])

    def rate_ratio(self, one: Case, other: Case) -> float:
        """How many times as fast one is: the median of the ratios within each round."""
        pairs = zip(self.samples[one], self.samples[other], strict=True)
        return median(a.rate / b.rate for a, b in pairs)

    def p99_ratio(self, one: Case, other: Case) -> float:
        pairs = zip(self.samples[one], self.samples[other], strict=True)
        return median(a.p99_ms / b.p99_ms for a, b in pairs)

    def extra_cost(self, policy: str, than: str) -> Cost:
        """What one policy costs more than another."""
        pairs = list(zip(self.one_field[policy], self.one_field[than], strict=True))
        return Cost(*(median(a[i] - b[i] for a, b in pairs) for i in range(2)))


def measure(plan: Plan, certificate: tuple[Path, Path], scratch: Path) -> Results:
    """Measure everything that the plan wants and the machine has."""
    results = Results()
    probe = bodies.SMALL.read_bytes()
    if plan.wants(OURS):
        for _ in range(plan.starts + 1):  # the first one compiles
            with running(OURS, certificate, scratch, probe) as server:
                results.starts[OURS.name].append(server.start_seconds)
        del results.starts[OURS.name][0]
    with ExitStack() as stack:
        servers = []
        for candidate in filter(plan.wants, [*PEERS, OURS, *EXTRAS]):
            try:
                server = stack.enter_context(running(candidate, certificate, scratch, probe))
            except NotHereError as reason:
                results.absent[candidate.title] = str(reason)
                continue
            check(server)
            results.titles[candidate.name] = candidate.title
            servers.append(server)
        _rounds(plan, servers, results)
        results.memory_mb = {server.candidate.name: server.memory_mb() for server in servers}
    if plan.wants(ONE_FIELD):
        with running(ONE_FIELD, certificate, scratch, bodies.LARGE.read_bytes()) as server:
            _one_field(plan, server, bodies.of_30_kb(scratch), results)
    return results


def _rounds(plan: Plan, servers: list[Server], results: Results) -> None:
    for server in servers:
        for body in BODIES.values():
            load(server.url(), body, AT, plan.warmup)
    for number in range(plan.rounds):
        order = servers[number % len(servers) :] + servers[: number % len(servers)]
        for name, body in BODIES.items():
            for connections in plan.connections:
                _say(f"round {number + 1} of {plan.rounds}: {name}, {connections} connections")
                for server in order:
                    if connections == AT or server.candidate not in EXTRAS:
                        case = Case(server.candidate.name, name, connections)
                        results.samples[case].append(load(server.url(), body, connections, plan.seconds))


def _one_field(plan: Plan, server: Server, body: Path, results: Results) -> None:
    paths = {name: f"{MUTATE}/{name}" for name in ONE_FIELD_POLICIES}
    check_one_field(server, paths, body.read_bytes())
    for path in paths.values():
        load(server.url(path), body, AT, plan.warmup)
    for number in range(plan.rounds):
        _say(f"round {number + 1} of {plan.rounds}: one field of 30 kB")
        for name, path in paths.items():
            before = server.cpu_seconds()
            sample = load(server.url(path), body, 1, plan.seconds)
            cpu = server.cpu_seconds() - before
            results.one_field[name].append(Cost(1e6 / sample.rate, 1e6 * cpu / sample.requests))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

"""The measurements: interleaved rounds, so that what the machine does meanwhile falls on everyone alike."""

import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench import bodies, decisions
from tests.bench.candidates import (
    EVENTS,
    EXTRAS,
    IN_MEMORY,
    IN_REDIS,
    IN_REDIS_BY_SOCKET,
    MUTATE,
    ONE_FIELD,
    OURS,
    PEERS,
    create_local_policy,
)
from tests.bench.check import check, check_one_field
from tests.bench.decisions import NewKeys
from tests.bench.load import Sample, load
from tests.bench.servers import BenchError, Candidate, NotHereError, Server, running
from tests.support.redis_server import RedisServer

BODIES = {"small": bodies.SMALL, "large": bodies.LARGE}
EVENT = {"event": bodies.EVENT}
DECISIONS = "decisions"
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
    keys: int
    only: Sequence[str] = ()

    def wants(self, *names: str) -> bool:
        """Whether any of them is wanted."""
        return not self.only or any(name in self.only for name in names)


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
    decisions_us: dict[str, float] = field(default_factory=dict)
    new_keys: NewKeys | None = None

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
    if plan.wants(OURS.name):
        for _ in range(plan.starts + 1):  # the first one compiles
            with running(OURS, certificate, scratch, probe) as server:
                results.starts[OURS.name].append(server.start_seconds)
        del results.starts[OURS.name][0]
    _compare(plan, [*PEERS, OURS, *EXTRAS], BODIES, certificate, scratch, results)
    if plan.wants(ONE_FIELD.name):
        with running(ONE_FIELD, certificate, scratch, bodies.LARGE.read_bytes()) as server:
            _one_field(plan, server, bodies.of_30_kb(scratch), results)
    if plan.wants(*EVENTS, DECISIONS):
        _events(plan, certificate, scratch, results)
    return results


def _compare(
    plan: Plan,
    candidates: Iterable[Candidate],
    posted: Mapping[str, Path],
    certificate: tuple[Path, Path],
    scratch: Path,
    results: Results,
) -> None:
    """Load those of the candidates that are wanted, in turn."""
    probe = next(iter(posted.values())).read_bytes()
    with ExitStack() as stack:
        servers = []
        for candidate in candidates:
            if not plan.wants(candidate.name):
                continue
            try:
                server = stack.enter_context(running(candidate, certificate, scratch, probe))
            except NotHereError as reason:
                results.absent[candidate.title] = str(reason)
                continue
            check(server, posted.values())
            results.titles[candidate.name] = candidate.title
            servers.append(server)
        if servers:
            _rounds(plan, servers, posted, results)
        for server in servers:
            results.memory_mb[server.candidate.name] = server.memory_mb()


def _rounds(plan: Plan, servers: list[Server], posted: Mapping[str, Path], results: Results) -> None:
    for server in servers:
        for body in posted.values():
            load(server.url(), body, AT, plan.warmup)
    for number in range(plan.rounds):
        order = servers[number % len(servers) :] + servers[: number % len(servers)]
        for name, body in posted.items():
            for connections in plan.connections:
                _say(f"round {number + 1} of {plan.rounds}: {name}, {connections} connections")
                for server in order:
                    if connections == AT or server.candidate not in EXTRAS:
                        case = Case(server.candidate.name, name, connections)
                        results.samples[case].append(load(server.url(), body, connections, plan.seconds))


def _events(plan: Plan, certificate: tuple[Path, Path], scratch: Path, results: Results) -> None:
    """Limits of events: the server with budgets in memory and in a store, and one decision by itself."""
    with ExitStack() as stack:
        candidates, store = [create_local_policy(IN_MEMORY)], None
        if shutil.which("redis-server"):
            store = stack.enter_context(RedisServer())
            candidates += [
                create_local_policy(IN_REDIS, store.url),
                create_local_policy(IN_REDIS_BY_SOCKET, f"unix://{store.path}"),
            ]
        else:
            results.absent["events, redis"] = "no redis-server"
        _compare(plan, candidates, EVENT, certificate, scratch, results)
        if results.has(IN_REDIS) and "cmdstat_evalsha:" not in store.ask("INFO", "commandstats"):
            raise BenchError("the store was not asked")
        if plan.wants(DECISIONS):
            _say("decisions")
            results.decisions_us = decisions.in_memory() | (decisions.in_redis(store.url) if store else {})
            results.new_keys = decisions.of_new_keys(plan.keys)


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

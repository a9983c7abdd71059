"""Measures in interleaved rounds, so that other load on the machine affects all servers alike."""

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
    event_limits_candidate,
)
from tests.bench.check import check, check_one_field
from tests.bench.decisions import NewKeysCost
from tests.bench.load import Sample, load
from tests.bench.servers import BenchError, Candidate, NotInstalledError, Server, running
from tests.support.redis_server import RedisServer

BODIES = {"small": bodies.SMALL, "large": bodies.LARGE}
EVENT_REVIEW = {"event": bodies.EVENT_REVIEW}
DECISIONS = "decisions"
TARGET_CONNECTIONS = 8  # the number of connections to which the targets apply
ONE_FIELD_POLICIES = ("allow", "read", "patch", "replace")


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often.

    Attributes:
        rounds: the number of rounds.
        seconds: the duration of each measurement.
        warmup: the duration of the warm-up for each server and body, in seconds.
        connections: the numbers of connections.
        starts: how often the start of the server is timed.
        keys: the number of new keys for the event rate limits.
        only: the candidates to measure; all if empty.
    """

    rounds: int
    seconds: int
    warmup: int
    connections: Sequence[int]
    starts: int
    keys: int
    only: Sequence[str] = ()

    def includes(self, *names: str) -> bool:
        """Whether any of the candidates is to be measured."""
        return not self.only or any(name in self.only for name in names)


class Case(NamedTuple):
    """A server, a body and a number of connections: one cell of the table."""

    server: str
    body: str
    connections: int


class Cost(NamedTuple):
    """The time of one request in microseconds."""

    wall_us: float
    cpu_us: float


@dataclass
class Results:
    """All figures; each list has one entry per round."""

    titles: dict[str, str] = field(default_factory=dict)
    not_installed: dict[str, str] = field(default_factory=dict)
    samples: dict[Case, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory_mb: dict[str, float] = field(default_factory=dict)
    one_field: dict[str, list[Cost]] = field(default_factory=lambda: defaultdict(list))
    decisions_us: dict[str, float] = field(default_factory=dict)
    new_keys: NewKeysCost | None = None

    def has(self, *names: str) -> bool:
        return all(name in self.titles for name in names)

    def rate(self, case: Case) -> float:
        return median(sample.rate for sample in self.samples[case])

    def p99_ms(self, case: Case) -> float:
        return median(sample.p99_ms for sample in self.samples[case])

    def rate_ratio(self, one: Case, other: Case) -> float:
        """Return the ratio of the request rates: the median of the ratios within each round."""
        pairs = zip(self.samples[one], self.samples[other], strict=True)
        return median(a.rate / b.rate for a, b in pairs)

    def p99_ratio(self, one: Case, other: Case) -> float:
        pairs = zip(self.samples[one], self.samples[other], strict=True)
        return median(a.p99_ms / b.p99_ms for a, b in pairs)

    def extra_cost(self, policy: str, baseline: str) -> Cost:
        """Return the cost of a policy in addition to the baseline."""
        pairs = list(zip(self.one_field[policy], self.one_field[baseline], strict=True))
        return Cost(*(median(a[i] - b[i] for a, b in pairs) for i in range(2)))


def measure(plan: Plan, certificate: tuple[Path, Path], scratch: Path) -> Results:
    """Measure everything that the plan includes and this machine has installed."""
    results = Results()
    probe = bodies.SMALL.read_bytes()
    if plan.includes(OURS.name):
        for _ in range(plan.starts + 1):  # the first one compiles bytecode and is not counted
            with running(OURS, certificate, scratch, probe) as server:
                results.starts[OURS.name].append(server.start_seconds)
        del results.starts[OURS.name][0]
    _compare(plan, [*PEERS, OURS, *EXTRAS], BODIES, certificate, scratch, results)
    if plan.includes(ONE_FIELD.name):
        with running(ONE_FIELD, certificate, scratch, bodies.LARGE.read_bytes()) as server:
            _one_field(plan, server, bodies.large_object(scratch), results)
    if plan.includes(*EVENTS, DECISIONS):
        _measure_events(plan, certificate, scratch, results)
    return results


def _compare(
    plan: Plan,
    candidates: Iterable[Candidate],
    review_files: Mapping[str, Path],
    certificate: tuple[Path, Path],
    scratch: Path,
    results: Results,
) -> None:
    """Load the candidates of the plan in turn."""
    probe = next(iter(review_files.values())).read_bytes()
    with ExitStack() as stack:
        servers = []
        for candidate in candidates:
            if not plan.includes(candidate.name):
                continue
            try:
                server = stack.enter_context(running(candidate, certificate, scratch, probe))
            except NotInstalledError as reason:
                results.not_installed[candidate.title] = str(reason)
                continue
            check(server, review_files.values())
            results.titles[candidate.name] = candidate.title
            servers.append(server)
        if servers:
            _measure_rounds(plan, servers, review_files, results)
        for server in servers:
            results.memory_mb[server.candidate.name] = server.memory_mb()


def _measure_rounds(plan: Plan, servers: list[Server], review_files: Mapping[str, Path], results: Results) -> None:
    for server in servers:
        for body in review_files.values():
            load(server.url(), body, TARGET_CONNECTIONS, plan.warmup)
    for number in range(plan.rounds):
        order = servers[number % len(servers) :] + servers[: number % len(servers)]
        for name, body in review_files.items():
            for connections in plan.connections:
                _print_progress(f"round {number + 1} of {plan.rounds}: {name}, {connections} connections")
                for server in order:
                    if connections == TARGET_CONNECTIONS or server.candidate not in EXTRAS:
                        case = Case(server.candidate.name, name, connections)
                        results.samples[case].append(load(server.url(), body, connections, plan.seconds))


def _measure_events(plan: Plan, certificate: tuple[Path, Path], scratch: Path, results: Results) -> None:
    """Measure event rate limits: the server with buckets in memory and in Redis, and single decisions."""
    with ExitStack() as stack:
        candidates, store = [event_limits_candidate(IN_MEMORY)], None
        if shutil.which("redis-server"):
            store = stack.enter_context(RedisServer())
            candidates += [
                event_limits_candidate(IN_REDIS, store.url),
                event_limits_candidate(IN_REDIS_BY_SOCKET, f"unix://{store.path}"),
            ]
        else:
            results.not_installed["events, buckets in redis"] = "no redis-server"
        _compare(plan, candidates, EVENT_REVIEW, certificate, scratch, results)
        if results.has(IN_REDIS) and "cmdstat_evalsha:" not in store.request("INFO", "commandstats"):
            raise BenchError("the server did not use Redis")
        if plan.includes(DECISIONS):
            _print_progress("decisions")
            results.decisions_us = decisions.measure_in_memory() | (
                decisions.measure_in_redis(store.url) if store else {}
            )
            results.new_keys = decisions.measure_new_keys(plan.keys)


def _one_field(plan: Plan, server: Server, body: Path, results: Results) -> None:
    paths = {name: f"{MUTATE}/{name}" for name in ONE_FIELD_POLICIES}
    check_one_field(server, paths, body.read_bytes())
    for path in paths.values():
        load(server.url(path), body, TARGET_CONNECTIONS, plan.warmup)
    for number in range(plan.rounds):
        _print_progress(f"round {number + 1} of {plan.rounds}: one field of 30 kB")
        for name, path in paths.items():
            before = server.cpu_seconds()
            sample = load(server.url(path), body, 1, plan.seconds)
            cpu = server.cpu_seconds() - before
            results.one_field[name].append(Cost(1e6 / sample.rate, 1e6 * cpu / sample.requests))


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

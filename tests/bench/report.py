"""The tables, and the targets beside what was seen."""

import dataclasses
import platform
from collections.abc import Iterable, Iterator, Sequence
from os import cpu_count
from statistics import median
from typing import Any, NamedTuple

from tests.bench.candidates import ALLOWING, CEILING, GO, IN_MEMORY, IN_REDIS, IN_REDIS_BY_SOCKET, KOPF, MANY, OURS
from tests.bench.decisions import ONE_IN_MEMORY, ONE_IN_REDIS
from tests.bench.measure import AT, BODIES, EVENT, ONE_FIELD_POLICIES, Case, Results

FASTER_THAN = {GO.name: {"small": 1.4, "large": 3.0}, KOPF.name: {"small": 1.7, "large": 2.3}}
TIME_OF_CEILING = 1.35
RATE_OF_ONE_LOADED = 0.9
START_SECONDS = 0.6
MEMORY_MB = 80
ONE_FIELD_US = 150
RATE_IN_REDIS = 0.6
DECISION_US = {ONE_IN_MEMORY: 2, ONE_IN_REDIS: 250}


class Target(NamedTuple):
    """One promise and what was seen of it."""

    what: str
    wanted: str
    seen: str
    met: bool


def text(results: Results, connections: Sequence[int]) -> str:
    """Everything, to read."""
    parts = [*_absent(results), _figures(results, BODIES, connections), _ratios(results, connections)]
    parts += [_one_field(results), _figures(results, EVENT, connections), _decisions(results)]
    parts += [_targets(targets(results))]
    return "\n\n".join(part for part in parts if part)


def raw(results: Results) -> dict[str, Any]:
    """Everything, to keep."""
    return {
        "machine": {"cpus": cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "absent": results.absent,
        "samples": [
            case._asdict() | {"rounds": [dataclasses.asdict(sample) for sample in samples]}
            for case, samples in results.samples.items()
        ],
        "start_seconds": results.starts,
        "memory_mb": results.memory_mb,
        "one_field_us": {name: [cost._asdict() for cost in costs] for name, costs in results.one_field.items()},
        "decisions_us": results.decisions_us,
        "new_keys": results.new_keys and results.new_keys._asdict(),
        "targets": [target._asdict() for target in targets(results)],
    }


def targets(results: Results) -> list[Target]:
    """What was promised, of what was measured."""
    return [*_speed_targets(results), *_footprint_targets(results), *_event_targets(results)]


def _speed_targets(results: Results) -> Iterator[Target]:
    for body in BODIES:
        ours, go, kopf, ceiling = (Case(c.name, body, AT) for c in (OURS, GO, KOPF, CEILING))
        peers = [peer for peer in (go, kopf) if results.has(OURS.name, peer.server)]
        for peer in peers[:1]:  # kopf is the measure where there is no Go
            least, ratio = FASTER_THAN[peer.server][body], results.rate_ratio(ours, peer)
            yield _at_least(f"{body}: requests per second, of {results.titles[peer.server]}", least, ratio, "x")
        for peer in peers:
            p99 = results.p99_ratio(ours, peer)
            yield _at_most(f"{body}: p99, of {results.titles[peer.server]}", 1.0, p99, "x")
        if results.has(OURS.name, CEILING.name):
            ratio = results.rate_ratio(ceiling, ours)
            yield _at_most(f"{body}: time per request, of the bare ceiling", TIME_OF_CEILING, ratio, "x")
    if results.has(MANY.name, ALLOWING.name):
        ratio = results.rate_ratio(Case(MANY.name, "small", AT), Case(ALLOWING.name, "small", AT))
        yield _at_least("small: requests per second with 200 loaded, of one loaded", RATE_OF_ONE_LOADED, ratio, "x")


def _footprint_targets(results: Results) -> Iterator[Target]:
    if starts := results.starts.get(OURS.name):
        yield _at_most("start to the first answer", START_SECONDS, median(starts), " s")
    if memory := results.memory_mb.get(OURS.name):
        yield _at_most("resident memory after the load", MEMORY_MB, memory, " MB")
    if results.one_field:
        for policy in ("patch", "replace"):
            cost = results.extra_cost(policy, than="allow").wall_us
            yield _at_most(f"one field of 30 kB by {policy}, more than one that allows", ONE_FIELD_US, cost, " us")


def _event_targets(results: Results) -> Iterator[Target]:
    for name in (IN_REDIS, IN_REDIS_BY_SOCKET):
        if results.has(IN_MEMORY, name):
            ratio = results.rate_ratio(Case(name, "event", AT), Case(IN_MEMORY, "event", AT))
            what = f"{results.titles[name]}: requests per second, of those in memory"
            yield _at_least(what, RATE_IN_REDIS, ratio, "x")
    for what, most in DECISION_US.items():
        if what in results.decisions_us:
            yield _at_most(what, most, results.decisions_us[what], " us")


def _at_least(what: str, least: float, seen: float, unit: str) -> Target:
    return Target(what, f">= {least:g}{unit}", f"{seen:.3g}{unit}", seen >= least)


def _at_most(what: str, most: float, seen: float, unit: str) -> Target:
    return Target(what, f"<= {most:g}{unit}", f"{seen:.3g}{unit}", seen <= most)


def _absent(results: Results) -> list[str]:
    return [f"not here: {title} ({reason})" for title, reason in results.absent.items()]


def _figures(results: Results, bodies: Iterable[str], connections: Sequence[int]) -> str:
    def cell(case: Case) -> str:
        return f"{results.rate(case):,.0f} ({results.p99_ms(case):.2f})" if case in results.samples else ""

    rows = [
        [title, *cells, _memory(results, name)]
        for name, title in results.titles.items()
        if any(cells := [cell(Case(name, body, count)) for body in bodies for count in connections])
    ]
    head = ["", *_columns(bodies, connections), "MB after"]
    return _table("requests per second (p99 in ms), medians of the rounds", head, rows)


def _memory(results: Results, name: str) -> str:
    return f"{results.memory_mb[name]:.0f}" if name in results.memory_mb else ""


def _ratios(results: Results, connections: Sequence[int]) -> str:
    base = next((c.name for c in (OURS, GO, KOPF, CEILING) if results.has(c.name)), None)
    if base is None:
        return ""

    def cell(case: Case) -> str:
        if case not in results.samples:
            return ""
        one = case._replace(server=base)
        return f"{results.rate_ratio(one, case):.2f} ({results.p99_ratio(one, case):.2f})"

    rows = [
        [title, *cells]
        for name, title in results.titles.items()
        if name != base and any(cells := [cell(Case(name, body, count)) for body in BODIES for count in connections])
    ]
    title = f"{results.titles[base]} / other: requests per second (p99), medians of the ratios within a round"
    return _table(title, ["other", *_columns(BODIES, connections)], rows)


def _one_field(results: Results) -> str:
    if not results.one_field:
        return ""
    rows = []
    for policy in ONE_FIELD_POLICIES:
        costs, extra = results.one_field[policy], results.extra_cost(policy, than="allow")
        wall, cpu = (median(cost[i] for cost in costs) for i in range(2))
        rows.append([policy, f"{wall:.0f}", f"{cpu:.0f}", f"{extra.wall_us:+.0f}", f"{extra.cpu_us:+.0f}"])
    head = ["", "time", "processor", "time over allow", "processor over allow"]
    return _table("one field of a 30 kB object: microseconds per request, 1 connection", head, rows)


def _decisions(results: Results) -> str:
    rows = [[what, f"{cost:.2f}"] for what, cost in results.decisions_us.items()]
    if results.new_keys is not None:
        count, each_us, more_kib = results.new_keys
        rows.append([f"each of {count:,} new keys ({more_kib:,.0f} KiB more than a full cache)", f"{each_us:.2f}"])
    return _table("decisions about one event, in microseconds", ["", "us"], rows)


def _targets(seen: Iterable[Target]) -> str:
    rows = [[target.what, target.wanted, target.seen, "met" if target.met else "MISSED"] for target in seen]
    return _table(f"targets, at {AT} connections", ["", "wanted", "seen", ""], rows)


def _columns(bodies: Iterable[str], connections: Sequence[int]) -> list[str]:
    return [f"{body} x{count}" for body in bodies for count in connections]


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return "  ".join([cells[0].ljust(len(first)), *rest]).rstrip()

    return "\n".join([title, line(head), *map(line, rows)])

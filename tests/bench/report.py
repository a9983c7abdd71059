"""Formats the tables, and compares the figures with the targets."""

import dataclasses
import platform
from collections.abc import Iterable, Iterator, Sequence
from os import cpu_count
from statistics import median
from typing import Any, NamedTuple

from tests.bench.candidates import ALLOWING, CEILING, GO, IN_MEMORY, IN_REDIS, IN_REDIS_BY_SOCKET, KOPF, MANY, OURS
from tests.bench.decisions import ONE_IN_MEMORY, ONE_IN_REDIS
from tests.bench.measure import BODIES, EVENT_REVIEW, ONE_FIELD_POLICIES, TARGET_CONNECTIONS, Case, Results

MIN_RATE_RATIOS = {GO.name: {"small": 1.4, "large": 3.0}, KOPF.name: {"small": 1.7, "large": 2.3}}
MAX_TIME_RATIO = 1.35
MIN_RATE_OF_MANY = 0.9
MAX_START_SECONDS = 0.6
MAX_MEMORY_MB = 80
MAX_ONE_FIELD_US = 150
MIN_REDIS_RATE = 0.6
MAX_DECISION_US = {ONE_IN_MEMORY: 2, ONE_IN_REDIS: 250}


class Target(NamedTuple):
    """A target and the figure measured."""

    quantity: str
    condition: str
    measured: str
    met: bool


def format_report(results: Results, connections: Sequence[int]) -> str:
    """Format all tables."""
    parts = [
        *_format_not_installed(results),
        _format_rates(results, BODIES, connections),
        _format_ratios(results, connections),
    ]
    parts += [_one_field(results), _format_rates(results, EVENT_REVIEW, connections), _format_decisions(results)]
    parts += [_format_targets(targets(results))]
    return "\n\n".join(part for part in parts if part)


def to_json(results: Results) -> dict[str, Any]:
    """Return all figures for the JSON file."""
    return {
        "machine": {"cpus": cpu_count(), "python": platform.python_version(), "system": platform.platform()},
        "not_installed": results.not_installed,
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
    """Return the targets for which there are figures."""
    return [*_speed_targets(results), *_footprint_targets(results), *_event_targets(results)]


def _speed_targets(results: Results) -> Iterator[Target]:
    for body in BODIES:
        ours, go, kopf, ceiling = (Case(c.name, body, TARGET_CONNECTIONS) for c in (OURS, GO, KOPF, CEILING))
        peers = [peer for peer in (go, kopf) if results.has(OURS.name, peer.server)]
        for peer in peers[:1]:  # kopf if Go is not installed
            minimum, ratio = MIN_RATE_RATIOS[peer.server][body], results.rate_ratio(ours, peer)
            yield _at_least(
                f"{body}: requests per second, relative to {results.titles[peer.server]}", minimum, ratio, "x"
            )
        for peer in peers:
            p99 = results.p99_ratio(ours, peer)
            yield _at_most(f"{body}: p99, relative to {results.titles[peer.server]}", 1.0, p99, "x")
        if results.has(OURS.name, CEILING.name):
            ratio = results.rate_ratio(ceiling, ours)
            yield _at_most(f"{body}: time per request, relative to the bare ceiling", MAX_TIME_RATIO, ratio, "x")
    if results.has(MANY.name, ALLOWING.name):
        ratio = results.rate_ratio(
            Case(MANY.name, "small", TARGET_CONNECTIONS), Case(ALLOWING.name, "small", TARGET_CONNECTIONS)
        )
        yield _at_least("200 policies of which one matches, relative to one policy", MIN_RATE_OF_MANY, ratio, "x")


def _footprint_targets(results: Results) -> Iterator[Target]:
    if starts := results.starts.get(OURS.name):
        yield _at_most("start to the first response", MAX_START_SECONDS, median(starts), " s")
    if memory := results.memory_mb.get(OURS.name):
        yield _at_most("resident memory after the load", MAX_MEMORY_MB, memory, " MB")
    if results.one_field:
        for policy in ("patch", "replace"):
            cost = results.extra_cost(policy, baseline="allow").wall_us
            quantity = f"one field of a 30 kB object by {policy}, in addition to a policy that allows"
            yield _at_most(quantity, MAX_ONE_FIELD_US, cost, " us")


def _event_targets(results: Results) -> Iterator[Target]:
    for name in (IN_REDIS, IN_REDIS_BY_SOCKET):
        if results.has(IN_MEMORY, name):
            ratio = results.rate_ratio(
                Case(name, "event", TARGET_CONNECTIONS), Case(IN_MEMORY, "event", TARGET_CONNECTIONS)
            )
            quantity = f"{results.titles[name]}: requests per second, relative to memory"
            yield _at_least(quantity, MIN_REDIS_RATE, ratio, "x")
    for quantity, maximum in MAX_DECISION_US.items():
        if quantity in results.decisions_us:
            yield _at_most(quantity, maximum, results.decisions_us[quantity], " us")


def _at_least(quantity: str, minimum: float, measured: float, unit: str) -> Target:
    return Target(quantity, f">= {minimum:g}{unit}", f"{measured:.3g}{unit}", measured >= minimum)


def _at_most(quantity: str, maximum: float, measured: float, unit: str) -> Target:
    return Target(quantity, f"<= {maximum:g}{unit}", f"{measured:.3g}{unit}", measured <= maximum)


def _format_not_installed(results: Results) -> list[str]:
    return [f"not measured: {title} ({reason})" for title, reason in results.not_installed.items()]


def _format_rates(results: Results, bodies: Iterable[str], connections: Sequence[int]) -> str:
    def cell(case: Case) -> str:
        return f"{results.rate(case):,.0f} ({results.p99_ms(case):.2f})" if case in results.samples else ""

    rows = [
        [title, *cells, _format_memory(results, name)]
        for name, title in results.titles.items()
        if any(cells := [cell(Case(name, body, count)) for body in bodies for count in connections])
    ]
    head = ["", *_column_titles(bodies, connections), "MB after the load"]
    return _format_table("requests per second (99th percentile in ms), medians of the rounds", head, rows)


def _format_memory(results: Results, name: str) -> str:
    return f"{results.memory_mb[name]:.0f}" if name in results.memory_mb else ""


def _format_ratios(results: Results, connections: Sequence[int]) -> str:
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
    title = f"{results.titles[base]} relative to other servers: requests per second (99th percentile), median ratios"
    return _format_table(title, ["relative to", *_column_titles(BODIES, connections)], rows)


def _one_field(results: Results) -> str:
    if not results.one_field:
        return ""
    rows = []
    for policy in ONE_FIELD_POLICIES:
        costs, extra = results.one_field[policy], results.extra_cost(policy, baseline="allow")
        wall, cpu = (median(cost[i] for cost in costs) for i in range(2))
        rows.append([policy, f"{wall:.0f}", f"{cpu:.0f}", f"{extra.wall_us:+.0f}", f"{extra.cpu_us:+.0f}"])
    head = ["", "time", "CPU time", "time in addition to allow", "CPU time in addition to allow"]
    return _format_table("one field of a 30 kB object: microseconds per request, 1 connection", head, rows)


def _format_decisions(results: Results) -> str:
    rows = [[quantity, f"{cost:.2f}"] for quantity, cost in results.decisions_us.items()]
    if results.new_keys is not None:
        count, us_per_key, extra_kib = results.new_keys
        rows.append([f"one of {count:,} new keys ({extra_kib:,.0f} KiB more than a full cache)", f"{us_per_key:.2f}"])
    return _format_table("event rate limits: microseconds per decision", ["", "us"], rows)


def _format_targets(measured: Iterable[Target]) -> str:
    rows = [
        [target.quantity, target.condition, target.measured, "met" if target.met else "MISSED"] for target in measured
    ]
    return _format_table(f"targets, at {TARGET_CONNECTIONS} connections", ["", "target", "measured", ""], rows)


def _column_titles(bodies: Iterable[str], connections: Sequence[int]) -> list[str]:
    return [f"{body} x{count}" for body in bodies for count in connections]


def _format_table(title: str, head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: list[str]) -> str:
        first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        return "  ".join([cells[0].ljust(len(first)), *rest]).rstrip()

    return "\n".join([title, line(head), *map(line, rows)])

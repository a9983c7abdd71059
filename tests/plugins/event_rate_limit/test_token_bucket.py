"""Tests of token buckets in memory, against exact arithmetic in fractions."""

import random
import sys
import threading
import tracemalloc
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit.token_bucket import Limit, LimitType, MemoryBudget

SECOND = 10**9
MOST = 2**31 - 1
DAY = 24 * 3600 * SECOND


class Clock:
    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Reference:
    """The rule in fractions: levels, their times, and the order in which the keys were last used."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self.levels: OrderedDict[str, tuple[Fraction, int]] = OrderedDict()

    def take(self, key: str, now: int) -> int:
        level, before = self.levels.pop(key, (Fraction(self.limit.burst), now))
        level = min(Fraction(self.limit.burst), level + Fraction((now - before) * self.limit.qps, SECOND))
        allowed = level >= 1
        self.levels[key] = (level - 1 if allowed else level, now)
        if len(self.levels) > self.limit.cache_size:
            self.levels.popitem(last=False)
        return 0 if allowed else ceil((1 - level) * SECOND / self.limit.qps)


def limit(qps: int = 1, burst: int = 1, cache_size: int = 4096, type_: LimitType = "Namespace") -> Limit:
    return Limit(type_, qps, burst, cache_size)


def budget(*limits: Limit, clock: Clock | None = None) -> MemoryBudget:
    return MemoryBudget(limits, MetricRegistry(), clock or Clock())


def numbered(count: int, start: int = 0) -> Iterable[str]:
    return (f"key-{number}" for number in range(start, start + count))


LIMITS = {
    "slow": limit(3, 10),
    "one by one": limit(1, 1),
    "quick": limit(5000, 10_000),
    "odd": limit(7, 13),
    "huge": limit(MOST, MOST),
    "huge burst": limit(1, MOST),
    "huge rate": limit(MOST, 1),
    "a small cache": limit(3, 2, cache_size=3),
    "a cache of one": limit(11, 2, cache_size=1),
    "one bucket": limit(3, 10, cache_size=1, type_="Server"),
}


@pytest.mark.parametrize("each", LIMITS.values(), ids=LIMITS)
def test_decisions_and_waits_are_exact(each: Limit) -> None:
    decide = random.Random(repr(each))
    clock, reference = Clock(decide.randrange(DAY)), Reference(each)
    buckets = budget(each, clock=clock)
    keys = [""] if each.type == "Server" else list(numbered(5))
    wait = denied = 0
    for _ in range(5000):
        if decide.random() < 0.3:  # to the nanosecond of the next token, or one before or after
            clock.now += max(0, wait + decide.randint(-1, 1))
        elif decide.random() < 0.5:
            clock.now += decide.randrange(ceil(SECOND / each.qps / 4))
        key = decide.choice(keys)
        [wait] = buckets.take([key])
        assert wait == reference.take(key, clock.now)
        denied += wait > 0
    assert denied > 100 or each.burst > 5000


def test_limits_are_independent() -> None:
    decide = random.Random(3)
    limits = [limit(2, 3), limit(5, 4, cache_size=2, type_="User"), limit(1, 6)]
    clock, references = Clock(), [Reference(each) for each in limits]
    buckets = budget(*limits, clock=clock)
    for _ in range(5000):
        clock.now += decide.randrange(SECOND)
        keys = [decide.choice("abc") for _ in limits]
        expected = [reference.take(key, clock.now) for reference, key in zip(references, keys, strict=True)]
        assert buckets.take(keys) == expected


def test_every_limit_takes_a_token() -> None:
    buckets = budget(limit(burst=1), limit(burst=3), limit(burst=1))
    assert [bool(wait) for wait in buckets.take(["a", "a", "a"])] == [False, False, False]
    assert [bool(wait) for wait in buckets.take(["a", "a", "b"])] == [True, False, False]
    assert [bool(wait) for wait in buckets.take(["a", "a", "b"])] == [True, False, True]
    assert [bool(wait) for wait in buckets.take(["c", "a", "c"])] == [False, True, False]


def test_a_denied_request_takes_no_token() -> None:
    clock = Clock()
    buckets = budget(limit(qps=1, burst=1), clock=clock)
    assert buckets.take(["a"]) == [0]
    for clock.now in range(0, SECOND, SECOND // 100):
        assert buckets.take(["a"]) == [SECOND - clock.now]
    clock.now = SECOND
    assert buckets.take(["a"]) == [0]


def test_tokens_accumulate_up_to_the_burst() -> None:
    clock = Clock()
    buckets = budget(limit(qps=3, burst=10), clock=clock)
    for clock.now in (0, 1000 * DAY):
        assert [bool(buckets.take(["a"])[0]) for _ in range(11)] == [False] * 10 + [True]
    clock.now += SECOND
    assert [bool(buckets.take(["a"])[0]) for _ in range(4)] == [False] * 3 + [True]


LIMITS_AT_RANDOM = st.builds(limit, st.integers(1, 20) | st.just(MOST), st.integers(1, 6), st.integers(1, 3))
STEPS = st.integers(0, 3 * SECOND) | st.integers(0, 3) | st.just(SECOND)


@given(LIMITS_AT_RANDOM, st.lists(STEPS, max_size=60), st.integers(0, DAY))
def test_no_interval_exceeds_the_burst_plus_the_rate(each: Limit, steps: list[int], start: int) -> None:
    clock = Clock(start)
    buckets = budget(each, clock=clock)
    accepted = []
    for step in steps:
        clock.now += step
        if buckets.take(["a"]) == [0]:
            accepted.append(clock.now)
    for first, begin in enumerate(accepted):
        for last, end in enumerate(accepted[first:], first):
            assert (last - first + 1) * SECOND <= each.burst * SECOND + each.qps * (end - begin)


@given(LIMITS_AT_RANDOM, st.lists(STEPS, max_size=30), st.integers(1, SECOND))
def test_waits_are_sufficient_and_necessary(each: Limit, steps: list[int], early: int) -> None:
    clock = Clock()
    buckets = budget(each, clock=clock)
    for step in steps:
        clock.now += step
        [wait] = buckets.take(["a"])
        if wait:
            due = clock.now + wait
            clock.now = max(clock.now, due - early)
            assert buckets.take(["a"]) == [due - clock.now]
            clock.now = due
            assert buckets.take(["a"]) == [0]


@given(LIMITS_AT_RANDOM, st.lists(st.integers(-3 * SECOND, 3 * SECOND), min_size=1, max_size=60), st.integers(0, DAY))
def test_a_clock_that_goes_back_yields_no_tokens(each: Limit, steps: list[int], start: int) -> None:
    clock = Clock(start)
    buckets = budget(each, clock=clock)
    accepted, readings = 0, []
    for step in steps:
        clock.now += step
        readings.append(clock.now)
        [wait] = buckets.take(["a"])
        assert wait >= 0
        accepted += wait == 0
    assert accepted * SECOND <= each.burst * SECOND + each.qps * (max(readings) - readings[0])


def test_the_least_recently_used_key_is_evicted() -> None:
    buckets = budget(limit(burst=1, cache_size=2))
    assert buckets.take(["a"]) == buckets.take(["b"]) == [0]
    assert buckets.take(["a"]) != [0]  # denied, but recently used
    assert buckets.take(["c"]) == [0]  # evicts b
    assert buckets.take(["a"]) != [0]
    assert buckets.take(["b"]) == [0]  # full again; evicts c
    assert buckets.take(["a"]) != [0]
    assert buckets.take(["c"]) == [0]


def test_keys_and_evictions_are_counted() -> None:
    metrics = MetricRegistry()
    buckets = MemoryBudget(
        [limit(cache_size=3), limit(cache_size=2), limit(cache_size=1, type_="Server")], metrics, Clock()
    )
    for number in range(10):
        buckets.take([str(number), str(number % 2), ""])
    keys, evictions = (metrics.by_name[f"webhooks_event_rate_limit_{name}"] for name in ("keys", "evictions"))
    assert keys.values == {("Namespace",): 5, ("Server",): 1}
    assert evictions.values == {("Namespace",): 7}


@pytest.fixture
def frequent_switches() -> Iterator[None]:
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_a_budget_is_safe_for_threads() -> None:
    buckets = budget(limit(burst=5000), limit(burst=7, cache_size=2))
    accepted: list[tuple[int, int]] = []

    def ask() -> None:
        waits = [buckets.take(["a", "b"]) for _ in range(2000)]
        accepted.append((sum(wait == 0 for wait, _ in waits), sum(wait == 0 for _, wait in waits)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sum(column) for column in zip(*accepted, strict=True)] == [5000, 7]


def test_memory_is_limited_by_the_cache() -> None:
    buckets = budget(limit(burst=100))
    for key in numbered(3 * 4096):
        buckets.take([key])
    tracemalloc.start()
    try:
        for key in numbered(100_000, start=3 * 4096):
            buckets.take([key])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4096 * 400  # bytes for the keys that are now in the cache

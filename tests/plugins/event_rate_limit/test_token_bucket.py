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
    """The rule in fractions: a level, when it was so, and the order in which the keys were last asked for."""

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
def test_every_decision_and_every_wait_is_that_of_fractions(each: Limit) -> None:
    decide = random.Random(repr(each))
    clock, reference = Clock(decide.randrange(DAY)), Reference(each)
    own = budget(each, clock=clock)
    keys = [""] if each.type == "Server" else list(numbered(5))
    wait = refused = 0
    for _ in range(5000):
        if decide.random() < 0.3:  # to the nanosecond at which there is a token again, or next to it
            clock.now += max(0, wait + decide.randint(-1, 1))
        elif decide.random() < 0.5:
            clock.now += decide.randrange(ceil(SECOND / each.qps / 4))
        key = decide.choice(keys)
        [wait] = own.take([key])
        assert wait == reference.take(key, clock.now)
        refused += wait > 0
    assert refused > 100 or each.burst > 5000


def test_several_limits_are_each_on_their_own() -> None:
    decide = random.Random(3)
    limits = [limit(2, 3), limit(5, 4, cache_size=2, type_="User"), limit(1, 6)]
    clock, references = Clock(), [Reference(each) for each in limits]
    own = budget(*limits, clock=clock)
    for _ in range(5000):
        clock.now += decide.randrange(SECOND)
        keys = [decide.choice("abc") for _ in limits]
        expected = [reference.take(key, clock.now) for reference, key in zip(references, keys, strict=True)]
        assert own.take(keys) == expected


def test_none_is_short_circuited() -> None:
    own = budget(limit(burst=1), limit(burst=3), limit(burst=1))
    assert [bool(wait) for wait in own.take(["a", "a", "a"])] == [False, False, False]
    assert [bool(wait) for wait in own.take(["a", "a", "b"])] == [True, False, False]
    assert [bool(wait) for wait in own.take(["a", "a", "b"])] == [True, False, True]
    assert [bool(wait) for wait in own.take(["c", "a", "c"])] == [False, True, False]


def test_a_refused_request_takes_nothing() -> None:
    clock = Clock()
    own = budget(limit(qps=1, burst=1), clock=clock)
    assert own.take(["a"]) == [0]
    for clock.now in range(0, SECOND, SECOND // 100):
        assert own.take(["a"]) == [SECOND - clock.now]
    clock.now = SECOND
    assert own.take(["a"]) == [0]


def test_unused_tokens_are_kept_up_to_the_burst() -> None:
    clock = Clock()
    own = budget(limit(qps=3, burst=10), clock=clock)
    for clock.now in (0, 1000 * DAY):
        assert [bool(own.take(["a"])[0]) for _ in range(11)] == [False] * 10 + [True]
    clock.now += SECOND
    assert [bool(own.take(["a"])[0]) for _ in range(4)] == [False] * 3 + [True]


LIMITS_AT_RANDOM = st.builds(limit, st.integers(1, 20) | st.just(MOST), st.integers(1, 6), st.integers(1, 3))
STEPS = st.integers(0, 3 * SECOND) | st.integers(0, 3) | st.just(SECOND)


@given(LIMITS_AT_RANDOM, st.lists(STEPS, max_size=60), st.integers(0, DAY))
def test_no_window_has_more_than_a_burst_and_what_its_time_brings(each: Limit, steps: list[int], start: int) -> None:
    clock = Clock(start)
    own = budget(each, clock=clock)
    accepted = []
    for step in steps:
        clock.now += step
        if own.take(["a"]) == [0]:
            accepted.append(clock.now)
    for first, begin in enumerate(accepted):
        for last, end in enumerate(accepted[first:], first):
            assert (last - first + 1) * SECOND <= each.burst * SECOND + each.qps * (end - begin)


@given(LIMITS_AT_RANDOM, st.lists(STEPS, max_size=30), st.integers(1, SECOND))
def test_who_waits_as_told_is_not_refused_and_who_does_not_is(each: Limit, steps: list[int], early: int) -> None:
    clock = Clock()
    own = budget(each, clock=clock)
    for step in steps:
        clock.now += step
        [wait] = own.take(["a"])
        if wait:
            told = clock.now + wait
            clock.now = max(clock.now, told - early)
            assert own.take(["a"]) == [told - clock.now]
            clock.now = told
            assert own.take(["a"]) == [0]


@given(LIMITS_AT_RANDOM, st.lists(st.integers(-3 * SECOND, 3 * SECOND), min_size=1, max_size=60), st.integers(0, DAY))
def test_a_clock_that_goes_backwards_gives_no_free_tokens(each: Limit, steps: list[int], start: int) -> None:
    clock = Clock(start)
    own = budget(each, clock=clock)
    accepted, readings = 0, []
    for step in steps:
        clock.now += step
        readings.append(clock.now)
        [wait] = own.take(["a"])
        assert wait >= 0
        accepted += wait == 0
    assert accepted * SECOND <= each.burst * SECOND + each.qps * (max(readings) - readings[0])


def test_the_key_that_was_not_asked_for_longest_gives_way_and_starts_full() -> None:
    own = budget(limit(burst=1, cache_size=2))
    assert own.take(["a"]) == own.take(["b"]) == [0]
    assert own.take(["a"]) != [0]  # refused, and recent all the same
    assert own.take(["c"]) == [0]  # b gives way
    assert own.take(["a"]) != [0]
    assert own.take(["b"]) == [0]  # full again; c gives way
    assert own.take(["a"]) != [0]
    assert own.take(["c"]) == [0]


def test_kept_and_evicted_keys_are_told() -> None:
    meters = MetricRegistry()
    own = MemoryBudget([limit(cache_size=3), limit(cache_size=2), limit(cache_size=1, type_="Server")], meters, Clock())
    for number in range(10):
        own.take([str(number), str(number % 2), ""])
    keys, evictions = (meters.by_name[f"webhooks_event_rate_limit_{name}"] for name in ("keys", "evictions"))
    assert keys.values == {("Namespace",): 5, ("Server",): 1}
    assert evictions.values == {("Namespace",): 7}


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_share_a_budget_exactly() -> None:
    own = budget(limit(burst=5000), limit(burst=7, cache_size=2))
    accepted: list[tuple[int, int]] = []

    def ask() -> None:
        waits = [own.take(["a", "b"]) for _ in range(2000)]
        accepted.append((sum(wait == 0 for wait, _ in waits), sum(wait == 0 for _, wait in waits)))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sum(column) for column in zip(*accepted, strict=True)] == [5000, 7]


def test_keys_without_end_take_no_more_memory_than_the_cache() -> None:
    own = budget(limit(burst=100))
    for key in numbered(3 * 4096):
        own.take([key])
    tracemalloc.start()
    try:
        for key in numbered(100_000, start=3 * 4096):
            own.take([key])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4096 * 400  # of the keys that now are kept, none of which was there before

"""Measures a decision of the event rate limits in this process, without a server."""

import resource
import timeit
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import uvloop

from tests.bench import bodies
from tests.bench.servers import BenchError
from tests.support.redis_server import redis_settings
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit.keys import compute_key
from webhooks.plugins.event_rate_limit.policy import Limiter, create_local_policy
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.token_bucket import Limit, LimitType, MemoryBudget
from webhooks.reviews import admission, admission_codec

NEVER_REACHED = 2**31 - 1
CACHE = 4096
CALLS = 5000
TYPES: tuple[LimitType, ...] = ("Server", "Namespace", "User", "SourceAndObject")
FOUR_LIMITS = [Limit(type_, NEVER_REACHED, NEVER_REACHED, CACHE) for type_ in TYPES]
ONE_LIMIT = FOUR_LIMITS[1:2]
ONE_IN_MEMORY = "a decision in memory, 1 limit"
ONE_IN_REDIS = "a decision in Redis, 1 limit"


def measure_in_memory() -> dict[str, float]:
    """Measure the decision about one event, in microseconds: the minimum of many."""
    review = admission_codec.CODEC.decode(bodies.EVENT_REVIEW.read_bytes())
    keys = [compute_key(type_, review) for type_ in TYPES]
    empty = MemoryBudget([Limit("Namespace", 1, 1, CACHE)], MetricRegistry())
    one, four = MemoryBudget(ONE_LIMIT, MetricRegistry()), MemoryBudget(FOUR_LIMITS, MetricRegistry())
    return {
        ONE_IN_MEMORY: _time_call(lambda: one.take(keys[1:2])),
        "a decision in memory, 1 limit, no token left": _time_call(lambda: empty.take(keys[1:2])),
        "a decision in memory, 4 limits": _time_call(lambda: four.take(keys)),
        "the key of type SourceAndObject": _time_call(lambda: compute_key("SourceAndObject", review)),
        "the policy, 1 limit": _time_call(_policy(ONE_LIMIT, review)),
        "the policy, 4 limits": _time_call(_policy(FOUR_LIMITS, review)),
    }


def _policy(limits: Sequence[Limit], review: admission.AdmissionReview) -> Callable[[], object]:
    metrics = MetricRegistry()
    policy = create_local_policy(Limiter(limits, metrics), MemoryBudget(limits, metrics))
    return lambda: policy.call(review)


def _time_call(call: Callable[[], object], number: int = 20_000) -> float:
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


def measure_in_redis(url: str) -> dict[str, float]:
    """Measure how long consecutive decisions wait for Redis: the median, in microseconds."""
    review = admission_codec.CODEC.decode(bodies.EVENT_REVIEW.read_bytes())
    keys = [compute_key(type_, review) for type_ in TYPES]

    async def measure_median(limits: Sequence[Limit], keys: Sequence[str]) -> float:
        metrics = MetricRegistry()
        budget = RedisBudget(limits, redis_settings(url), MemoryBudget(limits, metrics), metrics)
        await _time_decisions(budget, keys, CALLS // 10)
        durations = await _time_decisions(budget, keys, CALLS)
        await budget.close()
        if any(metrics.by_name["webhooks_event_rate_limit_local_decisions"].values.values()):
            raise BenchError("Redis was not available")
        return median(durations) * 1e6

    return {
        ONE_IN_REDIS: uvloop.run(measure_median(ONE_LIMIT, keys[1:2])),
        "a decision in Redis, 4 limits": uvloop.run(measure_median(FOUR_LIMITS, keys)),
    }


async def _time_decisions(budget: RedisBudget, keys: Sequence[str], calls: int) -> list[float]:
    seconds = []
    for _ in range(calls):
        started = perf_counter()
        await budget.take(keys)
        seconds.append(perf_counter() - started)
    return seconds


class NewKeysCost(NamedTuple):
    """The cost of keys that were never seen: time per key, and memory in addition to a full cache."""

    count: int
    us_per_key: float
    extra_kib: float


def measure_new_keys(count: int) -> NewKeysCost:
    """Take a token of each of this number of new keys."""
    budget = MemoryBudget([Limit("SourceAndObject", 50, 100, CACHE)], MetricRegistry())
    _take_tokens(budget, range(CACHE))
    before, started = _resident_bytes(), perf_counter()
    _take_tokens(budget, range(CACHE, CACHE + count))
    seconds = perf_counter() - started
    return NewKeysCost(count, seconds / count * 1e6, (_resident_bytes() - before) / 1024)


def _take_tokens(budget: MemoryBudget, numbers: Iterable[int]) -> None:
    for number in numbers:
        budget.take(
            [f'["kubelet","node-17","Pod","team-a","web-{number}","517ffa81-3d74-4d64-8a96-e023a81ebc01","v1"]']
        )


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()

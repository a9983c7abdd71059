"""What a decision of the event rate limits costs, in this process and with nothing around it."""

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

MOST = 2**31 - 1
CACHE = 4096
CALLS = 5000
TYPES: tuple[LimitType, ...] = ("Server", "Namespace", "User", "SourceAndObject")
FOUR = [Limit(type_, MOST, MOST, CACHE) for type_ in TYPES]
ONE = FOUR[1:2]
ONE_IN_MEMORY = "a decision in memory, 1 limit"
ONE_IN_REDIS = "a decision in Redis, 1 limit"


def in_memory() -> dict[str, float]:
    """The microseconds of what is asked of one event, undisturbed."""
    review = admission_codec.CODEC.decode(bodies.EVENT.read_bytes())
    keys = [compute_key(type_, review) for type_ in TYPES]
    used_up = MemoryBudget([Limit("Namespace", 1, 1, CACHE)], MetricRegistry())
    one, four = MemoryBudget(ONE, MetricRegistry()), MemoryBudget(FOUR, MetricRegistry())
    return {
        ONE_IN_MEMORY: _cost(lambda: one.take(keys[1:2])),
        "a decision in memory, 1 limit, no token left": _cost(lambda: used_up.take(keys[1:2])),
        "a decision in memory, 4 limits": _cost(lambda: four.take(keys)),
        "the key of source and object": _cost(lambda: compute_key("SourceAndObject", review)),
        "the whole policy, 1 limit": _cost(_policy(ONE, review)),
        "the whole policy, 4 limits": _cost(_policy(FOUR, review)),
    }


def _policy(limits: Sequence[Limit], review: admission.AdmissionReview) -> Callable[[], object]:
    metrics = MetricRegistry()
    policy = create_local_policy(Limiter(limits, metrics), MemoryBudget(limits, metrics))
    return lambda: policy.call(review)


def _cost(call: Callable[[], object], number: int = 20_000) -> float:
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e6


def in_redis(url: str) -> dict[str, float]:
    """The median of the microseconds that decisions, one after another, wait for a store."""
    review = admission_codec.CODEC.decode(bodies.EVENT.read_bytes())
    keys = [compute_key(type_, review) for type_ in TYPES]

    async def waited(limits: Sequence[Limit], keys: Sequence[str]) -> float:
        metrics = MetricRegistry()
        budget = RedisBudget(limits, redis_settings(url), MemoryBudget(limits, metrics), metrics)
        await _waits(budget, keys, CALLS // 10)
        waits = await _waits(budget, keys, CALLS)
        await budget.close()
        if any(metrics.by_name["webhooks_event_rate_limit_local_decisions"].values.values()):
            raise BenchError("the store was away")
        return median(waits) * 1e6

    return {
        ONE_IN_REDIS: uvloop.run(waited(ONE, keys[1:2])),
        "a decision in Redis, 4 limits": uvloop.run(waited(FOUR, keys)),
    }


async def _waits(budget: RedisBudget, keys: Sequence[str], calls: int) -> list[float]:
    seconds = []
    for _ in range(calls):
        started = perf_counter()
        await budget.take(keys)
        seconds.append(perf_counter() - started)
    return seconds


class NewKeys(NamedTuple):
    """What keys came to that were never there: microseconds of each, and KiB more than a full cache."""

    count: int
    each_us: float
    more_kib: float


def of_new_keys(count: int) -> NewKeys:
    """Take a token of each of so many."""
    budget = MemoryBudget([Limit("SourceAndObject", 50, 100, CACHE)], MetricRegistry())
    _take(budget, range(CACHE))
    before, started = _resident(), perf_counter()
    _take(budget, range(CACHE, CACHE + count))
    seconds = perf_counter() - started
    return NewKeys(count, seconds / count * 1e6, (_resident() - before) / 1024)


def _take(budget: MemoryBudget, numbers: Iterable[int]) -> None:
    for number in numbers:
        budget.take(
            [f'["kubelet","node-17","Pod","team-a","web-{number}","517ffa81-3d74-4d64-8a96-e023a81ebc01","v1"]']
        )


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()

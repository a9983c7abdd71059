"""Token buckets in integer arithmetic, in memory.

A level is counted in nanotokens (1e-9 of a token): a bucket that gains `qps` tokens per second gains `qps` nanotokens
per nanosecond, so nothing is rounded. A bucket is stored as a single number: the time at which it will be full, in
nanotokens gained since the zero of the clock. Its difference to the current time is the number of nanotokens that the
bucket lacks (the virtual scheduling algorithm of ITU-T I.371). The stored number only increases, by the tokens taken.
So, whatever the clock does, no bucket yields more tokens than its burst plus its gain between the first and the latest
reading of the clock.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from webhooks.observability.metrics import MetricRegistry

LimitType: TypeAlias = Literal["Server", "Namespace", "User", "SourceAndObject"]

_TOKEN = 1_000_000_000  # nanotokens


class Limit(msgspec.Struct, frozen=True):
    """A limit for the events of each key.

    Attributes:
        type: what the key consists of.
        qps: the tokens that a bucket gains per second.
        burst: the capacity of a bucket, which is full at first.
        cache_size: the maximum number of buckets in memory.
    """

    type: LimitType
    qps: int
    burst: int
    cache_size: int


class BucketCache:
    """The buckets of one limit by key. The least recently used one is evicted. If its key returns, it is full.

    Args:
        limit: the limit.
        on_added: called when the number of buckets grows by one.
        on_evicted: called when a bucket is evicted.
    """

    __slots__ = ("_capacity", "_full_at", "_on_added", "_on_evicted", "_qps", "_size")

    def __init__(self, limit: Limit, on_added: Callable[[], None], on_evicted: Callable[[], None]) -> None:
        self._qps = limit.qps
        self._capacity = limit.burst * _TOKEN
        self._size = limit.cache_size
        self._full_at: OrderedDict[str, int] = OrderedDict()
        self._on_added = on_added
        self._on_evicted = on_evicted

    def take(self, key: str, now: int) -> int:
        """Take a token. Return 0, or the nanoseconds until there is one."""
        now_in_nanotokens = now * self._qps
        full_at = self._full_at.get(key)
        if full_at is None:
            self._full_at[key] = now_in_nanotokens + _TOKEN
            self._evict()
            return 0
        self._full_at.move_to_end(key)
        if full_at < now_in_nanotokens:
            full_at = now_in_nanotokens
        missing = full_at + _TOKEN - now_in_nanotokens - self._capacity
        if missing > 0:
            return -(-missing // self._qps)
        self._full_at[key] = full_at + _TOKEN
        return 0

    def _evict(self) -> None:
        if len(self._full_at) > self._size:
            self._full_at.popitem(last=False)
            self._on_evicted()
        else:
            self._on_added()


class MemoryBudget:
    """The budget of one process. It is thread-safe.

    Args:
        limits: the limits in the order of the configuration.
        metrics: the registry for the numbers of buckets in memory and of evictions.
        clock: returns the time in nanoseconds.
    """

    def __init__(
        self, limits: Sequence[Limit], metrics: MetricRegistry, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sizes: Counter[LimitType] = Counter()
        self._keys = metrics.gauge("webhooks_event_rate_limit_keys", "Keys with a bucket in memory.", ("type",))
        self._evictions = metrics.counter(
            "webhooks_event_rate_limit_evictions", "Keys whose bucket was evicted.", ("type",)
        )
        self._caches = [self._create_cache(limit) for limit in limits]

    def take(self, keys: Sequence[str]) -> list[int]:
        """Take a token from the bucket of each key, also if another bucket has none.

        Args:
            keys: `keys[i]` is the key for `limits[i]`.

        Returns:
            For each limit 0 if a token was taken, else the nanoseconds until there is one.
        """
        with self._lock:
            now = self._clock()
            return [cache.take(key, now) for cache, key in zip(self._caches, keys)]  # noqa: B905  # strict costs time

    def _create_cache(self, limit: Limit) -> BucketCache:
        def on_added() -> None:
            self._sizes[limit.type] += 1  # several limits may have the same type
            self._keys.set(self._sizes[limit.type], limit.type)

        return BucketCache(limit, on_added, lambda: self._evictions.add(limit.type))

"""Token buckets in integer nanoseconds, of which those that were asked for last are kept. Pure arithmetic.

A level is counted in nanotokens, 1e-9 of a token: a bucket that gains `qps` tokens a second gains `qps` nanotokens a
nanosecond, so nothing is ever rounded. And a bucket is no more than one number: the moment at which it will be full, by
the nanotokens it could have gained since the clock's zero. What lies between now and then is what it lacks (the virtual
scheduling of ITU-T I.371). That moment only ever moves on, by what is taken: whatever the clock does, no more is given
out than a burst and what the time from its first to its latest reading brings.
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
    """How many events may come of those that share a key.

    Attributes:
        type: what the key is made of.
        qps: tokens that a bucket gains a second.
        burst: tokens that a bucket holds at most, and at first.
        cache_size: buckets that are kept at most.
    """

    type: LimitType
    qps: int
    burst: int
    cache_size: int


class Buckets:
    """The buckets of one limit, by their keys: the least recently asked for gives way, and starts full when it returns.

    Args:
        limit: the limit.
        kept: told when one more is kept than before.
        evicted: told when one has given way.
    """

    __slots__ = ("_evicted", "_full_at", "_kept", "_most", "_qps", "_size")

    def __init__(self, limit: Limit, kept: Callable[[], None], evicted: Callable[[], None]) -> None:
        self._qps = limit.qps
        self._most = limit.burst * _TOKEN
        self._size = limit.cache_size
        self._full_at: OrderedDict[str, int] = OrderedDict()
        self._kept = kept
        self._evicted = evicted

    def take(self, key: str, now: int) -> int:
        """Take a token; 0, or the nanoseconds until there is one."""
        at = now * self._qps
        full_at = self._full_at.get(key)
        if full_at is None:
            self._full_at[key] = at + _TOKEN
            self._make_room()
            return 0
        self._full_at.move_to_end(key)
        if full_at < at:
            full_at = at
        missing = full_at + _TOKEN - at - self._most
        if missing > 0:
            return -(-missing // self._qps)
        self._full_at[key] = full_at + _TOKEN
        return 0

    def _make_room(self) -> None:
        if len(self._full_at) > self._size:
            self._full_at.popitem(last=False)
            self._evicted()
        else:
            self._kept()


class MemoryBudget:
    """The budget of one process, which its threads may share.

    Args:
        limits: in the order of the configuration.
        meters: where the keys that are kept and those that gave way are counted.
        clock: nanoseconds.
    """

    def __init__(
        self, limits: Sequence[Limit], meters: MetricRegistry, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: Counter[LimitType] = Counter()
        self._keys = meters.gauge("webhooks_event_rate_limit_keys", "Keys whose buckets are kept.", ("type",))
        self._evictions = meters.counter(
            "webhooks_event_rate_limit_evictions", "Keys that gave way to others.", ("type",)
        )
        self._buckets = [self._of(limit) for limit in limits]

    def take(self, keys: Sequence[str]) -> list[int]:
        """Take a token from the bucket of each key that has one; none is short-circuited.

        Args:
            keys: `keys[i]` belongs to `limits[i]`.

        Returns:
            For each limit 0 where a token was taken, else the nanoseconds until there is one.
        """
        with self._lock:
            now = self._clock()
            return [buckets.take(key, now) for buckets, key in zip(self._buckets, keys)]  # noqa: B905  # it costs

    def _of(self, limit: Limit) -> Buckets:
        def kept() -> None:
            self._kept[limit.type] += 1  # limits may share a type
            self._keys.set(self._kept[limit.type], limit.type)

        return Buckets(limit, kept, lambda: self._evictions.add(limit.type))

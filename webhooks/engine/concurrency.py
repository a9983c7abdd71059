"""Limits concurrent reviews: `max_in_flight` wait for policies, `max_queue` wait for a slot, further ones are rejected.

Reviews whose policies all run inline need no slot: they are answered before the next event is processed.
"""

import asyncio
from collections import deque
from time import perf_counter

from webhooks.errors import Overloaded
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Limits


class ConcurrencyLimiter:
    """The slots of one process.

    Args:
        limits: the numbers of reviews in flight and in the queue.
        metrics: the registry for the gauges of both numbers.

    Attributes:
        is_saturated: whether a further review that needs a slot would be rejected.
    """

    def __init__(self, limits: Limits, metrics: MetricRegistry) -> None:
        self._limits = limits
        self._free = limits.max_in_flight
        self._queue: deque[asyncio.Future[None]] = deque()
        self._in_flight = metrics.gauge("webhooks_reviews_in_flight", "Reviews that wait for their policies.")
        self._queued = metrics.gauge("webhooks_reviews_queued", "Reviews that wait for a slot.")
        self._update()

    def _update(self) -> None:
        self.is_saturated = not self._free and len(self._queue) >= self._limits.max_queue
        self._in_flight.set(self._limits.max_in_flight - self._free)
        self._queued.set(len(self._queue))

    def acquire(self) -> asyncio.Future[None] | None:
        """Acquire a slot, to be released later.

        Returns:
            None if a slot was free; else a place in the queue, to be passed to `wait`.

        Raises:
            Overloaded: the queue is full.
        """
        slot = None
        if self._free:
            self._free -= 1
        elif len(self._queue) < self._limits.max_queue:
            slot = asyncio.get_running_loop().create_future()
            self._queue.append(slot)
        else:
            raise Overloaded
        self._update()
        return slot

    async def wait(self, slot: asyncio.Future[None], deadline: float) -> None:
        """Wait for a slot. If this raises an exception, the slot must not be released.

        Args:
            slot: from `acquire`.
            deadline: the latest time, on the clock of `time.perf_counter`.

        Raises:
            Overloaded: no slot was released in time.
        """
        try:
            await asyncio.wait((slot,), timeout=deadline - perf_counter())
        finally:
            if not slot.done():
                slot.cancel()
                self._queue.remove(slot)
                self._update()
        if slot.cancelled():
            raise Overloaded

    def release(self) -> None:
        """Release a slot: the first review in the queue gets it."""
        if self._queue:
            self._queue.popleft().set_result(None)
        else:
            self._free += 1
        self._update()

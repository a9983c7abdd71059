"""Turns: so many reviews wait for their policies at once, so many more wait for their turn, and the rest is sent away.

Reviews whose policies all run in place are no matter of this: they are answered before anything else is looked at.
"""

import asyncio
from collections import deque
from time import perf_counter

from webhooks.errors import Overloaded
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Limits


class ConcurrencyLimiter:
    """The turns of one process.

    Args:
        limits: how many reviews have their turn at once, and how many wait for it.
        meters: where they are counted.

    Attributes:
        full: whether one more review that has to wait would be sent away.
    """

    def __init__(self, limits: Limits, meters: MetricRegistry) -> None:
        self._limits = limits
        self._free = limits.max_in_flight
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._in_flight = meters.gauge("webhooks_reviews_in_flight", "Reviews whose policies are waited for.")
        self._queued = meters.gauge("webhooks_reviews_queued", "Reviews that wait for their turn.")
        self._note()

    def _note(self) -> None:
        self.full = not self._free and len(self._waiting) >= self._limits.max_queue
        self._in_flight.set(self._limits.max_in_flight - self._free)
        self._queued.set(len(self._waiting))

    def take(self) -> asyncio.Future[None] | None:
        """Take a turn, which is to be given back: None where it has come, else what to wait for with `wait`.

        Raises:
            Overloaded: so many wait already.
        """
        turn = None
        if self._free:
            self._free -= 1
        elif len(self._waiting) < self._limits.max_queue:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        else:
            raise Overloaded
        self._note()
        return turn

    async def wait(self, turn: asyncio.Future[None], deadline: float) -> None:
        """Wait for a turn; one that does not come need not be given back.

        Args:
            turn: from `take`.
            deadline: when it is too late, on the clock of `time.perf_counter`.

        Raises:
            Overloaded: it did not come in time.
        """
        try:
            await asyncio.wait((turn,), timeout=deadline - perf_counter())
        finally:
            if not turn.done():
                turn.cancel()
                self._waiting.remove(turn)
                self._note()
        if turn.cancelled():
            raise Overloaded

    def give_back(self) -> None:
        """Let the next one have its turn."""
        if self._waiting:
            self._waiting.popleft().set_result(None)
        else:
            self._free += 1
        self._note()

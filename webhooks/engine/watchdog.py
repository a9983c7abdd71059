"""The pulse of an event loop: whether it turns, and what is done where it does not.

Every beat puts off an alarm of the kernel's. A loop that is stuck misses its beats, and the alarm comes: a signal,
which Python handles in the midst of whatever is stuck. So it needs no thread, and no turn at the interpreter, which a
regular expression that backtracks leaves to nobody.
"""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

BEAT = 0.05  # seconds; a beat takes some microseconds
PATIENCE = 0.1  # seconds without a beat, until the alarm comes, and comes again
LOST = 10.0  # seconds without a beat, after which none is expected any more


@dataclass(frozen=True, slots=True)
class BlockedLoop:
    """What is known when the alarm comes.

    Attributes:
        seconds: since the loop last turned.
        busy: how many of those it computed, or would have, had it been given a processor; else it waited.
        frame: where it is.
    """

    seconds: float
    busy: float
    frame: FrameType | None


class LoopWatchdog:
    """The pulse of the loop of the main thread, whose alarm is SIGALRM.

    Args:
        alarmed: called each time the alarm comes, in the midst of what is stuck: what it raises is raised there.
    """

    def __init__(self, alarmed: Callable[[BlockedLoop], None]) -> None:
        self._alarmed = alarmed
        self._last = math.inf
        self._busy = 0.0
        self._schedule = -1

    @property
    def silence(self) -> float:
        """The seconds since the loop last turned, if it is one that beats; for any thread."""
        return max(0.0, time.monotonic() - self._last)

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Beat on the loop that runs, in the main thread, for as long as the block lasts."""
        before = signal.signal(signal.SIGALRM, self._alarm)
        with suppress(OSError):
            self._schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._beat(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._next.cancel()
            self._last = math.inf
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if self._schedule != -1:
                os.close(self._schedule)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last, self._busy = time.monotonic(), self._occupation()
        signal.setitimer(signal.ITIMER_REAL, PATIENCE, PATIENCE)
        self._next = loop.call_later(BEAT, self._beat, loop)

    def _alarm(self, _: int, frame: FrameType | None) -> None:
        silence = self.silence
        if silence >= PATIENCE:  # else it came late, and the loop turns again
            self._alarmed(BlockedLoop(silence, self._occupation() - self._busy, frame))

    def _occupation(self) -> float:
        """The seconds that this thread had a processor or waited for one; all there are, where that is not told."""
        if self._schedule == -1:
            return time.monotonic()
        running, waiting, _ = os.pread(self._schedule, 100, 0).split()
        return (int(running) + int(waiting)) / 1e9

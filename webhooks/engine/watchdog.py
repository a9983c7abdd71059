"""Detects policies that block the event loop, interrupts them and logs them.

A timer on the event loop postpones an alarm of the kernel again and again. If the loop is blocked, the alarm sends
SIGALRM, which Python handles inside the code that blocks. It is a signal, not a thread: a backtracking regular
expression never releases the GIL.
"""

import asyncio
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from types import FrameType

from webhooks.engine.executor import PolicyExecutor
from webhooks.engine.invocation import PolicyInterrupted, invoke_async, policy_deadline, to_failure, validate_outcome
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import AnyPolicy

logger = logging.getLogger("webhooks.engine")

TICK = 0.05  # seconds between two ticks, which take some microseconds each
BLOCKED_AFTER = 0.1  # seconds without a tick until the alarm, and between further alarms
DEAD_AFTER = 10.0  # seconds without a tick, after which the loop is considered dead
MAX_BLOCKED = 1.0  # seconds that a policy may block the loop before it is interrupted

_INLINE_CALL = PolicyExecutor.run_inline.__code__
_CALLS = frozenset((_INLINE_CALL, invoke_async.__code__))
_OUR_CODE = frozenset(function.__code__ for function in (validate_outcome, to_failure, PolicyExecutor._demote))


@dataclass(frozen=True, slots=True)
class BlockedLoop:
    """The state of the loop when the alarm arrives.

    Attributes:
        seconds: since the last tick.
        busy_seconds: the part of them in which the thread ran or was ready to run; in the rest it waited.
        frame: the current frame.
    """

    seconds: float
    busy_seconds: float
    frame: FrameType | None


class LoopWatchdog:
    """Watches the event loop of the main thread. It owns SIGALRM.

    Args:
        on_blocked: called for each alarm, inside the code that blocks. Its exceptions are raised there.
    """

    def __init__(self, on_blocked: Callable[[BlockedLoop], None]) -> None:
        self._on_blocked = on_blocked
        self._last_tick = math.inf
        self._busy_at_tick = 0.0
        self._schedstat = -1

    @property
    def seconds_since_tick(self) -> float:
        """The seconds since the last tick; 0 if the watchdog does not run. For any thread."""
        return max(0.0, time.monotonic() - self._last_tick)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch the running loop, which must be in the main thread, until the block exits."""
        previous_handler = signal.signal(signal.SIGALRM, self._on_alarm)
        with suppress(OSError):
            self._schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._tick(asyncio.get_running_loop())
        try:
            yield
        finally:
            self._timer.cancel()
            self._last_tick = math.inf
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous_handler)
            if self._schedstat != -1:
                os.close(self._schedstat)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last_tick, self._busy_at_tick = time.monotonic(), self._busy_seconds()
        signal.setitimer(signal.ITIMER_REAL, BLOCKED_AFTER, BLOCKED_AFTER)
        self._timer = loop.call_later(TICK, self._tick, loop)

    def _on_alarm(self, _: int, frame: FrameType | None) -> None:
        seconds = self.seconds_since_tick
        if seconds >= BLOCKED_AFTER:  # else the signal was late, and the loop runs again
            self._on_blocked(BlockedLoop(seconds, self._busy_seconds() - self._busy_at_tick, frame))

    def _busy_seconds(self) -> float:
        """Return the seconds in which this thread ran or was ready to run; all seconds if the kernel has no count."""
        if self._schedstat == -1:
            return time.monotonic()
        running, ready, _ = os.pread(self._schedstat, 100, 0).split()
        return (int(running) + int(ready)) / 1e9


class PolicyInterrupter:
    """Interrupts policies that block the event loop.

    Args:
        metrics: the registry for the counter of blocked loops.
    """

    def __init__(self, metrics: MetricRegistry) -> None:
        self._count = metrics.counter(
            "webhooks_policy_blocked_loop_total", "Times that a policy blocked the event loop.", ("policy",)
        )
        self._is_reporting = False

    def interrupt(self, blocked: BlockedLoop) -> None:
        """Interrupt the policy that blocks the loop, if it is a policy. Called inside it, by `LoopWatchdog`.

        An inline policy that waits for something is interrupted at once: it may wait in a thread. Any other policy may
        block the loop for `MAX_BLOCKED`, or until its deadline if that is earlier.

        Raises:
            PolicyInterrupted: inside the policy.
        """
        location, call = _find_policy(blocked.frame)
        if location is None or call is None:
            return
        policy, started = call.f_locals["policy"], call.f_locals["started"]
        now, is_inline = perf_counter(), call.f_code is _INLINE_CALL
        seconds = now - started if is_inline else blocked.seconds  # a coroutine may have started long before
        if seconds < BLOCKED_AFTER / 2:
            return  # something else blocked the loop before it
        if not self._is_reporting:
            self._is_reporting = True
            line = f"{location.f_code.co_filename}:{location.f_lineno}"
            asyncio.get_running_loop().call_soon(self._report, policy, line, now - seconds)
        is_waiting = is_inline and blocked.busy_seconds < blocked.seconds / 2
        deadline = policy_deadline(policy, started, call.f_locals["deadline"])
        if is_waiting or seconds >= MAX_BLOCKED or now >= deadline:
            raise PolicyInterrupted(is_waiting=is_waiting)

    def _report(self, policy: AnyPolicy, line: str, started: float) -> None:
        self._is_reporting = False
        self._count.add(policy.name)
        logger.warning(
            "policy %s blocked the event loop, and thereby all reviews, for %.2f s at %s",
            policy.name,
            perf_counter() - started,
            line,
            extra={"policy": policy.name},
        )


def _find_policy(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """Return the innermost frame of a policy's own code and the frame that calls the policy; None if there are none."""
    innermost, outermost = frame, None
    while frame is not None and frame.f_code not in _CALLS:
        outermost, frame = frame, frame.f_back
    if outermost is None or outermost.f_code in _OUR_CODE:
        return None, None
    return innermost, frame

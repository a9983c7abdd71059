"""What is done about policies that keep the event loop, and with it everybody: they are found, stopped and told of."""

import asyncio
import logging
from time import perf_counter
from types import FrameType

from webhooks.engine.invocation import PolicyInterrupted, call, call_on_loop, checked, deadline_of, failure
from webhooks.engine.watchdog import PATIENCE, BlockedLoop
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import AnyPolicy

logger = logging.getLogger("webhooks.engine")

MAX_STALL = 1.0  # seconds that a policy may keep the loop, before it is stopped

_CALLS = frozenset((call.__code__, call_on_loop.__code__))
_OURS = frozenset((checked.__code__, failure.__code__))


class PolicyInterrupter:
    """Ends stalls of the loop.

    Args:
        meters: where they are counted.
    """

    def __init__(self, meters: MetricRegistry) -> None:
        self._count = meters.counter(
            "webhooks_policy_blocked_loop_total", "Times that a policy kept the event loop from turning.", ("policy",)
        )
        self._telling = False

    def end(self, stall: BlockedLoop) -> None:
        """Stop a policy that keeps the loop, if it is one; called in the midst of it (see `webhooks.engine.watchdog`).

        One that runs in place and waits for something is stopped at once: it can do so in a thread. All others have
        `MAX_STALL` to come to an end by themselves, but not more than until their deadline.

        Raises:
            Stalled: into the policy.
        """
        place, frame = _policy_at(stall.frame)
        if place is None or frame is None:
            return
        policy, started = frame.f_locals["policy"], frame.f_locals["started"]
        now, in_place = perf_counter(), frame.f_code is call.__code__
        seconds = now - started if in_place else stall.seconds  # a coroutine may have begun long before
        if seconds < PATIENCE / 2:
            return  # it is not to blame for what was before it
        if not self._telling:
            self._telling = True
            where = f"{place.f_code.co_filename}:{place.f_lineno}"
            asyncio.get_running_loop().call_soon(self._tell, policy, where, now - seconds)
        waits = in_place and stall.busy < stall.seconds / 2
        if waits or seconds >= MAX_STALL or now >= deadline_of(policy, started, frame.f_locals["deadline"]):
            raise PolicyInterrupted(waits=waits)

    def _tell(self, policy: AnyPolicy, where: str, began: float) -> None:
        self._telling = False
        self._count.add(policy.name)
        logger.warning(
            "policy %s kept the event loop, and with it every review, for %.2f s at %s",
            policy.name,
            perf_counter() - began,
            where,
            extra={"policy": policy.name},
        )


def _policy_at(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """Where in a policy's own code this is, and the frame of its call; nothing where it is in no policy."""
    innermost, outermost = frame, None
    while frame is not None and frame.f_code not in _CALLS:
        outermost, frame = frame, frame.f_back
    if outermost is None or outermost.f_code in _OURS:
        return None, None
    return innermost, frame

"""From a review to a verdict: select the policies, and drive the flow that asks them."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from webhooks.flows import FLOWS, UNASKED, Flow, Verdict
from webhooks.policy import AnyPolicy, Kind
from webhooks.registry import Registry
from webhooks.running import DEFAULT_TIMEOUT, Pace, Runner

__all__ = ["Dispatcher", "Verdict", "budget"]

_MAX_MARGIN = 0.5  # seconds, of the caller's timeout; kept for the way back


class Dispatcher:
    """Decides reviews by the policies of a registry.

    Args:
        registry: the policies.
        paced: see `Runner`.
    """

    def __init__(self, registry: Registry, paced: Callable[[str, Pace], None]) -> None:
        self.registry = registry
        self.runner = Runner(registry, paced)

    def decide(
        self, kind: Kind, review: Any, timeout: float | None = None, only: AnyPolicy | None = None
    ) -> Verdict | Awaitable[Verdict]:
        """Decide a review: at once where every policy runs in place, else when awaited.

        Args:
            kind: which policies to ask.
            review: of the protocol that belongs to the kind.
            timeout: seconds until the caller gives up.
            only: the one policy to ask.

        Raises:
            MalformedReview: a part of the review that was needed cannot be read.
        """
        deadline = perf_counter() + budget(timeout)
        policies = self.registry.select(kind, review) if only is None else _if_wanted(only, review)
        if not policies:
            return Verdict(UNASKED[kind])
        flow = FLOWS[kind](review, policies)
        if self.runner.in_place(policies):
            return self._drive_in_place(flow, deadline)
        return self._drive(flow, deadline)

    def _drive_in_place(self, flow: Flow, deadline: float) -> Verdict:
        run = self.runner.run_in_place
        try:
            wanted = next(flow)
            while True:
                results = []
                for policy, review in wanted:
                    results.append(run(policy, review, deadline))  # a comprehension is a call more
                wanted = flow.send(results)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict

    async def _drive(self, flow: Flow, deadline: float) -> Verdict:
        run = self.runner.run
        try:
            wanted = next(flow)
            while True:
                wanted = flow.send(
                    await asyncio.gather(*(run(policy, review, deadline) for policy, review in wanted))
                    if len(wanted) > 1
                    else [await run(wanted[0][0], wanted[0][1], deadline)]
                )
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict


def budget(timeout: float | None) -> float:
    """The seconds that policies have, of those after which the caller gives up."""
    if timeout is None:
        return DEFAULT_TIMEOUT
    return timeout - min(_MAX_MARGIN, timeout / 10)


def _if_wanted(policy: AnyPolicy, review: Any) -> list[AnyPolicy]:
    return [policy] if policy.match.wants_kind(review) and policy.match.wants(review) else []

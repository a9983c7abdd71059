"""From a review to a verdict: select the policies, and drive the flow that asks them."""

import asyncio
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any

from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.executor import DEFAULT_TIMEOUT, PolicyExecutor
from webhooks.engine.invocation import PolicyInterrupted, Result
from webhooks.engine.verdicts import FLOWS, NO_POLICY_OUTCOME, Flow, Verdict
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.reviews.kinds import Kind

__all__ = ["Dispatcher", "Verdict", "budget"]

_MAX_MARGIN = 0.5  # seconds, of the caller's timeout; kept for the way back


class Dispatcher:
    """Decides reviews by the policies of a registry.

    Args:
        registry: the policies.
        runner: what runs them.
        turns: of reviews whose policies are waited for.
    """

    def __init__(self, registry: Registry, runner: PolicyExecutor, turns: ConcurrencyLimiter) -> None:
        self.registry = registry
        self.runner = runner
        self.turns = turns

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
            Overloaded: the review had no turn in time; raised here or when awaited.
        """
        deadline = perf_counter() + budget(timeout)
        policies = self.registry.select(kind, review) if only is None else _if_wanted(only, review)
        if not policies:
            return Verdict(NO_POLICY_OUTCOME[kind])
        flow = FLOWS[kind](review, policies)
        if self.runner.in_place(policies):
            return self._drive_in_place(flow, deadline)
        return self._drive(flow, deadline, self.turns.take())

    def _drive_in_place(self, flow: Flow, deadline: float) -> Verdict | Awaitable[Verdict]:
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
        except PolicyInterrupted as stalled:
            return self._drive(flow, deadline, self.turns.take(), (wanted, results, stalled))

    async def _drive(
        self,
        flow: Flow,
        deadline: float,
        turn: asyncio.Future[None] | None,
        begun: tuple[Sequence[tuple[AnyPolicy, Any]], Sequence[Result], PolicyInterrupted] | None = None,
    ) -> Verdict:
        if turn is not None:
            await self.turns.wait(turn, deadline)
        run = self.runner.run
        try:
            wanted = next(flow) if begun is None else flow.send(await self._rest(*begun, deadline))
            while True:
                wanted = flow.send(
                    await asyncio.gather(*(run(policy, review, deadline) for policy, review in wanted))
                    if len(wanted) > 1
                    else [await run(wanted[0][0], wanted[0][1], deadline)]
                )
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict
        finally:
            self.turns.give_back()

    async def _rest(
        self,
        wanted: Sequence[tuple[AnyPolicy, Any]],
        results: Sequence[Result],
        stalled: PolicyInterrupted,
        deadline: float,
    ) -> list[Result]:
        """All results of what is wanted, when some are there, and the policy after those was stopped."""
        (stopped, review), *others = wanted[len(results) :]
        runs = [self.runner.run_again(stopped, review, stalled.deadline)]
        runs += [self.runner.run(policy, review, deadline) for policy, review in others]
        return [*results, *await asyncio.gather(*runs)]


def budget(timeout: float | None) -> float:
    """The seconds that policies have, of those after which the caller gives up."""
    if timeout is None:
        return DEFAULT_TIMEOUT
    return timeout - min(_MAX_MARGIN, timeout / 10)


def _if_wanted(policy: AnyPolicy, review: Any) -> list[AnyPolicy]:
    return [policy] if policy.matches_resource(review) and policy.matches(review) else []

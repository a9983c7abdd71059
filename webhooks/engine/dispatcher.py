"""From a review to a verdict: select the policies, and drive the flow that runs them."""

import asyncio
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Any

from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.executor import DEFAULT_TIMEOUT, PolicyExecutor
from webhooks.engine.invocation import PolicyInterrupted, Result
from webhooks.engine.verdicts import FLOWS, NO_POLICY_OUTCOME, Batch, Flow, Verdict
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.reviews.codec import Review
from webhooks.reviews.kinds import Kind

__all__ = ["Dispatcher", "Verdict", "budget"]

_MAX_MARGIN = 0.5  # seconds of the client's timeout that are reserved for the response


class Dispatcher:
    """Decides reviews by the policies of a registry.

    Args:
        registry: the policies.
        executor: runs the policies.
        limiter: limits the reviews that wait for policies.
    """

    def __init__(self, registry: Registry, executor: PolicyExecutor, limiter: ConcurrencyLimiter) -> None:
        self.registry = registry
        self.executor = executor
        self.limiter = limiter

    def decide(
        self, kind: Kind, review: Review, timeout: float | None = None, only: AnyPolicy | None = None
    ) -> Verdict[Any] | Awaitable[Verdict[Any]]:
        """Decide a review: immediately if all policies run inline, else when awaited.

        Args:
            kind: the kind of policies to run.
            review: a review of the protocol of that kind.
            timeout: the client's timeout in seconds.
            only: the only policy to run; None for all policies that match.

        Raises:
            MalformedReview: a required part of the review cannot be read.
            Overloaded: the review got no slot in time; raised here or when awaited.
        """
        deadline = perf_counter() + budget(timeout)
        policies = self.registry.select(kind, review) if only is None else _select(only, review)
        if not policies:
            return Verdict(NO_POLICY_OUTCOME[kind])
        flow = FLOWS[kind](review, policies)
        if not self.executor.are_inline(policies):
            return self._drive(flow, deadline, self.limiter.acquire())
        run = self.executor.run_inline
        try:
            batch = next(flow)
            while True:
                results = []
                for policy, own_review in batch:
                    results.append(run(policy, own_review, deadline))  # a comprehension would add a frame
                batch = flow.send(results)
        except StopIteration as stop:
            verdict: Verdict[Any] = stop.value
            return verdict
        except PolicyInterrupted as interrupted:
            return self._drive(flow, deadline, self.limiter.acquire(), (batch, results, interrupted))

    async def _drive(
        self,
        flow: Flow[Any],
        deadline: float,
        slot: asyncio.Future[None] | None,
        unfinished: tuple[Batch, Sequence[Result], PolicyInterrupted] | None = None,
    ) -> Verdict[Any]:
        if slot is not None:
            await self.limiter.wait(slot, deadline)
        run = self.executor.run
        try:
            batch = next(flow) if unfinished is None else flow.send(await self._finish_batch(*unfinished, deadline))
            while True:
                batch = flow.send(
                    await asyncio.gather(*(run(policy, review, deadline) for policy, review in batch))
                    if len(batch) > 1
                    else [await run(batch[0][0], batch[0][1], deadline)]
                )
        except StopIteration as stop:
            verdict: Verdict[Any] = stop.value
            return verdict
        finally:
            self.limiter.release()

    async def _finish_batch(
        self, batch: Batch, results: Sequence[Result], interrupted: PolicyInterrupted, deadline: float
    ) -> list[Result]:
        """Complete the results of a batch: run the interrupted policy again, and those that follow it."""
        (policy, review), *others = batch[len(results) :]
        runs = [self.executor.retry(policy, review, interrupted.deadline)]
        runs += [self.executor.run(policy, review, deadline) for policy, review in others]
        return [*results, *await asyncio.gather(*runs)]


def budget(timeout: float | None) -> float:
    """Return the seconds that policies have, out of the client's timeout."""
    if timeout is None:
        return DEFAULT_TIMEOUT
    return timeout - min(_MAX_MARGIN, timeout / 10)


def _select(policy: AnyPolicy, review: Any) -> list[AnyPolicy]:
    return [policy] if policy.matches_resource(review) and policy.matches(review) else []

"""Runs one policy under a deadline: inline, in a thread, as a coroutine, or in a process of its own."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from time import perf_counter
from typing import Any, cast

import msgspec

from webhooks.engine.invocation import (
    PolicyInterrupted,
    Result,
    invoke,
    invoke_async,
    policy_deadline,
    timeout_result,
    to_failure,
    validate_outcome,
)
from webhooks.engine.process_pool import IsolatedPolicyPool
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import AnyPolicy

FAST = 0.001  # seconds; 50 times the cost of running a policy in a thread
SLOW = 0.005  # seconds that an inline policy may delay all other reviews, once
PROMOTE_AFTER = 100  # surplus of fast over slow calls, after which a policy first runs inline
MAX_PROMOTE_AFTER = 3200  # the same, for a policy that was slow inline several times
THREADS = 64
MAX_OVERRUN = 8  # threads in which a policy may run past its deadline, before further calls are rejected
DEFAULT_TIMEOUT = 10.0  # seconds; the default timeout of API servers


class InlineState(msgspec.Struct):
    """Whether a policy is fast enough to run inline.

    Attributes:
        is_inline: whether it runs on the event loop; else in a thread.
        score: surplus of fast over slow calls in threads. Delays of the thread make some fast calls look slow, so a
            slow call only undoes one fast call.
        promote_after: the score at which it runs inline; each slow inline call doubles it.
        overrun: the number of threads in which it still runs past its deadline.
    """

    is_inline: bool = False
    score: int = 0
    promote_after: int = PROMOTE_AFTER
    overrun: int = 0

    def record_thread_call(self, seconds: float) -> None:
        """Record the duration of a call in a thread."""
        self.score = self.score + 1 if seconds < FAST else max(0, self.score - 1)
        self.is_inline = self.score >= self.promote_after

    def record_slow_inline_call(self) -> None:
        """Record an inline call that delayed all other reviews."""
        self.is_inline, self.score = False, 0
        self.promote_after = min(2 * self.promote_after, MAX_PROMOTE_AFTER)

    def record_waiting_inline_call(self) -> None:
        """Record that it waited for something: it belongs in a thread, even if most of its calls are fast."""
        self.is_inline, self.promote_after = False, sys.maxsize


class PolicyExecutor:
    """Runs policies, and learns how fast each of them is.

    A ``def`` policy may block, so it runs in a worker thread. But the thread costs more than most policies: after many
    fast calls a policy runs inline, until its first slow inline call. An isolated policy runs in its own processes.

    Args:
        policies: the policies that it will run.
        on_change: called whenever the `InlineState` of a policy changes.
        metrics: the registry for the counter of process exits.
    """

    def __init__(
        self, policies: Iterable[AnyPolicy], on_change: Callable[[str, InlineState], None], metrics: MetricRegistry
    ) -> None:
        self._on_change = on_change
        self._metrics = metrics
        self.inline_states: dict[AnyPolicy, InlineState] = {}
        self._pools: dict[AnyPolicy, IsolatedPolicyPool] = {}
        self._register(policies)
        self._inline: set[AnyPolicy] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="policy")
        self._running: set[Future[Result] | asyncio.Future[Result]] = set()
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Start a process for each isolated policy, and wait until it has loaded the policy.

        Raises:
            ConfigurationError: a policy cannot be loaded in its process.
        """
        await _start(self._pools.values())

    async def close(self) -> None:
        """Kill the processes of isolated policies."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    async def add(self, policies: Iterable[AnyPolicy]) -> None:
        """Add policies.

        Raises:
            ConfigurationError: an isolated policy cannot be loaded in its process. Then no policy is added.
        """
        added = self._register(policies)
        try:
            await _start(self._pools[policy] for policy in added if policy.isolation)
        except BaseException:
            await self.remove(added)
            raise

    async def remove(self, policies: Iterable[AnyPolicy]) -> None:
        """Remove policies that no review will use anymore."""
        pools = []
        for policy in policies:
            self.inline_states.pop(policy, None)
            self._inline.discard(policy)
            if policy in self._pools:
                pools.append(self._pools.pop(policy))
        await asyncio.gather(*(pool.close() for pool in pools))

    def _register(self, policies: Iterable[AnyPolicy]) -> list[AnyPolicy]:
        """Register policies; return those that were not registered yet."""
        added = [policy for policy in policies if policy not in self.inline_states]
        for policy in added:
            self.inline_states[policy] = InlineState()
            if policy.isolation:
                self._pools[policy] = IsolatedPolicyPool(policy, self._metrics)
        return added

    def are_inline(self, policies: Iterable[AnyPolicy]) -> bool:
        """Check whether all of the policies run inline now."""
        return self._inline.issuperset(policies)

    def run_inline(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy on the event loop. This is `invoke` in the same frame, for speed.

        Args:
            policy: a policy for which `are_inline` is true.
            review: its own copy of the review.
            deadline: the deadline of the review, on the clock of `time.perf_counter`.

        Raises:
            PolicyInterrupted: it waited for something, and was interrupted in time to be run again.
        """
        started = perf_counter()
        try:
            outcome = validate_outcome(policy, policy.call(review))
            result = Result(policy, outcome, None, perf_counter() - started)
        except BaseException as error:  # as in `invoke`
            result = Result(policy, None, to_failure(error), perf_counter() - started)
        return result if result.seconds < SLOW else self._demote(result, started, deadline)

    def _demote(self, result: Result, started: float, deadline: float) -> Result:
        """Move a policy that was slow inline to threads, and return its result.

        Raises:
            PolicyInterrupted: as `run_inline`.
        """
        policy, state = result.policy, self.inline_states[result.policy]
        cause = None if result.failure is None else result.failure.__cause__
        interrupted = cast("PolicyInterrupted", cause) if issubclass(type(cause), PolicyInterrupted) else None
        if interrupted is None:
            state.record_slow_inline_call()
        elif interrupted.is_waiting:
            state.record_waiting_inline_call()
        else:
            return result  # it stays where it can be interrupted: in a thread it might hold the GIL forever
        self._inline.discard(policy)
        self._on_change(policy.name, state)
        deadline = policy_deadline(policy, started, deadline)
        if started + result.seconds > deadline:
            return timeout_result(policy, result.seconds)
        if interrupted is not None:
            interrupted.deadline = deadline
            raise interrupted
        return result

    @property
    def is_busy(self) -> bool:
        """Whether a policy still runs."""
        return bool(self._running)

    async def run(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy where it belongs, until the deadline at most."""
        if policy in self._inline:
            try:
                return self.run_inline(policy, review, deadline)
            except PolicyInterrupted as interrupted:
                return await self.retry(policy, review, interrupted.deadline)
        started = perf_counter()
        deadline = policy_deadline(policy, started, deadline)
        if policy.isolation:
            return await self._run_isolated(policy, review, started, deadline)
        if policy.is_async:
            return await self._run_coroutine(policy, review, started, deadline)
        return await self._run_in_thread(policy, review, started, deadline)

    async def retry(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run an interrupted policy again, on an unmodified copy of the review."""
        copy = review.copy()
        result = await self.run(policy, copy, deadline)
        if copy.object_accessed:
            review.object_accessed = True
        return result

    async def _run_isolated(self, policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:
        try:
            outcome = await self._pools[policy].run(review, deadline)
            return Result(policy, validate_outcome(policy, outcome), None, perf_counter() - started)
        except TimeoutError:
            return timeout_result(policy, perf_counter() - started)
        except Exception as error:
            return Result(policy, None, to_failure(error), perf_counter() - started)

    async def _run_in_thread(self, policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:
        state = self.inline_states[policy]
        if state.overrun >= MAX_OVERRUN:
            return timeout_result(
                policy, 0.0, f"was not called: {state.overrun} of its calls still run past their deadline"
            )
        call = self._threads.submit(copy_context().run, self._call_in_thread, policy, review)
        self._running.add(call)
        call.add_done_callback(self._running.discard)
        future = asyncio.wrap_future(call)
        try:
            await _wait(future, deadline - started)
        finally:
            if not future.done() and not call.cancel():
                self._count_overrun(policy, state, 1)
                call.add_done_callback(lambda _: self._count_overrun(policy, state, -1))
        if future.done() and not future.cancelled():
            return future.result()
        return timeout_result(policy, perf_counter() - started)

    async def _run_coroutine(self, policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:
        task = asyncio.get_running_loop().create_task(invoke_async(policy, review, started, deadline))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await _wait(task, deadline - started)
        finally:
            if not task.done():
                task.cancel()  # without waiting for it: it may ignore the cancellation
        if task.done() and not task.cancelled():
            return task.result()
        return timeout_result(policy, perf_counter() - started)

    def _call_in_thread(self, policy: AnyPolicy, review: Any) -> Result:
        result = invoke(policy, review)
        state = self.inline_states.get(policy)
        if state is not None and not state.is_inline:  # else it started before the policy was promoted
            state.record_thread_call(result.seconds)
            if state.is_inline:
                self._inline.add(policy)
                self._on_change(policy.name, state)
        return result

    def _count_overrun(self, policy: AnyPolicy, state: InlineState, change: int) -> None:
        with self._lock:
            state.overrun += change
        if policy in self.inline_states:
            self._on_change(policy.name, state)


async def _wait(future: asyncio.Future[Result], seconds: float) -> None:
    """Wait until a future is done, or the time is over: `asyncio.wait` for one future, at half the cost."""
    loop = future.get_loop()
    done = loop.create_future()

    def set_done(_: object = None) -> None:
        if not done.done():
            done.set_result(None)

    future.add_done_callback(set_done)
    timer = loop.call_later(max(0.0, seconds), set_done)
    try:
        await done
    finally:
        timer.cancel()


async def _start(pools: Iterable[IsolatedPolicyPool]) -> None:
    starts = (pool.start() for pool in pools)
    for error in await asyncio.gather(*starts, return_exceptions=True):  # waits for all, even if one fails
        if error is not None:
            raise error

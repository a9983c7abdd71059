"""How one policy is run: on the loop, in a thread, in place or in a process of its own, under a deadline."""

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
    call,
    call_on_loop,
    checked,
    deadline_of,
    failure,
    overrun,
)
from webhooks.engine.process_pool import IsolatedPolicyPool
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import AnyPolicy

QUICK = 0.001  # seconds; a thread hop costs a fiftieth of it
SLOW = 0.005  # seconds that one policy may keep everybody else waiting, once
PROMOTE_AFTER = 100  # quick calls more than others, before a policy first runs in place
MAX_PROMOTE_AFTER = 3200  # the same, after it has been slow in place again and again
THREADS = 64
MAX_OVERRUN = 8  # threads that one policy may keep past its deadlines, before it is refused more
DEFAULT_TIMEOUT = 10.0  # seconds; the caller's own default


class InlineState(msgspec.Struct):
    """How quick a policy has shown itself.

    Attributes:
        in_place: it runs where the review is answered; else in a thread.
        score: quick calls more than others, in threads. A thread's own waiting makes some quick calls look slow, so one
            that is not quick takes back one that was.
        promote_after: the score at which it runs in place; each slow call there doubles it.
        overrun: threads that it still keeps past their deadlines.
    """

    in_place: bool = False
    score: int = 0
    promote_after: int = PROMOTE_AFTER
    overrun: int = 0

    def called_in_thread(self, seconds: float) -> None:
        """Note how long a call in a thread took."""
        self.score = self.score + 1 if seconds < QUICK else max(0, self.score - 1)
        self.in_place = self.score >= self.promote_after

    def slow_in_place(self) -> None:
        """Note that a call in place kept everybody waiting."""
        self.in_place, self.score = False, 0
        self.promote_after = min(2 * self.promote_after, MAX_PROMOTE_AFTER)

    def waited_in_place(self) -> None:
        """Note that it waited for something there: however quick it is at other times, it belongs in a thread."""
        self.in_place, self.promote_after = False, sys.maxsize


class PolicyExecutor:
    """Runs policies, and remembers how quick each of them is.

    A ``def`` policy may block, so it runs in a worker thread. But the hop to the thread costs more than most policies
    do: one that was quick many times runs in place, until its first slow call there. An isolated policy runs in
    processes of its own.

    Args:
        policies: those it will run.
        paced: told whenever a policy is to be run in another way than before.
        meters: where the ends of processes are counted.
    """

    def __init__(
        self, policies: Iterable[AnyPolicy], paced: Callable[[str, InlineState], None], meters: MetricRegistry
    ) -> None:
        self._paced = paced
        self._meters = meters
        self.paces: dict[AnyPolicy, InlineState] = {}
        self._isolations: dict[AnyPolicy, IsolatedPolicyPool] = {}
        self._add(policies)
        self._in_place: set[AnyPolicy] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="policy")
        self._calls: set[Future[Result] | asyncio.Future[Result]] = set()
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Start a process for each isolated policy, and wait until it has loaded it.

        Raises:
            ConfigurationError: it cannot be loaded there.
        """
        await _start(self._isolations.values())

    async def close(self) -> None:
        """End the processes of isolated policies."""
        await asyncio.gather(*(isolation.close() for isolation in self._isolations.values()))

    async def take(self, policies: Iterable[AnyPolicy]) -> None:
        """Run more policies from now on.

        Raises:
            ConfigurationError: an isolated one cannot be loaded in its process. Nothing has changed then.
        """
        begun = self._add(policies)
        try:
            await _start(self._isolations[policy] for policy in begun if policy.isolation)
        except BaseException:
            await self.drop(begun)
            raise

    async def drop(self, policies: Iterable[AnyPolicy]) -> None:
        """Run some policies no more, which nobody asks about any longer."""
        ended = []
        for policy in policies:
            self.paces.pop(policy, None)
            self._in_place.discard(policy)
            if policy in self._isolations:
                ended.append(self._isolations.pop(policy))
        await asyncio.gather(*(isolation.close() for isolation in ended))

    def _add(self, policies: Iterable[AnyPolicy]) -> list[AnyPolicy]:
        """Know some policies; those that were not known before."""
        added = [policy for policy in policies if policy not in self.paces]
        for policy in added:
            self.paces[policy] = InlineState()
            if policy.isolation:
                self._isolations[policy] = IsolatedPolicyPool(policy, self._meters)
        return added

    def in_place(self, policies: Iterable[AnyPolicy]) -> bool:
        """Whether all of the policies run in place at present."""
        return self._in_place.issuperset(policies)

    def run_in_place(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy here and now.

        Args:
            policy: one of which `in_place` holds.
            review: its own review.
            deadline: the latest end, on the clock of `time.perf_counter`.

        Raises:
            Stalled: it waited for something, and was stopped in time to be run again.
        """
        started = perf_counter()
        result = call(policy, review, started, deadline)
        return result if result.seconds < SLOW else self._slow_in_place(result, started, deadline)

    def _slow_in_place(self, result: Result, started: float, deadline: float) -> Result:
        policy, pace = result.policy, self.paces[result.policy]
        cause = None if result.failure is None else result.failure.__cause__
        stalled = cast("PolicyInterrupted", cause) if issubclass(type(cause), PolicyInterrupted) else None
        if stalled is None:
            pace.slow_in_place()
        elif stalled.waits:
            pace.waited_in_place()
        else:
            return result  # it stays where it can be stopped: in a thread it might keep the interpreter for good
        self._in_place.discard(policy)
        self._paced(policy.name, pace)
        deadline = deadline_of(policy, started, deadline)
        if started + result.seconds > deadline:
            return overrun(policy, result.seconds)
        if stalled is not None:
            stalled.deadline = deadline
            raise stalled
        return result

    @property
    def busy(self) -> bool:
        """Whether some policy still runs."""
        return bool(self._calls)

    async def run(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy, wherever it belongs, until the deadline at most."""
        if policy in self._in_place:
            try:
                return self.run_in_place(policy, review, deadline)
            except PolicyInterrupted as stalled:
                return await self.run_again(policy, review, stalled.deadline)
        started = perf_counter()
        deadline = deadline_of(policy, started, deadline)
        if policy.isolation:
            return await self._run_isolated(policy, review, started, deadline)
        if policy.is_async:
            return await self._run_on_loop(policy, review, started, deadline)
        return await self._run_in_thread(policy, review, started, deadline)

    async def run_again(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy that was stopped, on the review as it was before."""
        again = review.copy()
        result = await self.run(policy, again, deadline)
        if again.object_accessed:
            review.object_accessed = True
        return result

    async def _run_isolated(self, policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:
        try:
            outcome = await self._isolations[policy].ask(review, deadline)
            return Result(policy, checked(policy, outcome), None, perf_counter() - started)
        except TimeoutError:
            return overrun(policy, perf_counter() - started)
        except Exception as error:
            return Result(policy, None, failure(error), perf_counter() - started)

    async def _run_in_thread(self, policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:
        pace = self.paces[policy]
        if pace.overrun >= MAX_OVERRUN:
            return overrun(policy, 0.0, f"is still busy with {pace.overrun} reviews that it did not answer in time")
        running = self._threads.submit(copy_context().run, self._call_in_thread, policy, review, deadline)
        self._calls.add(running)
        running.add_done_callback(self._calls.discard)
        future = asyncio.wrap_future(running)
        try:
            await _ended(future, deadline - started)
        finally:
            if not future.done() and not running.cancel():
                self._count_overrun(policy, pace, 1)
                running.add_done_callback(lambda _: self._count_overrun(policy, pace, -1))
        if future.done() and not future.cancelled():
            return future.result()
        return overrun(policy, perf_counter() - started)

    async def _run_on_loop(self, policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:
        running = asyncio.get_running_loop().create_task(call_on_loop(policy, review, started, deadline))
        self._calls.add(running)
        running.add_done_callback(self._calls.discard)
        try:
            await _ended(running, deadline - started)
        finally:
            if not running.done():
                running.cancel()  # and no waiting for it: it may refuse to end
        if running.done() and not running.cancelled():
            return running.result()
        return overrun(policy, perf_counter() - started)

    def _call_in_thread(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        result = call(policy, review, perf_counter(), deadline)
        pace = self.paces.get(policy)
        if pace is not None and not pace.in_place:  # else it began before the policy had shown itself quick
            pace.called_in_thread(result.seconds)
            if pace.in_place:
                self._in_place.add(policy)
                self._paced(policy.name, pace)
        return result

    def _count_overrun(self, policy: AnyPolicy, pace: InlineState, change: int) -> None:
        with self._lock:
            pace.overrun += change
        if policy in self.paces:
            self._paced(policy.name, pace)


async def _ended(future: asyncio.Future[Result], seconds: float) -> None:
    """Wait until a future is done, and no longer than so many seconds: `asyncio.wait` for one, at half its price."""
    loop = future.get_loop()
    over = loop.create_future()

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    future.add_done_callback(end)
    timer = loop.call_later(max(0.0, seconds), end)
    try:
        await over
    finally:
        timer.cancel()


async def _start(isolations: Iterable[IsolatedPolicyPool]) -> None:
    starts = (isolation.start() for isolation in isolations)
    for failed in await asyncio.gather(*starts, return_exceptions=True):  # none is still on its way then
        if failed is not None:
            raise failed

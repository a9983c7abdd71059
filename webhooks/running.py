"""How one policy is run: on the loop, in a thread or in place, under a deadline, and with every failure contained."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any

import msgspec

from webhooks.decisions import CHANGES, Allow, Authenticated, Deny, Outcome
from webhooks.errors import MalformedReview, PolicyFailure, PolicyTimeout
from webhooks.policy import OUTCOMES, AnyPolicy

QUICK = 0.001  # seconds; a thread hop costs a fiftieth of it
SLOW = 0.005  # seconds that one policy may keep everybody else waiting, once
PROMOTE_AFTER = 100  # quick calls more than others, before a policy first runs in place
MAX_PROMOTE_AFTER = 3200  # the same, after it has been slow in place again and again
THREADS = 64
MAX_OVERRUN = 8  # threads that one policy may keep past its deadlines, before it is refused more
DEFAULT_TIMEOUT = 10.0  # seconds; the caller's own default


class Result(msgspec.Struct):
    """What came of running one policy: an outcome or a failure, and the seconds it took."""

    policy: AnyPolicy
    outcome: Outcome | None
    failure: PolicyFailure | MalformedReview | None
    seconds: float


class Pace(msgspec.Struct):
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


class Runner:
    """Runs policies, and remembers how quick each of them is.

    A ``def`` policy may block, so it runs in a worker thread. But the hop to the thread costs more than most policies
    do: one that was quick many times runs in place, until its first slow call there.

    Args:
        policies: those it will run.
        paced: told whenever a policy is to be run in another way than before.
    """

    def __init__(self, policies: Iterable[AnyPolicy], paced: Callable[[str, Pace], None]) -> None:
        self._paced = paced
        self.paces = {policy.name: Pace() for policy in policies}
        self._in_place: set[AnyPolicy] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="policy")
        self._calls: set[Future[Result]] = set()
        self._lock = threading.Lock()

    def in_place(self, policies: Iterable[AnyPolicy]) -> bool:
        """Whether all of the policies run in place at present."""
        return self._in_place.issuperset(policies)

    def run_in_place(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy here and now.

        Args:
            policy: one of which `in_place` holds.
            review: its own review.
            deadline: the latest end, on the clock of `time.perf_counter`.
        """
        started = perf_counter()
        result = _call(policy, review, started)
        if result.seconds >= SLOW:
            pace = self.paces[policy.name]
            pace.slow_in_place()
            self._in_place.discard(policy)
            self._paced(policy.name, pace)
            if started + result.seconds > _policy_deadline(policy, started, deadline):
                return _overrun(policy, result.seconds)
        return result

    @property
    def busy(self) -> bool:
        """Whether some policy keeps a thread."""
        return bool(self._calls)

    async def run(self, policy: AnyPolicy, review: Any, deadline: float) -> Result:
        """Run a policy, wherever it belongs, until the deadline at most."""
        if policy in self._in_place:
            return self.run_in_place(policy, review, deadline)
        started = perf_counter()
        budget = max(0.0, _policy_deadline(policy, started, deadline) - started)
        if policy.is_async:
            return await _run_on_loop(policy, review, started, budget)
        return await self._run_in_thread(policy, review, started, budget)

    async def _run_in_thread(self, policy: AnyPolicy, review: Any, started: float, budget: float) -> Result:
        pace = self.paces[policy.name]
        if pace.overrun >= MAX_OVERRUN:
            return _overrun(policy, 0.0, f"is still busy with {pace.overrun} reviews that it did not answer in time")
        call = self._threads.submit(self._call_in_thread, policy, review)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        future = asyncio.wrap_future(call)
        try:
            await asyncio.wait((future,), timeout=budget)
        finally:
            if not future.done() and not call.cancel():
                self._count_overrun(policy.name, 1)
                call.add_done_callback(lambda _: self._count_overrun(policy.name, -1))
        if future.done() and not future.cancelled():
            return future.result()
        return _overrun(policy, perf_counter() - started)

    def _call_in_thread(self, policy: AnyPolicy, review: Any) -> Result:
        result = _call(policy, review, perf_counter())
        pace = self.paces[policy.name]
        if not pace.in_place:  # else it began before the policy had shown itself quick
            pace.called_in_thread(result.seconds)
            if pace.in_place:
                self._in_place.add(policy)
                self._paced(policy.name, pace)
        return result

    def _count_overrun(self, name: str, change: int) -> None:
        pace = self.paces[name]
        with self._lock:
            pace.overrun += change
        self._paced(name, pace)


def _policy_deadline(policy: AnyPolicy, started: float, deadline: float) -> float:
    return deadline if policy.timeout is None else min(deadline, started + policy.timeout)


def _overrun(policy: AnyPolicy, seconds: float, what: str = "did not answer in time") -> Result:
    return Result(policy, None, PolicyTimeout(f"policy {policy.name!r} {what}"), seconds)


def _call(policy: AnyPolicy, review: Any, started: float) -> Result:
    try:
        outcome = _checked(policy, policy.call(review))
    except BaseException as error:  # whatever a policy raises, SystemExit too, is a failure of that policy alone
        return Result(policy, None, _failure(error), perf_counter() - started)
    return Result(policy, outcome, None, perf_counter() - started)


async def _call_on_loop(policy: AnyPolicy, review: Any, started: float) -> Result:
    try:
        outcome = _checked(policy, await policy.call(review))
    except BaseException as error:  # as above; a cancellation comes from `_run_on_loop`, which no longer listens
        return Result(policy, None, _failure(error), perf_counter() - started)
    return Result(policy, outcome, None, perf_counter() - started)


async def _run_on_loop(policy: AnyPolicy, review: Any, started: float, budget: float) -> Result:
    task = asyncio.ensure_future(_call_on_loop(policy, review, started))
    try:
        await asyncio.wait((task,), timeout=budget)
    finally:
        if not task.done():
            task.cancel()  # and no waiting for it: it may refuse to end
    if task.done() and not task.cancelled():
        return task.result()
    return _overrun(policy, perf_counter() - started)


def _failure(error: BaseException) -> PolicyFailure | MalformedReview:
    if isinstance(error, PolicyFailure | MalformedReview):
        return error
    try:
        what = f": {error}"
    except BaseException:  # an exception that cannot say what it is
        what = ""
    failure = PolicyFailure(f"raised {type(error).__name__}{what}")
    failure.__cause__ = error
    return failure


def _checked(policy: AnyPolicy, outcome: Any) -> Outcome:
    kind = type(outcome)
    if kind not in OUTCOMES[policy.kind]:
        if inspect.iscoroutine(outcome):
            outcome.close()
        names = ", ".join(each.__name__ for each in OUTCOMES[policy.kind])
        raise PolicyFailure(f"returned {_described(outcome)}, which is none of {names}")
    if outcome.warnings == () and outcome.audit == {} and (kind in CHANGES or (kind is Allow and outcome.reason == "")):
        return outcome  # type: ignore[no-any-return]
    fields = msgspec.structs.asdict(outcome)
    try:
        checked: Outcome = msgspec.convert(fields, kind)
        msgspec.json.encode({name: value for name, value in fields.items() if name not in _CHANGED})
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise PolicyFailure(f"returned a misshapen {kind.__name__}: {error}") from None
    if isinstance(checked, Deny) and not 400 <= checked.code <= 599:
        raise PolicyFailure(f"returned a Deny of code {checked.code}, which is no HTTP error")
    if isinstance(checked, Authenticated) and not checked.username:
        raise PolicyFailure("returned an Authenticated without a username")
    return checked


# What a change holds is looked at when it is followed.
_CHANGED = frozenset(("object", "operations"))


def _described(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"

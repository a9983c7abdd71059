"""Where policies run, their deadlines, and how fast policies become inline."""

import asyncio
import gc
import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from webhooks import Allow, Decision, validating
from webhooks.engine import executor, invocation
from webhooks.engine.executor import (
    FAST,
    MAX_OVERRUN,
    MAX_PROMOTE_AFTER,
    PROMOTE_AFTER,
    SLOW,
    InlineState,
    PolicyExecutor,
)
from webhooks.engine.invocation import Result
from webhooks.errors import PolicyTimeout
from webhooks.observability.metrics import MetricRegistry

from ..support.builders import AnyPolicy, make_inline

NEVER = math.inf
SOON = 0.02  # seconds; a deadline that is missed


class Clock:
    """A clock that advances only by assignment."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(executor, "perf_counter", clock)
    monkeypatch.setattr(invocation, "perf_counter", clock)
    return clock


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """An event for policies to wait for. It is set at the end, so that no thread is left."""
    gate = threading.Event()
    yield gate
    gate.set()


class Lab:
    """An executor, and the changes that it reported."""

    def __init__(self, *policies: AnyPolicy) -> None:
        self.changes: list[tuple[str, bool, int]] = []
        self.idle = threading.Event()
        self.executor = PolicyExecutor(policies, self.on_change, MetricRegistry())

    def on_change(self, name: str, state: InlineState) -> None:
        self.changes.append((name, state.is_inline, state.overrun))
        if not state.overrun:
            self.idle.set()

    async def run(self, policy: AnyPolicy, review: Any = None, *, within: float = NEVER) -> Result:
        deadline = within if math.isinf(within) else executor.perf_counter() + within
        return await asyncio.wait_for(self.executor.run(policy, review, deadline), 10)


def run(policy: AnyPolicy, *, within: float = NEVER) -> Result:
    return asyncio.run(Lab(policy).run(policy, within=within))


def make(function: Callable[[Any], Any], **options: Any) -> AnyPolicy:
    return validating("pods", name="p", **options)(function)


@pytest.mark.parametrize(
    ("calls", "score", "is_inline"),
    [
        ([], 0, False),
        ([0] * (PROMOTE_AFTER - 1), PROMOTE_AFTER - 1, False),
        ([0] * PROMOTE_AFTER, PROMOTE_AFTER, True),
        ([FAST] * 200, 0, False),
        ([FAST, *[0] * PROMOTE_AFTER], PROMOTE_AFTER, True),
        ([*[0] * PROMOTE_AFTER, FAST], PROMOTE_AFTER - 1, False),
        ([0, 1] * 500, 0, False),
        ([0, 0, 1] * 500, 500, True),
    ],
)
def test_fast_calls_promote_and_slow_calls_undo_it(calls: list[float], score: int, is_inline: bool) -> None:
    state = InlineState()
    for seconds in calls:
        state.record_thread_call(seconds)
    assert (state.score, state.is_inline) == (score, is_inline)


def test_each_slow_inline_call_doubles_the_threshold() -> None:
    state = InlineState()
    thresholds = []
    for _ in range(8):
        state.score = state.promote_after
        state.record_slow_inline_call()
        assert (state.is_inline, state.score) == (False, 0)
        thresholds.append(state.promote_after)
    assert thresholds == [200, 400, 800, 1600, 3200, 3200, 3200, 3200]
    assert MAX_PROMOTE_AFTER == 3200


def test_a_fast_policy_runs_inline_until_it_is_slow(clock: Clock) -> None:
    threads: list[bool] = []

    def policy(seconds: float) -> Decision:
        clock.now += seconds
        threads.append(threading.current_thread() is not threading.main_thread())
        return Allow()

    policy_ = make(policy)
    lab = Lab(policy_)

    async def called(times: int, seconds: float = 0.0) -> bool:
        """Return whether the calls ran in threads."""
        threads.clear()
        for _ in range(times):
            assert (await lab.run(policy_, seconds)).outcome == Allow()
        assert len(set(threads)) == 1
        return threads[0]

    async def scenario() -> None:
        assert not lab.executor.are_inline([policy_])
        assert await called(PROMOTE_AFTER)
        assert lab.changes == [("p", True, 0)]
        assert lab.executor.are_inline([policy_])
        assert not await called(50)
        assert not await called(1, SLOW * 0.9)
        assert not await called(1)
        assert not await called(1, SLOW * 1.1)
        assert lab.changes == [("p", True, 0), ("p", False, 0)]
        assert not lab.executor.are_inline([policy_])
        assert await called(2 * PROMOTE_AFTER)
        assert not await called(1)
        assert lab.changes == [("p", True, 0), ("p", False, 0), ("p", True, 0)]

    asyncio.run(scenario())


def test_the_reported_state_is_the_actual_state(clock: Clock, gate: threading.Event) -> None:
    def policy(slow: bool) -> Decision:
        if slow:
            gate.wait()
            clock.now += 1
        return Allow()

    policy_ = make(policy)
    lab = Lab(policy_)

    async def scenario() -> None:
        straggler = asyncio.create_task(lab.run(policy_, True))
        await asyncio.sleep(0)
        for _ in range(PROMOTE_AFTER):
            await lab.run(policy_, False)
        assert lab.changes[-1] == ("p", True, 0)
        gate.set()
        await straggler
        assert lab.changes[-1] == ("p", lab.executor.are_inline([policy_]), 0)

    asyncio.run(scenario())


def test_policies_run_inline_together_or_not_at_all() -> None:
    one, two = make(allowing()).with_name("one"), make(allowing()).with_name("two")
    executor_ = Lab(one, two).executor
    make_inline(executor_, one)
    assert executor_.are_inline([one])
    assert not executor_.are_inline([one, two])
    assert executor_.are_inline([])
    make_inline(executor_, two)
    assert executor_.are_inline([one, two])


def allowing() -> Callable[[Any], Decision]:
    def policy(review: Any) -> Decision:
        return Allow()

    return policy


def test_a_coroutine_function_is_never_inline(clock: Clock) -> None:
    async def policy(review: Any) -> Decision:
        assert threading.current_thread() is threading.main_thread()
        return Allow()

    policy_ = make(policy)
    lab = Lab(policy_)

    async def scenario() -> None:
        for _ in range(2 * PROMOTE_AFTER):
            assert (await lab.run(policy_)).failure is None

    asyncio.run(scenario())
    assert lab.changes == []
    assert not lab.executor.are_inline([policy_])


def test_the_duration_of_a_call_is_measured(clock: Clock) -> None:
    def now(review: Any) -> Decision:
        clock.now += 0.5
        return Allow()

    async def later(review: Any) -> Decision:
        return now(review)

    def failing(review: Any) -> Decision:
        clock.now += 0.5
        raise ValueError

    for function in (now, later, failing):
        assert run(make(function)).seconds == 0.5
        assert run_inline(make(function if function is not later else now)).seconds == 0.5


def run_inline(policy: AnyPolicy, *, within: float = NEVER) -> Result:
    return Lab(policy).executor.run_inline(policy, None, executor.perf_counter() + within)


@pytest.mark.parametrize(
    ("seconds", "timeout", "within", "late"),
    [
        (1.0, None, 2.0, False),
        (1.0, None, 0.5, True),
        (1.0, 0.5, 2.0, True),
        (1.0, 0.5, NEVER, True),
        (1.0, 2.0, 0.5, True),
        (1.0, 2.0, 3.0, False),
        (0.001, None, 0.0005, False),  # too fast to delay anything
    ],
)
def test_an_inline_policy_has_the_earlier_of_both_deadlines(
    clock: Clock, seconds: float, timeout: float | None, within: float, late: bool
) -> None:
    def policy(review: Any) -> Decision:
        clock.now += seconds
        return Allow()

    result = run_inline(make(policy, timeout=timeout), within=within)
    assert isinstance(result.failure, PolicyTimeout) is late
    assert result.outcome == (None if late else Allow())


Blocker = Callable[[threading.Event], Callable[[Any], Any]]


def blocking(gate: threading.Event) -> Callable[[Any], Any]:
    def policy(review: Any) -> Decision:
        gate.wait()
        return Allow()

    return policy


def waiting(gate: threading.Event) -> Callable[[Any], Any]:
    async def policy(review: Any) -> Decision:
        await asyncio.Event().wait()
        return Allow()

    return policy


@pytest.mark.parametrize("blocker", [blocking, waiting])
@pytest.mark.parametrize(
    ("timeout", "within"), [(SOON, NEVER), (30, SOON), (None, SOON), (SOON, 30), (None, -1), (None, 0)]
)
def test_a_policy_has_the_earlier_of_both_deadlines(
    gate: threading.Event, blocker: Blocker, timeout: float | None, within: float
) -> None:
    result = run_then(gate, make(blocker(gate), timeout=timeout), within)
    assert result.outcome is None
    assert isinstance(result.failure, PolicyTimeout)
    assert str(result.failure) == "policy 'p' timed out"
    assert max(0.0, min(timeout or NEVER, within)) <= result.seconds < 5


def run_then(gate: threading.Event, policy: AnyPolicy, within: float) -> Result:
    result = run(policy, within=within)
    gate.set()
    return result


def test_threads_past_their_deadline_are_limited(gate: threading.Event) -> None:
    calls: list[Any] = []

    def policy(review: Any) -> Decision:
        calls.append(review)
        gate.wait()
        return Allow()

    stuck, other = make(policy), make(allowing()).with_name("other")
    lab = Lab(stuck, other)

    async def scenario() -> None:
        for count in range(1, MAX_OVERRUN + 1):
            assert isinstance((await lab.run(stuck, within=SOON)).failure, PolicyTimeout)
            assert lab.changes[-1] == ("p", False, count)
            assert lab.executor.is_busy
        rejected = await lab.run(stuck)
        assert isinstance(rejected.failure, PolicyTimeout)
        assert "8 of its calls still run" in str(rejected.failure)
        assert len(calls) == MAX_OVERRUN
        assert (await lab.run(other)).outcome == Allow()
        lab.idle.clear()
        gate.set()
        assert await asyncio.to_thread(lab.idle.wait, 5)
        assert lab.executor.inline_states[stuck].overrun == 0
        assert not lab.executor.is_busy
        assert (await lab.run(stuck)).outcome == Allow()

    asyncio.run(scenario())


def test_a_call_that_never_got_a_thread_does_not_count(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    monkeypatch.setattr(executor, "THREADS", 1)
    calls: list[Any] = []

    def queued(review: Any) -> Decision:
        calls.append(review)
        return Allow()

    first, second = make(blocking(gate)), make(queued).with_name("queued")
    lab = Lab(first, second)

    async def scenario() -> None:
        assert isinstance((await lab.run(first, within=SOON)).failure, PolicyTimeout)
        assert isinstance((await lab.run(second, within=SOON)).failure, PolicyTimeout)
        assert lab.executor.inline_states[second].overrun == 0
        gate.set()
        assert (await lab.run(first)).outcome == Allow()
        assert calls == []

    asyncio.run(scenario())


def test_a_thread_whose_review_was_cancelled_counts(gate: threading.Event) -> None:
    policy = make(blocking(gate))
    lab = Lab(policy)

    async def scenario() -> None:
        task = asyncio.create_task(lab.run(policy))
        await asyncio.sleep(SOON)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lab.executor.inline_states[policy].overrun == 1
        lab.idle.clear()
        gate.set()
        assert await asyncio.to_thread(lab.idle.wait, 5)

    asyncio.run(scenario())


def test_a_coroutine_past_its_deadline_is_cancelled() -> None:
    seen: list[str] = []

    async def policy(review: Any) -> Decision:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return Allow()

    async def scenario() -> None:
        lab = Lab(policy_)
        assert isinstance((await lab.run(policy_, within=SOON)).failure, PolicyTimeout)
        await asyncio.sleep(0)
        assert seen == ["cancelled"]
        assert lab.executor.inline_states[policy_].overrun == 0

    policy_ = make(policy)
    asyncio.run(scenario())


@pytest.mark.parametrize("ending", [None, ValueError("late"), SystemExit(1)], ids=repr)
def test_a_coroutine_that_ignores_cancellation_is_not_awaited(ending: BaseException | None) -> None:
    release = asyncio.Event()
    finished = asyncio.Event()

    async def policy(review: Any) -> Decision:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        finished.set()
        if ending is not None:
            raise ending
        return Allow()

    policy_ = make(policy)

    async def scenario() -> None:
        result = await Lab(policy_).run(policy_, within=SOON)
        assert isinstance(result.failure, PolicyTimeout)
        assert not finished.is_set()
        release.set()
        await asyncio.wait_for(finished.wait(), 5)
        await asyncio.sleep(0)

    asyncio.run(scenario())
    gc.collect()  # an exception that was never retrieved would be logged now, and fail the test


def test_a_coroutine_whose_review_was_cancelled_is_cancelled() -> None:
    seen: list[str] = []

    async def policy(review: Any) -> Decision:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("closed")
        return Allow()

    policy_ = make(policy)

    async def scenario() -> None:
        task = asyncio.create_task(Lab(policy_).run(policy_))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert seen == ["closed"]

    asyncio.run(scenario())


def test_a_coroutine_that_cancels_itself_has_failed() -> None:
    async def policy(review: Any) -> Decision:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return Allow()

    result = run(make(policy))
    assert result.outcome is None
    assert result.failure is not None


def test_a_coroutine_that_was_never_awaited_is_closed() -> None:
    def policy(review: Any) -> Awaitable[Decision]:
        return later()

    async def later() -> Decision:
        return Allow()

    for result in (run(make(policy)), run_inline(make(policy))):
        assert result.outcome is None
        assert "returned a value of type coroutine" in str(result.failure)
    gc.collect()  # a coroutine that was not closed would warn now, and fail the test

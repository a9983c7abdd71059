"""Code that blocks the event loop is interrupted; policies are logged, and run again where they may wait."""

import asyncio
import logging
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from webhooks import Allow, Decision, Deny, Replace, mutating, validating
from webhooks.engine import watchdog
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.dispatcher import Dispatcher, Verdict
from webhooks.engine.executor import PROMOTE_AFTER, SLOW, InlineState, PolicyExecutor
from webhooks.engine.invocation import PolicyInterrupted
from webhooks.engine.watchdog import BLOCKED_AFTER, TICK, BlockedLoop, LoopWatchdog, PolicyInterrupter
from webhooks.observability.metrics import Counter, MetricRegistry
from webhooks.policy.registry import Registry
from webhooks.settings import Limits

from ..support.builders import AnyPolicy, admission_review, ignore_change, make_inline, pod

LONG = 30.0  # seconds of blocking, which is always interrupted
SHORT = 0.3  # seconds that a policy may block the loop in these tests
BACKTRACKING = re.compile(r"(a+)+$")


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "MAX_BLOCKED", SHORT)


def wait() -> None:
    time.sleep(LONG)


def compute() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


def backtrack() -> None:
    BACKTRACKING.match("a" * 40 + "b")


class Interrupted(BaseException):
    """Raised by the callback of a watchdog."""


@pytest.mark.parametrize(("block", "is_waiting"), [(wait, True), (compute, False), (backtrack, False)])
def test_blocking_code_is_interrupted(block: Callable[[], None], is_waiting: bool) -> None:
    alarms: list[BlockedLoop] = []

    def on_blocked(blocked: BlockedLoop) -> None:
        alarms.append(blocked)
        raise Interrupted

    async def run() -> float:
        with LoopWatchdog(on_blocked).running():
            await asyncio.sleep(0)
            started = time.monotonic()
            with pytest.raises(Interrupted):
                block()
            return time.monotonic() - started

    seconds = asyncio.run(run())
    [blocked] = alarms
    assert BLOCKED_AFTER - TICK <= seconds < 5
    assert BLOCKED_AFTER <= blocked.seconds < 5
    assert (blocked.busy_seconds < blocked.seconds / 2) is is_waiting
    assert blocked.frame is not None
    assert blocked.frame.f_code is block.__code__


def test_the_alarm_repeats_while_the_loop_is_blocked() -> None:
    alarms: list[BlockedLoop] = []

    async def run() -> None:
        with LoopWatchdog(alarms.append).running():
            while len(alarms) < 3:
                time.sleep(TICK)  # noqa: ASYNC251

    asyncio.run(run())
    seconds = [blocked.seconds for blocked in alarms]
    assert seconds == sorted(seconds)
    assert seconds[2] > 2 * BLOCKED_AFTER


def test_a_running_loop_causes_no_alarm() -> None:
    alarms: list[BlockedLoop] = []

    async def run() -> None:
        loop_watchdog = LoopWatchdog(alarms.append)
        assert loop_watchdog.seconds_since_tick == 0
        with loop_watchdog.running():
            for _ in range(5):
                await asyncio.sleep(TICK)
                assert loop_watchdog.seconds_since_tick < 1
        assert loop_watchdog.seconds_since_tick == 0

    asyncio.run(run())
    assert alarms == []


def test_the_signal_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGALRM)

    async def run() -> None:
        with LoopWatchdog(lambda _: None).running():
            assert signal.getsignal(signal.SIGALRM) != before

    asyncio.run(run())
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_the_seconds_since_the_last_tick_are_counted() -> None:
    async def run() -> float:
        loop_watchdog = LoopWatchdog(lambda _: None)
        with loop_watchdog.running():
            time.sleep(2 * TICK)  # noqa: ASYNC251
            return loop_watchdog.seconds_since_tick

    assert 2 * TICK <= asyncio.run(run()) < 5


@dataclass
class Lab:
    """Runs policies on a loop with a watchdog."""

    metrics: MetricRegistry = field(default_factory=MetricRegistry)

    def decide(self, *policies: AnyPolicy, timeout: float = 10.0, inline: bool = True) -> Verdict:
        """Return the verdict on a pod, after a further iteration of the loop."""
        registry = Registry(policies)
        self.executor = PolicyExecutor(registry, ignore_change, self.metrics)
        dispatcher = Dispatcher(registry, self.executor, ConcurrencyLimiter(Limits(), self.metrics))
        if inline:
            make_inline(self.executor, *policies)

        async def run() -> Verdict:
            with LoopWatchdog(PolicyInterrupter(self.metrics).interrupt).running():
                await asyncio.sleep(0)
                started = time.monotonic()
                decided = dispatcher.decide(policies[0].kind, admission_review("CREATE", pod()), timeout)
                self.blocked_seconds = time.monotonic() - started
                verdict = decided if isinstance(decided, Verdict) else await decided
                await asyncio.sleep(0)
                return verdict

        return asyncio.run(run())

    @property
    def counts(self) -> dict[tuple[str, ...], float]:
        counter = self.metrics.by_name["webhooks_policy_blocked_loop"]
        assert isinstance(counter, Counter)
        return counter.values


def on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def make(function: Callable[[Any], Any], name: str = "p", **options: Any) -> AnyPolicy:
    return validating("pods", name=name, **options)(function)


def test_an_inline_policy_that_waits_is_run_again_in_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[bool, Any]] = []

    def policy(review: Any) -> Decision:
        seen.append((on_main_thread(), review.object.get("seen")))
        review.object["seen"] = "yes"
        time.sleep(LONG if on_main_thread() else 0)
        return Allow()

    lab = Lab()
    verdict = lab.decide(make(policy))
    assert verdict.outcome == Allow()
    assert seen == [(True, None), (False, None)]  # the second time on an unchanged review
    assert lab.blocked_seconds < 5
    assert lab.counts == {("p",): 1}
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    match = re.fullmatch(r"policy p blocked the event loop, .* for \d+\.\d\d s at (.+):(\d+)", record.getMessage())
    assert match is not None
    assert match[1] == __file__
    line = int(match[2])
    assert "time.sleep" in Path(__file__).read_text().splitlines()[line - 1]


def test_the_second_run_has_the_same_deadline() -> None:
    policy = make(lambda review: time.sleep(LONG), timeout=5.0)
    executor = PolicyExecutor([policy], ignore_change, MetricRegistry())
    make_inline(executor, policy)

    async def run() -> float:
        with LoopWatchdog(PolicyInterrupter(MetricRegistry()).interrupt).running():
            await asyncio.sleep(0)
            started = time.perf_counter()
            with pytest.raises(PolicyInterrupted) as interrupted:
                executor.run_inline(policy, admission_review("CREATE", pod()), started + 10)
            return interrupted.value.deadline - started

    assert asyncio.run(run()) == pytest.approx(5.0, abs=1.0)


def test_a_policy_that_waits_never_runs_inline_again() -> None:
    def policy(review: Any) -> Decision:
        time.sleep(LONG if on_main_thread() else 0)
        return Allow()

    lab, policy_ = Lab(), make(policy)
    lab.decide(policy_)

    async def call_often() -> None:
        for _ in range(PROMOTE_AFTER + 10):
            assert (await lab.executor.run(policy_, admission_review(), time.perf_counter() + 10)).outcome == Allow()

    asyncio.run(call_often())
    assert not lab.executor.are_inline([policy_])


def test_policies_before_it_are_not_run_again() -> None:
    seen: list[str] = []

    def fast(name: str) -> AnyPolicy:
        def policy(review: Any) -> Decision:
            seen.append(name)
            return Deny(f"{name} denies")

        return make(policy, name)

    def waits(review: Any) -> Decision:
        seen.append("waits")
        time.sleep(LONG if on_main_thread() else 0)
        return Deny("waits denies")

    verdict = Lab().decide(fast("first"), make(waits, "waits"), fast("last"))
    assert sorted(seen) == ["first", "last", "waits", "waits"]
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.message == "first: first denies; waits: waits denies; last: last denies"


def test_a_chain_of_mutating_policies_continues() -> None:
    def labelled(name: str, waits: bool) -> AnyPolicy:
        def policy(review: Any) -> Any:
            labels = review.object["metadata"].setdefault("labels", {})
            labels[name] = ",".join(labels)
            time.sleep(LONG if waits and on_main_thread() else 0)
            return Replace(review.object)

        return mutating("pods", name=name)(policy)

    verdict = Lab().decide(labelled("a", False), labelled("b", True), labelled("c", False))
    assert verdict.patch is not None
    assert b'{"a":"","b":"a","c":"a,b"}' in verdict.patch


async def yield_and(block: Callable[[], None]) -> Decision:
    await asyncio.sleep(0)
    block()
    return Allow()


@pytest.mark.parametrize("block", [compute, backtrack])
@pytest.mark.parametrize(("timeout", "own"), [(10.0, None), (0.15, None), (10.0, 0.15)])
def test_an_inline_policy_that_computes_is_interrupted(
    block: Callable[[], None], timeout: float, own: float | None
) -> None:
    def policy(review: Any) -> Decision:
        block()
        return Allow()

    lab, policy_ = Lab(), make(policy, timeout=own)
    verdict = lab.decide(policy_, timeout=timeout)
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.code == 504
    assert lab.blocked_seconds < 5
    assert lab.counts == {("p",): 1}
    assert lab.executor.are_inline([policy_])  # where it can be interrupted again


@pytest.mark.parametrize("block", [compute, backtrack, wait])
@pytest.mark.parametrize("timeout", [10.0, 0.15])
def test_a_coroutine_that_blocks_the_loop_is_interrupted(block: Callable[[], None], timeout: float) -> None:
    async def policy(review: Any) -> Decision:
        return await yield_and(block)

    lab = Lab()
    started = time.monotonic()
    verdict = lab.decide(make(policy), timeout=timeout, inline=False)
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.code == 504
    assert time.monotonic() - started < 5
    assert lab.counts == {("p",): 1}


def test_a_policy_that_returns_in_time_is_only_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "MAX_BLOCKED", LONG)

    def computes(review: Any) -> Decision:
        end = time.thread_time() + 1.2 * BLOCKED_AFTER
        while time.thread_time() < end:
            pass
        return Allow()

    async def waits(review: Any) -> Decision:
        time.sleep(1.2 * BLOCKED_AFTER)  # noqa: ASYNC251
        return Allow()

    for function, inline in ((computes, True), (waits, False)):
        lab = Lab()
        assert lab.decide(make(function), inline=inline).outcome == Allow()
        assert lab.counts == {("p",): 1}


def test_a_policy_that_swallows_the_interruption_is_interrupted_again() -> None:
    interruptions: list[BaseException] = []

    def policy(review: Any) -> Decision:
        while len(interruptions) < 3:
            try:
                time.sleep(LONG)
            except BaseException as interruption:
                interruptions.append(interruption)
        return Deny("whatever happens")

    lab = Lab()
    outcome = lab.decide(make(policy)).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == "whatever happens"
    assert len(interruptions) == 3
    assert lab.blocked_seconds < 5


def test_code_outside_policies_is_not_interrupted() -> None:
    async def run() -> float:
        with LoopWatchdog(PolicyInterrupter(MetricRegistry()).interrupt).running():
            await asyncio.sleep(0)
            started = time.monotonic()
            time.sleep(3 * BLOCKED_AFTER)  # noqa: ASYNC251
            return time.monotonic() - started

    assert asyncio.run(run()) >= 3 * BLOCKED_AFTER


def test_the_executor_itself_is_not_interrupted() -> None:
    """A callback of the executor blocks the loop, after its policy has returned."""

    def policy(review: Any) -> Decision:
        end = time.thread_time() + 2 * SLOW
        while time.thread_time() < end:
            pass
        return Allow()

    def block(name: str, state: InlineState) -> None:
        time.sleep(2 * SHORT)

    policy_ = make(policy)
    executor = PolicyExecutor([policy_], block, MetricRegistry())
    make_inline(executor, policy_)

    async def run() -> None:
        with LoopWatchdog(PolicyInterrupter(MetricRegistry()).interrupt).running():
            await asyncio.sleep(0)
            result = executor.run_inline(policy_, admission_review("CREATE", pod()), time.perf_counter() + 10)
            assert result.outcome == Allow()

    asyncio.run(run())

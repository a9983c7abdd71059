"""Policies that keep the event loop: they are stopped, told of, and asked again where they may wait."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from webhooks import Allow, Decision, Deny, Replace, mutating, validating
from webhooks.engine import stalls
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.dispatcher import Dispatcher, Verdict
from webhooks.engine.executor import PROMOTE_AFTER, PolicyExecutor
from webhooks.engine.invocation import PolicyInterrupted
from webhooks.engine.stalls import PolicyInterrupter
from webhooks.engine.watchdog import PATIENCE, LoopWatchdog
from webhooks.observability.metrics import Counter, MetricRegistry
from webhooks.policy.registry import Registry
from webhooks.settings import Limits

from ..support.builders import AnyPolicy, admission_review, ignore_pace, pod, promote

LONG = 30.0  # seconds, of what is to be cut short
BRIEF = 0.3  # seconds that a policy may keep the loop, in these tests
BACKTRACKING = re.compile(r"(a+)+$")


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "MAX_STALL", BRIEF)


@dataclass
class Lab:
    """Policies on a loop that has a pulse."""

    meters: MetricRegistry = field(default_factory=MetricRegistry)

    def decide(self, *policies: AnyPolicy, timeout: float = 10.0, in_place: bool = True) -> Verdict:
        """The verdict on a pod, after which the loop has turned again."""
        registry = Registry(policies)
        self.runner = PolicyExecutor(registry, ignore_pace, self.meters)
        dispatcher = Dispatcher(registry, self.runner, ConcurrencyLimiter(Limits(), self.meters))
        if in_place:
            promote(self.runner, *policies)

        async def run() -> Verdict:
            with LoopWatchdog(PolicyInterrupter(self.meters).end).beating():
                await asyncio.sleep(0)
                began = time.monotonic()
                decided = dispatcher.decide(policies[0].kind, admission_review("CREATE", pod()), timeout)
                self.kept = time.monotonic() - began
                verdict = decided if isinstance(decided, Verdict) else await decided
                await asyncio.sleep(0)
                return verdict

        return asyncio.run(run())

    @property
    def stalls(self) -> dict[tuple[str, ...], float]:
        counter = self.meters.by_name["webhooks_policy_blocked_loop"]
        assert isinstance(counter, Counter)
        return counter.values


def on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def make(function: Callable[[Any], Any], name: str = "p", **options: Any) -> AnyPolicy:
    return validating("pods", name=name, **options)(function)


def test_one_that_waits_in_place_is_asked_again_in_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[bool, Any]] = []

    def policy(review: Any) -> Decision:
        seen.append((on_main_thread(), review.object.get("seen")))
        review.object["seen"] = "yes"
        time.sleep(LONG if on_main_thread() else 0)
        return Allow()

    lab = Lab()
    verdict = lab.decide(make(policy))
    assert verdict.outcome == Allow()
    assert seen == [(True, None), (False, None)]  # the second time on a review as it was
    assert lab.kept < 5
    assert lab.stalls == {("p",): 1}
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    told = re.fullmatch(r"policy p kept the event loop, .* for \d+\.\d\d s at (.+):(\d+)", record.getMessage())
    assert told is not None
    assert told[1] == __file__
    line = int(told[2])
    assert "time.sleep" in Path(__file__).read_text().splitlines()[line - 1]


def test_it_has_no_more_time_for_being_asked_again() -> None:
    policy = make(lambda review: time.sleep(LONG), timeout=5.0)
    runner = PolicyExecutor([policy], ignore_pace, MetricRegistry())
    promote(runner, policy)

    async def run() -> float:
        with LoopWatchdog(PolicyInterrupter(MetricRegistry()).end).beating():
            await asyncio.sleep(0)
            began = time.perf_counter()
            with pytest.raises(PolicyInterrupted) as stalled:
                runner.run_in_place(policy, admission_review("CREATE", pod()), began + 10)
            return stalled.value.deadline - began

    assert asyncio.run(run()) == pytest.approx(5.0, abs=1.0)


def test_it_never_runs_in_place_again() -> None:
    def policy(review: Any) -> Decision:
        time.sleep(LONG if on_main_thread() else 0)
        return Allow()

    lab, policy_ = Lab(), make(policy)
    lab.decide(policy_)

    async def call_often() -> None:
        for _ in range(PROMOTE_AFTER + 10):
            assert (await lab.runner.run(policy_, admission_review(), time.perf_counter() + 10)).outcome == Allow()

    asyncio.run(call_often())
    assert not lab.runner.in_place([policy_])


def test_those_before_it_are_not_asked_again_and_those_behind_it_are() -> None:
    seen: list[str] = []

    def quick(name: str) -> AnyPolicy:
        def policy(review: Any) -> Decision:
            seen.append(name)
            return Deny(f"{name} denies")

        return make(policy, name)

    def waits(review: Any) -> Decision:
        seen.append("waits")
        time.sleep(LONG if on_main_thread() else 0)
        return Deny("waits denies")

    verdict = Lab().decide(quick("before"), make(waits, "waits"), quick("behind"))
    assert sorted(seen) == ["before", "behind", "waits", "waits"]
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.message == "before: before denies; waits: waits denies; behind: behind denies"


def test_the_chain_of_mutating_policies_goes_on() -> None:
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


def compute() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


def backtrack() -> None:
    BACKTRACKING.match("a" * 40 + "b")


def wait() -> None:
    time.sleep(LONG)


async def await_nothing(keep: Callable[[], None]) -> Decision:
    await asyncio.sleep(0)
    keep()
    return Allow()


@pytest.mark.parametrize("keep", [compute, backtrack])
@pytest.mark.parametrize(("timeout", "own"), [(10.0, None), (0.15, None), (10.0, 0.15)])
def test_one_that_computes_in_place_is_stopped(keep: Callable[[], None], timeout: float, own: float | None) -> None:
    def policy(review: Any) -> Decision:
        keep()
        return Allow()

    lab, policy_ = Lab(), make(policy, timeout=own)
    verdict = lab.decide(policy_, timeout=timeout)
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.code == 504
    assert lab.kept < 5
    assert lab.stalls == {("p",): 1}
    assert lab.runner.in_place([policy_])  # where it can be stopped again


@pytest.mark.parametrize("keep", [compute, backtrack, wait])
@pytest.mark.parametrize("timeout", [10.0, 0.15])
def test_a_coroutine_that_keeps_the_loop_is_stopped(keep: Callable[[], None], timeout: float) -> None:
    async def policy(review: Any) -> Decision:
        return await await_nothing(keep)

    lab = Lab()
    began = time.monotonic()
    verdict = lab.decide(make(policy), timeout=timeout, in_place=False)
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.code == 504
    assert time.monotonic() - began < 5
    assert lab.stalls == {("p",): 1}


def test_what_ends_in_time_is_told_of_and_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalls, "MAX_STALL", LONG)

    def computes(review: Any) -> Decision:
        end = time.thread_time() + 1.2 * PATIENCE
        while time.thread_time() < end:
            pass
        return Allow()

    async def waits(review: Any) -> Decision:
        time.sleep(1.2 * PATIENCE)  # noqa: ASYNC251
        return Allow()

    for function, in_place in ((computes, True), (waits, False)):
        lab = Lab()
        assert lab.decide(make(function), in_place=in_place).outcome == Allow()
        assert lab.stalls == {("p",): 1}


def test_who_swallows_the_stop_is_stopped_again() -> None:
    stops: list[BaseException] = []

    def policy(review: Any) -> Decision:
        while len(stops) < 3:
            try:
                time.sleep(LONG)
            except BaseException as stop:
                stops.append(stop)
        return Deny("whatever happens")

    lab = Lab()
    outcome = lab.decide(make(policy)).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == "whatever happens"
    assert len(stops) == 3
    assert lab.kept < 5


def test_what_is_kept_by_no_policy_is_let_be() -> None:
    async def run() -> float:
        with LoopWatchdog(PolicyInterrupter(MetricRegistry()).end).beating():
            await asyncio.sleep(0)
            began = time.monotonic()
            time.sleep(3 * PATIENCE)  # noqa: ASYNC251
            return time.monotonic() - began

    assert asyncio.run(run()) >= 3 * PATIENCE

"""Selecting policies, running them together or one after another, and their shared deadline."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from webhooks import (
    Allow,
    Deny,
    NoOpinion,
    Policy,
    validating,
)
from webhooks.engine.dispatcher import Verdict, budget
from webhooks.engine.executor import PROMOTE_AFTER
from webhooks.errors import MalformedReview, PolicyTimeout
from webhooks.policy.model import OUTCOMES
from webhooks.reviews import admission_codec
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Outcome

from ..support.builders import (
    AnyPolicy,
    admission_body,
    admission_review,
    build_dispatcher,
    decide,
    encode_body,
    encode_response,
    make_inline,
    nested_json,
)
from ..support.policies import (
    ACCEPTS,
    BODIES,
    COROUTINE,
    DECORATORS,
    EXAMPLES,
    REVIEWS,
    THREAD,
    Function,
    Runner,
    assert_failure,
    every_kind,
    every_runner,
    is_equal,
    make,
    on_errors,
    returning,
)
from ..support.servers import review, serving

SOON = 0.02  # seconds, of the deadlines that are to be missed


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.mark.parametrize(
    ("timeout", "left"), [(None, 10), (30, 29.5), (10, 9.5), (5, 4.5), (2, 1.8), (1, 0.9), (0.1, 0.09)]
)
def test_a_part_of_the_timeout_is_reserved_for_the_response(timeout: float | None, left: float) -> None:
    assert budget(timeout) == pytest.approx(left)


@every_kind
@pytest.mark.parametrize("runner", [THREAD, COROUTINE], ids=lambda runner: runner.name)
@pytest.mark.parametrize("own", [False, True], ids=["the timeout of the review", "its own timeout"])
def test_a_policy_that_misses_its_deadline_has_failed(
    kind: Kind, runner: Runner, own: bool, gate: threading.Event
) -> None:
    for on_error in on_errors(kind):
        policy = overrunning(kind, runner, gate, on_error=on_error, timeout=SOON if own else None)
        verdict = runner.decide(REVIEWS[kind], policy, timeout=None if own else SOON)
        assert_failure(kind, on_error, verdict, code=504)
        assert isinstance(verdict.results[0].failure, PolicyTimeout)
        gate.set()
        gate.clear()


def overrunning(kind: Kind, runner: Runner, gate: threading.Event, **options: Any) -> AnyPolicy:
    def now(review: Any) -> Any:
        gate.wait()
        return EXAMPLES[OUTCOMES[kind][0]]

    async def is_async(review: Any) -> Any:
        await asyncio.Event().wait()

    policy: AnyPolicy = DECORATORS[kind](name="p", **options)(is_async if runner.is_async else now)
    return policy


@pytest.mark.parametrize("runner", [THREAD, COROUTINE], ids=lambda runner: runner.name)
def test_policies_that_run_one_after_another_share_the_time(runner: Runner, gate: threading.Event) -> None:
    policies = [overrunning("mutating", runner, gate, on_error="allow").with_name(name) for name in "abc"]
    verdict = runner.decide(REVIEWS["mutating"], *policies, timeout=SOON)
    gate.set()
    assert isinstance(verdict.outcome, Allow)
    assert len(verdict.outcome.warnings) == 3
    assert [type(result.failure) for result in verdict.results] == [PolicyTimeout] * 3
    assert sum(result.seconds for result in verdict.results) < 20 * SOON


@pytest.mark.parametrize("kind", ["validating", "authorizing", "authenticating", "image_policy"])
def test_independent_policies_run_concurrently(kind: Kind) -> None:
    outcome = EXAMPLES[OUTCOMES[kind][0]]
    in_threads, on_the_loop = threading.Barrier(3), asyncio.Barrier(2)

    def blocking(review: Any) -> Any:
        in_threads.wait(5)
        return outcome

    async def waiting(review: Any) -> Any:
        await on_the_loop.wait()
        return outcome

    threads = [DECORATORS[kind](name=f"thread-{number}")(blocking) for number in range(3)]
    loops = [DECORATORS[kind](name=f"loop-{number}")(waiting) for number in range(2)]
    verdict = decide(REVIEWS[kind], *threads, *loops)
    assert [result.failure for result in verdict.results] == [None] * 5


UNREADABLE: dict[str, tuple[str, Function]] = {
    "object": ('{"a":1,"a":2,"b":"%s"}' % ("x" * 100), lambda review: review.object),
    "oldObject": (f'{{"a":{2**63},"b":"{"x" * 100}"}}', lambda review: review.old_object),
    "userInfo": ('{"username":5}', lambda review: review.user),
    "options": (f'{{"a":{nested_json(250)}}}', lambda review: review.options),
    "metadata": ('{"metadata":5}', lambda review: review.labels),
}


@every_runner
@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize("part", UNREADABLE)
def test_a_malformed_review_is_never_allowed(kind: Kind, runner: Runner, part: str) -> None:
    text, read = UNREADABLE[part]
    where = "object" if part == "metadata" else part
    body = encode_body(admission_body("UPDATE", **{where: "PART"})).replace(b'"PART"', text.encode())

    def function(review: Any) -> Any:
        read(review)
        return Allow()

    for on_error in on_errors(kind):
        policies = [
            runner.make(kind, returning(Allow()), name="first"),
            runner.make(kind, function, on_error=on_error),
            runner.make(kind, returning(Deny("no")), name="last"),
        ]
        with pytest.raises(MalformedReview):
            runner.decide(admission_codec.CODEC.decode(body), *policies)
    assert isinstance(
        runner.decide(admission_codec.CODEC.decode(body), runner.make(kind, returning(Allow()))).outcome, Allow
    )


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("mutating", Allow()),
        ("validating", Allow()),
        ("image_policy", Allow()),
        ("authorizing", NoOpinion()),
        ("authenticating", NoOpinion()),
    ],
)
def test_a_review_that_no_policy_matches_is_left_to_others(kind: Kind, outcome: Outcome) -> None:
    verdict = build_dispatcher().decide(kind, REVIEWS[kind])
    assert verdict == Verdict(outcome)
    ACCEPTS[kind](BODIES[kind], encode_response(kind, REVIEWS[kind], Verdict(outcome)))


@every_kind
def test_inline_policies_are_decided_without_awaiting(kind: Kind) -> None:
    policy = make(kind, EXAMPLES[OUTCOMES[kind][0]])
    dispatcher = build_dispatcher(policy)
    make_inline(dispatcher.executor, policy)
    verdict = dispatcher.decide(kind, REVIEWS[kind])
    assert isinstance(verdict, Verdict)
    assert [result.policy.name for result in verdict.results] == ["p"]
    assert verdict.results[0].seconds >= 0


def test_an_inline_policy_and_one_in_a_thread_are_decided_together() -> None:
    threads: dict[str, bool] = {}

    def policy(name: str) -> AnyPolicy:
        def function(review: Any) -> Deny:
            threads[name] = threading.current_thread() is threading.main_thread()
            return Deny(name)

        return THREAD.make("validating", function, name=name)

    slow, quick = policy("slow"), policy("quick")
    dispatcher = build_dispatcher(slow, quick)
    make_inline(dispatcher.executor, quick)

    async def wait() -> Any:
        return await dispatcher.decide("validating", REVIEWS["validating"])  # type: ignore[misc]

    assert asyncio.run(wait()).outcome.message == "slow: slow; quick: quick"
    assert threads == {"slow": False, "quick": True}


def test_one_policy_can_be_run_alone() -> None:
    policies = [
        validating("pods", name="pods")(always_allow),
        validating("services", name="services")(always_deny),
        validating("pods", name="kube", namespaces=["kube-*"])(always_deny),
        validating("pods", name="deny")(always_deny),
    ]
    dispatcher = build_dispatcher(*policies)
    make_inline(dispatcher.executor, *policies)
    outcomes = {}
    for policy in policies:
        verdict = dispatcher.decide("validating", REVIEWS["validating"], only=policy)
        assert isinstance(verdict, Verdict)
        outcomes[policy.name] = (type(verdict.outcome), len(verdict.results))
    assert outcomes == {"pods": (Allow, 1), "services": (Allow, 0), "kube": (Allow, 0), "deny": (Deny, 1)}


def always_allow(review: Any) -> Allow:
    return Allow()


def always_deny(review: Any) -> Deny:
    return Deny("no")


@pytest.mark.parametrize("only", [False, True])
def test_selecting_by_an_unreadable_field_is_malformed(only: bool) -> None:
    policy: Policy[Any, Any] = validating("pods", labels={"a": "b"}, on_error="allow")(always_allow)
    dispatcher = build_dispatcher(policy)
    review = admission_review(obj={"metadata": {"labels": ["a"]}})
    with pytest.raises(MalformedReview):
        dispatcher.decide("validating", review, only=policy if only else None)


def test_parameters_reach_the_policy() -> None:
    @validating("pods")
    def limited(review: Any, *, most: int) -> Any:
        return Deny(f"{most} are the most")

    @validating("pods")
    async def limited_later(review: Any, *, most: int = 7) -> Any:
        return Deny(f"{most} are the most")

    for policy, most in ((limited.bind(most=5), 5), (limited_later, 7), (limited_later.bind(most=6), 6)):
        assert is_equal(decide(REVIEWS["validating"], policy).outcome, Deny(f"{most} are the most"))


FRAMES = """\
import json
import sys
import threading

from webhooks import *


@validating("widgets")
def counts(review):
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("webhooks."):
            frames.append(f"{frame.f_globals['__name__']}:{frame.f_code.co_name}")
        frame = frame.f_back
    return Deny(json.dumps(frames), code=403 if threading.current_thread() is threading.main_thread() else 404)
"""


def test_five_frames_lead_from_the_event_loop_to_an_inline_policy(tmp_path: Path) -> None:
    with serving(tmp_path, policies=FRAMES, ops=False) as server, server.connect() as connection:
        for _ in range(5 * PROMOTE_AFTER):
            status = connection.post("/admission/validate", review()).json()["response"]["status"]
            if status["code"] == 403:
                break
        frames = json.loads(status["message"])
    # The frames outside of `data_received` belong to the coroutine that runs the event loop.
    assert frames[:5] == [
        "webhooks.engine.executor:run_inline",
        "webhooks.engine.dispatcher:decide",
        "webhooks.app.endpoints:answer",
        "webhooks.server.review_protocol:_answer",
        "webhooks.server.review_protocol:data_received",
    ]

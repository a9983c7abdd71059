"""Exceptions and invalid outcomes are failures of the policy, and their details stay in the log."""

import asyncio
from typing import Any

import pytest

from webhooks import (
    Allow,
    Patch,
    Replace,
)
from webhooks.errors import PolicyFailure
from webhooks.policy.model import OUTCOMES
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Outcome

from ..support.builders import (
    encode_response,
)
from ..support.policies import (
    ACCEPTS,
    BODIES,
    EXAMPLES,
    INLINE,
    INVALID_VALUES,
    REVIEWS,
    THREAD,
    Runner,
    assert_failure,
    every_kind,
    every_runner,
    invalid_outcomes,
    on_errors,
    returning,
)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot be formatted")


class Unusual(BaseException):
    pass


class Disguised(Exception):
    @property
    def __class__(self) -> Any:
        raise Unusual("hush")


class _Nameless(type):
    @property
    def __name__(cls) -> Any:
        raise Unusual("hush")


class Anonymous(Exception, metaclass=_Nameless):
    pass


def recurse(depth: int = 0) -> Any:
    return recurse(depth + 1) + 1


RAISED: list[type[BaseException]] = [
    Exception,
    ValueError,
    KeyError,
    TypeError,
    AssertionError,
    OSError,
    TimeoutError,
    MemoryError,
    RecursionError,
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    Unusual,
    Unspeakable,
    Disguised,
    Anonymous,
]


@every_runner
@every_kind
@pytest.mark.parametrize("error", RAISED, ids=[type.__repr__(error) for error in RAISED])
def test_any_exception_is_a_failure_of_the_policy(kind: Kind, runner: Runner, error: type[BaseException]) -> None:
    def function(review: Any) -> Any:
        raise error("hush")

    for on_error in on_errors(kind):
        verdict = runner.decide(REVIEWS[kind], runner.make(kind, function, on_error=on_error))
        assert_failure(kind, on_error, verdict)
        assert isinstance(verdict.results[0].failure, PolicyFailure)
        assert verdict.results[0].failure.__cause__ is not None


@every_runner
@every_kind
def test_endless_recursion_is_a_failure(kind: Kind, runner: Runner) -> None:
    for on_error in on_errors(kind):
        assert_failure(
            kind, on_error, runner.decide(REVIEWS[kind], runner.make(kind, lambda _: recurse(), on_error=on_error))
        )


@every_runner
@every_kind
def test_an_invalid_outcome_is_a_failure(kind: Kind, runner: Runner) -> None:
    for value in [*INVALID_VALUES.values(), *invalid_outcomes(kind)]:
        for on_error in on_errors(kind):
            verdict = runner.decide(REVIEWS[kind], runner.make(kind, returning(value), on_error=on_error))
            try:
                assert_failure(kind, on_error, verdict)
            except AssertionError as error:
                pytest.fail(f"{value!a} with on_error={on_error}: {error}")


@every_kind
def test_a_coroutine_is_not_an_outcome_of_a_plain_function(kind: Kind) -> None:
    async def is_async() -> Outcome:
        return EXAMPLES[OUTCOMES[kind][0]]

    for runner in (THREAD, INLINE):
        for on_error in on_errors(kind):
            policy = runner.make(kind, lambda _: is_async(), on_error=on_error)
            assert_failure(kind, on_error, runner.decide(REVIEWS[kind], policy))


@every_runner
@every_kind
def test_every_outcome_of_its_kind_is_accepted(kind: Kind, runner: Runner) -> None:
    for type_ in OUTCOMES[kind]:
        verdict = runner.decide(REVIEWS[kind], runner.make(kind, returning(EXAMPLES[type_])))
        assert verdict.results[0].failure is None
        assert type(verdict.outcome) is (Allow if type_ in (Patch, Replace) else type_)
        ACCEPTS[kind](BODIES[kind], encode_response(kind, REVIEWS[kind], verdict))

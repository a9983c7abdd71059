"""One call of a policy, wherever it runs: what comes of it is an outcome that is as it must be, or a failure."""

import inspect
import math
from time import perf_counter
from typing import Any

import msgspec

from webhooks.errors import MalformedReview, PolicyFailure, PolicyTimeout
from webhooks.policy.model import OUTCOMES, AnyPolicy
from webhooks.reviews.outcomes import CHANGES, Allow, Authenticated, Deny, Outcome


class Result(msgspec.Struct):
    """What came of running one policy: an outcome or a failure, and the seconds it took."""

    policy: AnyPolicy
    outcome: Outcome | None
    failure: PolicyFailure | MalformedReview | None
    seconds: float

    @property
    def name(self) -> str:
        """What metrics, logs and traces call it: by its outcome, or by its failure."""
        return type(self.outcome or self.failure).__name__.lower()


class PolicyInterrupted(BaseException):
    """Raised into a policy that keeps the event loop, to stop it: see `webhooks.engine.stalls`.

    Attributes:
        waits: whether it waits for something, as it may in a thread.
        deadline: when it must have answered, on the clock of `time.perf_counter`, though it is asked again.
    """

    def __init__(self, *, waits: bool) -> None:
        super().__init__("stopped, since it kept the event loop")
        self.waits = waits
        self.deadline = math.inf


def call(policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:  # noqa: ARG001
    """Call a policy. Raises nothing.

    Args:
        policy: the policy.
        review: its own review.
        started: when, on the clock of `time.perf_counter`.
        deadline: the review's, for those to know who look on.
    """
    try:
        outcome = checked(policy, policy.call(review))
    except BaseException as error:  # whatever a policy raises, SystemExit too, is a failure of that policy alone
        return Result(policy, None, failure(error), perf_counter() - started)
    return Result(policy, outcome, None, perf_counter() - started)


async def call_on_loop(policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:  # noqa: ARG001
    """Call a policy that is a coroutine function. Raises nothing; the arguments are those of `call`."""
    try:
        outcome = checked(policy, await policy.call(review))
    except BaseException as error:  # as above; a cancellation comes from those who no longer listen
        return Result(policy, None, failure(error), perf_counter() - started)
    return Result(policy, outcome, None, perf_counter() - started)


def deadline_of(policy: AnyPolicy, started: float, deadline: float) -> float:
    """When a policy must have answered: by its own timeout, and by the deadline of the review."""
    return deadline if policy.timeout is None else min(deadline, started + policy.timeout)


def overrun(policy: AnyPolicy, seconds: float, what: str = "did not answer in time") -> Result:
    """The result of a policy that is not waited for any longer."""
    return Result(policy, None, PolicyTimeout(f"policy {policy.name!r} {what}"), seconds)


def failure(error: BaseException) -> PolicyFailure | MalformedReview:
    """What an exception that came out of a policy counts as."""
    kind = type(error)  # and not `isinstance`, which asks the exception too, and that may raise another
    if issubclass(kind, PolicyFailure | MalformedReview):
        return error  # type: ignore[return-value]
    what = "raised an exception"
    try:
        what = f"raised {kind.__name__}"
        what = f"{what}: {error}"
    except BaseException:  # noqa: S110  # one that cannot say what it is
        pass
    found = (PolicyTimeout if issubclass(kind, PolicyInterrupted) else PolicyFailure)(what)
    found.__cause__ = error
    return found


def checked(policy: AnyPolicy, outcome: Any) -> Outcome:
    """The outcome, which is one that the policy may have, with fields of the right types.

    Raises:
        PolicyFailure: it is none.
    """
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
        converted: Outcome = msgspec.convert(fields, kind)
        msgspec.json.encode({name: value for name, value in fields.items() if name not in _CHANGED})
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise PolicyFailure(f"returned a misshapen {kind.__name__}: {error}") from None
    if isinstance(converted, Deny) and not 400 <= converted.code <= 599:
        raise PolicyFailure(f"returned a Deny of code {converted.code}, which is no HTTP error")
    if isinstance(converted, Authenticated) and not converted.username:
        raise PolicyFailure("returned an Authenticated without a username")
    return converted


# What a change holds is looked at when it is followed.
_CHANGED = frozenset(("object", "operations"))


def _described(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"

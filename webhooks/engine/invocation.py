"""One invocation of a policy: its result is a validated outcome or a failure."""

import inspect
import math
from time import perf_counter
from typing import Any

import msgspec

from webhooks.errors import MalformedReview, PolicyFailure, PolicyTimeout
from webhooks.policy.model import OUTCOMES, AnyPolicy
from webhooks.reviews.outcomes import CHANGES, Allow, Authenticated, Deny, Outcome


class Result(msgspec.Struct):
    """The result of running one policy: an outcome or a failure, and the seconds it took."""

    policy: AnyPolicy
    outcome: Outcome | None
    failure: PolicyFailure | MalformedReview | None
    seconds: float

    @property
    def name(self) -> str:
        """The name of the outcome or failure in metrics, logs and traces."""
        return type(self.outcome or self.failure).__name__.lower()


class PolicyInterrupted(BaseException):
    """Raised inside a policy that blocks the event loop, to stop it: see `webhooks.engine.watchdog`.

    Attributes:
        is_waiting: whether the policy waits for something, which it may do in a thread.
        deadline: the deadline of its second run, on the clock of `time.perf_counter`.
    """

    def __init__(self, *, is_waiting: bool) -> None:
        super().__init__("interrupted, because it blocked the event loop")
        self.is_waiting = is_waiting
        self.deadline = math.inf


def invoke(policy: AnyPolicy, review: Any) -> Result:
    """Call a policy. Never raises an exception.

    Args:
        policy: the policy.
        review: its own copy of the review.
    """
    started = perf_counter()
    try:
        outcome = validate_outcome(policy, policy.call(review))
    except BaseException as error:  # any exception, SystemExit included, is a failure of this policy only
        return Result(policy, None, to_failure(error), perf_counter() - started)
    return Result(policy, outcome, None, perf_counter() - started)


async def invoke_async(policy: AnyPolicy, review: Any, started: float, deadline: float) -> Result:  # noqa: ARG001
    """Call a policy that is a coroutine function. Never raises an exception.

    Args:
        policy: the policy.
        review: its own copy of the review.
        started: the start, on the clock of `time.perf_counter`.
        deadline: the deadline of the review, which the watchdog reads from this frame.
    """
    try:
        outcome = validate_outcome(policy, await policy.call(review))
    except BaseException as error:  # as in `invoke`; it is cancelled only when its result is no longer needed
        return Result(policy, None, to_failure(error), perf_counter() - started)
    return Result(policy, outcome, None, perf_counter() - started)


def policy_deadline(policy: AnyPolicy, started: float, deadline: float) -> float:
    """Return the deadline of a policy: the earlier of its own timeout and the deadline of the review."""
    return deadline if policy.timeout is None else min(deadline, started + policy.timeout)


def timeout_result(policy: AnyPolicy, seconds: float, message: str = "timed out") -> Result:
    """Return the result of a policy that missed its deadline."""
    return Result(policy, None, PolicyTimeout(f"policy {policy.name!r} {message}"), seconds)


def to_failure(error: BaseException) -> PolicyFailure | MalformedReview:
    """Convert an exception that a policy raised to the failure that it counts as."""
    kind = type(error)  # not `isinstance`, which reads `__class__` of the exception, and that may raise another
    if issubclass(kind, PolicyFailure | MalformedReview):
        return error  # type: ignore[return-value]
    message = "raised an exception"
    try:
        message = f"raised {kind.__name__}"
        message = f"{message}: {error}"
    except BaseException:  # noqa: S110  # an exception that cannot be formatted
        pass
    failure = (PolicyTimeout if issubclass(kind, PolicyInterrupted) else PolicyFailure)(message)
    failure.__cause__ = error
    return failure


def release_frames(error: BaseException) -> None:
    """Release the frames in which an exception was raised, after it was logged.

    They refer to the review and to the result with this exception. Such a cycle would keep a large review in memory
    until the next garbage collection, and a policy that fails often would exhaust the memory.
    """
    error.__traceback__ = error.__context__ = error.__cause__ = None


def validate_outcome(policy: AnyPolicy, outcome: Any) -> Outcome:
    """Check that a policy may return this outcome, and that its fields have the right types.

    Raises:
        PolicyFailure: it may not, or a field is invalid.
    """
    kind = type(outcome)
    if kind not in OUTCOMES[policy.kind]:
        if inspect.iscoroutine(outcome):
            outcome.close()
        allowed = ", ".join(type_.__name__ for type_ in OUTCOMES[policy.kind])
        raise PolicyFailure(f"returned {_describe(outcome)}; must be one of {allowed}")
    if outcome.warnings == () and outcome.audit == {} and (kind in CHANGES or (kind is Allow and outcome.reason == "")):
        return outcome  # type: ignore[no-any-return]
    fields = msgspec.structs.asdict(outcome)
    try:
        converted: Outcome = msgspec.convert(fields, kind)
        msgspec.json.encode({name: value for name, value in fields.items() if name not in _CHANGE_FIELDS})
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise PolicyFailure(f"returned an invalid {kind.__name__}: {error}") from None
    if isinstance(converted, Deny) and not 400 <= converted.code <= 599:
        raise PolicyFailure(f"returned a Deny with code {converted.code}; must be between 400 and 599")
    if isinstance(converted, Authenticated) and not converted.username:
        raise PolicyFailure("returned an Authenticated without a username")
    return converted


# Checked when the change is applied.
_CHANGE_FIELDS = frozenset(("object", "operations"))


def _describe(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"

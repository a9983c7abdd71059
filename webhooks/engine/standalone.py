"""Runs policies without a server, and sends an object through them in the phases of an API server."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.dispatcher import Dispatcher
from webhooks.engine.executor import InlineState, PolicyExecutor
from webhooks.objects import json_patch
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.reviews.kinds import Kind
from webhooks.settings import Limits

Json: TypeAlias = Mapping[str, Any]

PHASES: tuple[Kind, ...] = ("mutating", "validating")


class PhaseResult(Protocol):
    """The result of the policies of one kind."""

    @property
    def allowed(self) -> bool | None:
        """Whether the request is allowed."""

    @property
    def patch(self) -> Sequence[Mapping[str, Any]]:
        """The changes to the object, as JSON Patch operations."""


P = TypeVar("P", bound=PhaseResult)


def _ignore_change(policy: str, state: InlineState) -> None:
    """Ignore the change of an `InlineState`."""


def build_dispatcher(
    policies: Iterable[AnyPolicy],
    on_change: Callable[[str, InlineState], None] = _ignore_change,
    metrics: MetricRegistry | None = None,
) -> Dispatcher:
    """Build a dispatcher. Start its executor before use, and close it at the end.

    Args:
        policies: the policies to run.
        on_change: see `PolicyExecutor`.
        metrics: the registry for metrics; None if they are not needed.

    Raises:
        ConfigurationError: the policies are inconsistent, see `Registry`.
    """
    registry, metrics = Registry(policies), metrics or MetricRegistry()
    return Dispatcher(registry, PolicyExecutor(registry, on_change, metrics), ConcurrencyLimiter(Limits(), metrics))


async def run_admission(body: Json, evaluate: Callable[[Kind, Json], Awaitable[P]]) -> tuple[list[P], Any]:
    """Send a request through the phases of an API server: mutating policies, then validating ones on their result.

    Args:
        body: an AdmissionReview, which is not modified.
        evaluate: runs the policies of a kind on a body.

    Returns:
        The results of the phases, ending with the first that does not allow the request; and the final object, which
        is None if the request is not allowed, and on DELETE.
    """
    results: list[P] = []
    for kind in PHASES:
        result = await evaluate(kind, body)
        results.append(result)
        if not result.allowed:
            return results, None
        if result.patch:
            changed = json_patch.apply(body["request"]["object"], result.patch)
            body = {**body, "request": {**body["request"], "object": changed}}
    return results, body["request"].get("object")

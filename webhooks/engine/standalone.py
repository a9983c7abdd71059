"""Asking policies without a server: what runs them, and an object's way through them, as API servers lead it."""

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

STAGES: tuple[Kind, ...] = ("mutating", "validating")


class Stage(Protocol):
    """What the policies of one kind came to."""

    @property
    def allowed(self) -> bool | None:
        """Whether the object may go on."""

    @property
    def patch(self) -> Sequence[Mapping[str, Any]]:
        """What they change, as JSON Patch operations."""


S = TypeVar("S", bound=Stage)


def _ignore_pace(policy: str, pace: InlineState) -> None:
    """Nobody counts how quick policies are."""


def dispatcher(
    policies: Iterable[AnyPolicy],
    paced: Callable[[str, InlineState], None] = _ignore_pace,
    meters: MetricRegistry | None = None,
) -> Dispatcher:
    """What asks policies. Its runner is to be started before, and closed at the end.

    Args:
        policies: those to ask.
        paced: see `PolicyExecutor`.
        meters: where things are counted; unless given, nobody looks.

    Raises:
        ConfigurationError: the policies do not fit together.
    """
    registry, meters = Registry(policies), meters or MetricRegistry()
    return Dispatcher(registry, PolicyExecutor(registry, paced, meters), ConcurrencyLimiter(Limits(), meters))


async def admit(body: Json, ask: Callable[[Kind, Json], Awaitable[S]]) -> tuple[list[S], Any]:
    """Ask about an object as API servers do: mutating policies first, then validating ones on what those left.

    Args:
        body: an AdmissionReview, which stays as it is.
        ask: asks the policies of a kind about one.

    Returns:
        What the stages came to, of which one that does not allow the object is the last; and the object as they leave
        it, None where it is not allowed, and on DELETE.
    """
    stages: list[S] = []
    for kind in STAGES:
        stage = await ask(kind, body)
        stages.append(stage)
        if not stage.allowed:
            return stages, None
        if stage.patch:
            changed = json_patch.apply(body["request"]["object"], stage.patch)
            body = {**body, "request": {**body["request"], "object": changed}}
    return stages, body["request"].get("object")

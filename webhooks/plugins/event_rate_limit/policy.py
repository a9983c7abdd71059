"""The policy: asks the budget for a token of each limit, and refuses events for which one has none."""

from collections.abc import Sequence

from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit import keys as events
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.token_bucket import Limit, MemoryBudget
from webhooks.policy.decorators import validating
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.outcomes import Allow, Decision, Deny

_ALLOW = Allow()
_SECOND = 1_000_000_000  # nanoseconds

_on_events = validating(
    "core/events",
    "events.k8s.io/events",
    "events.svc.io/events",
    operations=["CREATE", "UPDATE"],
    name="event_rate_limit",
    side_effects="none_on_dry_run",
)


class Limiter:
    """What an event is asked for, in the order of the configuration, and what it is told.

    Args:
        limits: in that order.
        meters: where the decisions are counted.
    """

    def __init__(self, limits: Sequence[Limit], meters: MetricRegistry) -> None:
        self._types = [limit.type for limit in limits]
        self._decisions = meters.counter(
            "webhooks_event_rate_limit_decisions", "Events that a limit allowed or denied.", ("type", "outcome")
        )

    def keys(self, review: AdmissionReview) -> list[str]:
        """What an event is counted under, for each limit.

        Raises:
            MalformedReview: what has to be asked cannot be read.
        """
        return [events.key(type_, review) for type_ in self._types]

    def decide(self, keys: Sequence[str], waits: Sequence[int]) -> Decision:
        """What comes of it: one limit without a token refuses, and with several all are named.

        Args:
            keys: as `keys` gave them.
            waits: for each 0, or the nanoseconds until there is a token.
        """
        count = self._decisions.add
        for type_, wait in zip(self._types, waits):  # noqa: B905  # what it costs on every event
            count(type_, "deny" if wait else "allow")
        return self._refusal(keys, waits) if any(waits) else _ALLOW

    def _refusal(self, keys: Sequence[str], waits: Sequence[int]) -> Deny:
        """A Status as the API server's own plugin makes it, with the time until it is worth while to try again."""
        reached = [
            f"limit reached on type {type_} for key {_shown(key)}"
            for type_, key, wait in zip(self._types, keys, waits, strict=True)
            if wait
        ]
        unique = list(dict.fromkeys(reached))
        message = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
        return Deny(
            f"Too many requests: {message}",
            reason="TooManyRequests",
            code=429,
            details={"retryAfterSeconds": -(-max(waits) // _SECOND)},
        )


def _shown(key: str) -> str:
    """A key for people: what cannot be seen, or would be obeyed by a terminal, is escaped."""
    if key.isprintable():
        return key
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in key)


def limiting(limiter: Limiter, budget: MemoryBudget) -> AnyPolicy:
    """A policy that takes from a budget of this process."""

    @_on_events
    def event_rate_limit(review: AdmissionReview) -> Decision:
        if review.dry_run:
            return _ALLOW
        keys = limiter.keys(review)
        return limiter.decide(keys, budget.take(keys))

    return event_rate_limit


def sharing(limiter: Limiter, budget: RedisBudget) -> AnyPolicy:
    """A policy that takes from a budget that others share."""

    @_on_events
    async def event_rate_limit(review: AdmissionReview) -> Decision:
        if review.dry_run:
            return _ALLOW
        keys = limiter.keys(review)
        return limiter.decide(keys, await budget.take(keys))

    return event_rate_limit

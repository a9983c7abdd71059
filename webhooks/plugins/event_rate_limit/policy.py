"""The policy: takes a token for each limit, and denies events if a limit has none left."""

from collections.abc import Sequence

from webhooks.errors import printable
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit.keys import compute_key
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.token_bucket import Limit, MemoryBudget
from webhooks.policy.decorators import validating
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.outcomes import Allow, Decision, Deny

_ALLOW = Allow()
_SECOND = 1_000_000_000  # nanoseconds

_validating_events = validating(
    "core/events",
    "events.k8s.io/events",
    "events.svc.io/events",
    operations=["CREATE", "UPDATE"],
    name="event_rate_limit",
    side_effects="none_on_dry_run",
)


class Limiter:
    """Computes the keys of events, and turns waiting times into decisions.

    Args:
        limits: the limits in the order of the configuration.
        metrics: the registry for the number of decisions.
    """

    def __init__(self, limits: Sequence[Limit], metrics: MetricRegistry) -> None:
        self._types = [limit.type for limit in limits]
        self._decisions = metrics.counter(
            "webhooks_event_rate_limit_decisions", "Events that a limit allowed or denied.", ("type", "outcome")
        )

    def keys(self, review: AdmissionReview) -> list[str]:
        """Return the key of an event for each limit.

        Raises:
            MalformedReview: a field that is part of a key cannot be read.
        """
        return [compute_key(type_, review) for type_ in self._types]

    def decide(self, keys: Sequence[str], waits: Sequence[int]) -> Decision:
        """Allow an event if every limit had a token; otherwise deny it, and list the limits that had none.

        Args:
            keys: the result of `keys`.
            waits: for each limit 0, or the nanoseconds until it has a token.
        """
        count = self._decisions.add
        for type_, wait in zip(self._types, waits):  # noqa: B905  # strict costs time for every event
            count(type_, "deny" if wait else "allow")
        return self._deny(keys, waits) if any(waits) else _ALLOW

    def _deny(self, keys: Sequence[str], waits: Sequence[int]) -> Deny:
        """Return the same Status as the API server's own plugin, with the time until a retry can succeed."""
        reached = [
            f"limit reached on type {type_} for key {printable(key)}"
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


def create_local_policy(limiter: Limiter, budget: MemoryBudget) -> AnyPolicy:
    """Create a policy that uses the budget of this process."""

    @_validating_events
    def event_rate_limit(review: AdmissionReview) -> Decision:
        if review.dry_run:
            return _ALLOW
        keys = limiter.keys(review)
        return limiter.decide(keys, budget.take(keys))

    return event_rate_limit


def create_shared_policy(limiter: Limiter, budget: RedisBudget) -> AnyPolicy:
    """Create a policy that uses a budget shared by several processes."""

    @_validating_events
    async def event_rate_limit(review: AdmissionReview) -> Decision:
        if review.dry_run:
            return _ALLOW
        keys = limiter.keys(review)
        return limiter.decide(keys, await budget.take(keys))

    return event_rate_limit

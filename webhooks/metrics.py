"""What is counted and timed, for Prometheus. Labels are bounded: kinds, verdicts, codes and the names of policies."""

import logging
import os
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from webhooks.decisions import Deny
from webhooks.dispatch import Verdict
from webhooks.running import Pace, Result

logger = logging.getLogger("webhooks.policies")

SHARED_DIR = "PROMETHEUS_MULTIPROC_DIR"  # where processes share their metrics; it must be set before they begin

_BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0, 5.0, 10.0, 30.0)


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reviews = Counter(
            "webhooks_reviews",
            "Reviews answered, by kind of review, verdict and code.",
            ("kind", "verdict", "code"),
            registry=self.registry,
        )
        self.policies = Histogram(
            "webhooks_policy_duration_seconds",
            "Seconds that policies took, by their outcome: its name, or the name of the failure.",
            ("policy", "outcome"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.in_place = Gauge(
            "webhooks_policy_in_place",
            "In how many processes a def policy runs in place, having shown itself quick, and not in a thread.",
            ("policy",),
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.overrun = Gauge(
            "webhooks_policy_overrun_threads",
            "Threads that a policy keeps past its deadlines.",
            ("policy",),
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self.audit_events = Counter(
            "webhooks_audit_events", "Audit events received.", ("level", "stage"), registry=self.registry
        )

    def paced(self, policy: str, pace: Pace) -> None:
        """Show how a policy is run from now on."""
        self.in_place.labels(policy).set(pace.in_place)
        self.overrun.labels(policy).set(pace.overrun)

    def recorder(self, review_kind: str) -> "Recorder":
        """Where an endpoint records what it answered."""
        return Recorder(self, review_kind)

    def page(self) -> bytes:
        """All of it as Prometheus reads it; of all processes, where several share it."""
        return generate_latest(shared_registry() if SHARED_DIR in os.environ else self.registry)


def shared_registry() -> CollectorRegistry:
    """What several processes counted together."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


class Recorder:
    """Records verdicts: counts, times, and the failures of policies, with what finds the review again."""

    def __init__(self, metrics: Metrics, review_kind: str) -> None:
        self._metrics = metrics
        self._review_kind = review_kind
        self._count: dict[tuple[str, int], Callable[[], None]] = {}
        self._observe: dict[tuple[str, type], Callable[[float], None]] = {}

    def __call__(self, review: Any, verdict: Verdict) -> None:
        """Record what a review came to."""
        for result in verdict.results:
            outcome = type(result.outcome or result.failure)
            observe = self._observe.get((result.policy.name, outcome)) or self._observer(result.policy.name, outcome)
            observe(result.seconds)
            if result.failure is not None:
                _log_failure(review, result)
        self._reviewed(*_summary(verdict))

    def malformed(self, code: int) -> None:
        """Record a body that was no acceptable review."""
        self._reviewed("malformed", code)

    def _reviewed(self, verdict: str, code: int) -> None:
        count = self._count.get((verdict, code))
        if count is None:
            count = self._metrics.reviews.labels(self._review_kind, verdict, str(code)).inc
            self._count[verdict, code] = count
        count()

    def _observer(self, policy: str, outcome: type) -> Callable[[float], None]:
        observe = self._metrics.policies.labels(policy, outcome.__name__.lower()).observe
        self._observe[policy, outcome] = observe
        return observe


def _summary(verdict: Verdict) -> tuple[str, int]:
    outcome = verdict.outcome
    if outcome is None:
        return "failed", 500
    if isinstance(outcome, Deny):
        return "deny", outcome.code
    return "patch" if verdict.patch is not None else type(outcome).__name__.lower(), 200


def _log_failure(review: Any, result: Result) -> None:
    logger.error(
        "policy %s failed on review %s: %s",
        result.policy.name,
        getattr(review, "uid", ""),
        result.failure,
        exc_info=result.failure.__cause__ if result.failure is not None else None,
    )

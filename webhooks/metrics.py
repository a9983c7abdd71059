"""What is counted and timed, for Prometheus. Labels are bounded: kinds, verdicts, codes and the names of policies."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from webhooks.decisions import Deny, Outcome
from webhooks.dispatch import Verdict
from webhooks.policy import Kind
from webhooks.running import Result, Runner

logger = logging.getLogger("webhooks.policies")

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
        self.outcomes = Counter(
            "webhooks_policy_outcomes",
            "Outcomes of policies: the outcome's name, or failed, timeout, malformed.",
            ("policy", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "webhooks_policy_duration_seconds",
            "Seconds that policies took.",
            ("policy",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.audit_events = Counter(
            "webhooks_audit_events", "Audit events received.", ("level", "stage"), registry=self.registry
        )

    def watch(self, runner: Runner) -> None:
        """Show how each policy is run, as it is when asked."""
        self.registry.register(_Paces(runner))

    def recorder(self, review_kind: str, kind: Kind) -> "Recorder":
        """Where an endpoint records what it answered."""
        return Recorder(self, review_kind, kind)


class _Paces(Collector):
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def collect(self) -> Iterable[GaugeMetricFamily]:
        in_place = GaugeMetricFamily(
            "webhooks_policy_in_place",
            "Whether a def policy runs in place (1), having shown itself quick, or in a thread (0).",
            labels=("policy",),
        )
        overrun = GaugeMetricFamily(
            "webhooks_policy_overrun_threads", "Threads that a policy keeps past its deadlines.", labels=("policy",)
        )
        for name, pace in self._runner.paces.items():
            in_place.add_metric((name,), float(pace.in_place))
            overrun.add_metric((name,), float(pace.overrun))
        return (in_place, overrun)


class Recorder:
    """Records verdicts: counts, times, and the failures of policies, with what finds the review again."""

    def __init__(self, metrics: Metrics, review_kind: str, kind: Kind) -> None:
        self._metrics = metrics
        self._review_kind = review_kind
        self._kind = kind
        self._count: dict[tuple[str, int], Callable[[], None]] = {}
        self._policy: dict[tuple[str, str], tuple[Callable[[], None], Callable[[float], None]]] = {}

    def __call__(self, review: Any, verdict: Verdict) -> None:
        """Record what a review came to."""
        for result in verdict.results:
            name = _outcome_name(result)
            known = self._policy.get((result.policy.name, name))
            if known is None:
                known = self._children(result.policy.name, name)
            known[0]()
            known[1](result.seconds)
            if result.failure is not None:
                _log_failure(review, result)
        outcome = verdict.outcome
        self._reviewed(_verdict_name(verdict), outcome.code if isinstance(outcome, Deny) else _code(outcome))

    def malformed(self, code: int) -> None:
        """Record a body that was no acceptable review."""
        self._reviewed("malformed", code)

    def _reviewed(self, verdict: str, code: int) -> None:
        count = self._count.get((verdict, code))
        if count is None:
            count = self._metrics.reviews.labels(self._review_kind, verdict, str(code)).inc
            self._count[verdict, code] = count
        count()

    def _children(self, policy: str, outcome: str) -> tuple[Callable[[], None], Callable[[float], None]]:
        children = (
            self._metrics.outcomes.labels(policy, outcome).inc,
            self._metrics.seconds.labels(policy).observe,
        )
        self._policy[policy, outcome] = children
        return children


def _outcome_name(result: Result) -> str:
    if result.outcome is not None:
        return type(result.outcome).__name__
    return type(result.failure).__name__


def _verdict_name(verdict: Verdict) -> str:
    if verdict.patch is not None:
        return "Patch"
    return "failed" if verdict.outcome is None else type(verdict.outcome).__name__


def _code(outcome: Outcome | None) -> int:
    return 500 if outcome is None else 200


def _log_failure(review: Any, result: Result) -> None:
    logger.error(
        "policy %s failed on review %s: %s",
        result.policy.name,
        getattr(review, "uid", ""),
        result.failure,
        exc_info=result.failure.__cause__ if result.failure is not None else None,
    )

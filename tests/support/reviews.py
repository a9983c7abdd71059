"""Review endpoints without a server, with the parts that tests look into."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webhooks.app.decision_log import DecisionLog
from webhooks.app.review_metrics import ReviewMetrics
from webhooks.app.review_routes import ReviewRoutes
from webhooks.app.tracing import Tracing
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.executor import PolicyExecutor
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.registry import Registry
from webhooks.settings import Limits


@dataclass(frozen=True)
class Reviews:
    """The routes, and the parts that they consist of."""

    routes: ReviewRoutes
    executor: PolicyExecutor
    limiter: ConcurrencyLimiter
    metrics: ReviewMetrics

    def endpoint(self, path: str) -> Any:
        """Return the endpoint of a path."""
        return self.routes.by_path[path]


def build_reviews(
    policies: Iterable[Any],
    *,
    limits: Limits | None = None,
    decision_log: DecisionLog | None = None,
    tracing: Tracing | None = None,
) -> Reviews:
    """Build the review endpoints of policies as a server does."""
    registry, metrics = Registry(policies), MetricRegistry()
    review_metrics = ReviewMetrics(metrics)
    create_executor = PolicyExecutor if tracing is None else tracing.create_executor
    executor = create_executor(registry, review_metrics.on_mode_change, metrics)
    limiter = ConcurrencyLimiter(limits or Limits(), metrics)
    log = decision_log if tracing is None else tracing.trace_decisions(decision_log)
    routes = ReviewRoutes(registry, executor, limiter, review_metrics, log, tracing)
    return Reviews(routes, executor, limiter, review_metrics)

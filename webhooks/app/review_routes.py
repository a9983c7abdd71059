"""The review endpoints of the current policies, which can be replaced while the server runs."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from webhooks.app.decision_log import DecisionLog
from webhooks.app.endpoints import AnyEndpoint, build_endpoints
from webhooks.app.review_metrics import ReviewMetrics
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.dispatcher import Dispatcher
from webhooks.engine.executor import PolicyExecutor
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry

if TYPE_CHECKING:
    from webhooks.app.tracing import Tracing

_MAX_REVIEW_DURATION = MAX_TIMEOUT + 5  # seconds


class ReviewRoutes:
    """The review endpoints by path.

    Args:
        registry: the policies.
        executor: runs the policies.
        limiter: limits concurrent reviews.
        metrics: records the reviews.
        decision_log: logs the decisions; None for no log.
        tracing: traces the reviews; None for no tracing.

    Attributes:
        by_path: the endpoints by path. The same mapping has other endpoints after the policies were replaced.
        by_raw_path: the same by the bytes of the path in a request.
    """

    def __init__(
        self,
        registry: Registry,
        executor: PolicyExecutor,
        limiter: ConcurrencyLimiter,
        metrics: ReviewMetrics,
        decision_log: DecisionLog | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._executor = executor
        self._limiter = limiter
        self._metrics = metrics
        self._decision_log = decision_log
        self._tracing = tracing
        self._cleanups: set[asyncio.Task[None]] = set()
        self.by_path: dict[str, AnyEndpoint] = {}
        self.by_raw_path: dict[bytes, AnyEndpoint] = {}
        self._install(registry)

    @property
    def has_policies(self) -> bool:
        """Whether there are any policies."""
        return len(self._registry) > 0

    async def replace_policies(self, registry: Registry) -> None:
        """Use other policies from the next review on. Reviews in progress keep their policies.

        Raises:
            ConfigurationError: an isolated policy cannot be loaded in its process. The policies are not replaced.
        """
        await self._executor.add(registry)
        current = set(registry)
        removed = [policy for policy in self._registry if policy not in current]
        self._install(registry)
        cleanup = asyncio.create_task(self._clean_up(removed))
        self._cleanups.add(cleanup)
        cleanup.add_done_callback(self._cleanups.discard)

    def _install(self, registry: Registry) -> None:
        """Replace all endpoints at once, between two reviews."""
        by_path = build_endpoints(
            Dispatcher(registry, self._executor, self._limiter), self._metrics, self._decision_log
        )
        if self._tracing is not None:
            by_path = self._tracing.trace_endpoints(by_path)
        self._registry = registry
        self.by_path.clear()
        self.by_path.update(by_path)
        self.by_raw_path.clear()
        self.by_raw_path.update((path.encode(), endpoint) for path, endpoint in by_path.items())

    async def _clean_up(self, removed: Sequence[AnyPolicy]) -> None:
        """Release removed policies after their last review must be over."""
        await asyncio.sleep(_MAX_REVIEW_DURATION)
        await self._executor.remove(removed)
        self._metrics.forget(removed, self._registry)

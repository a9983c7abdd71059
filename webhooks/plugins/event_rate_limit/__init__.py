"""The plugin EventRateLimit: limits events of a cluster in total, per namespace, per user, and per source and object.

It works as the API server's own plugin. In addition, several processes can share their limits in Redis.
"""

from webhooks.plugins import Document, FieldError, PluginContext
from webhooks.plugins.event_rate_limit.policy import Limiter, create_local_policy, create_shared_policy
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.settings import Settings
from webhooks.plugins.event_rate_limit.token_bucket import MemoryBudget
from webhooks.policy.model import AnyPolicy


def configure(document: Document, context: PluginContext) -> list[AnyPolicy]:
    """Create the policy from a configuration; see `webhooks.plugins.loader`.

    Raises:
        ConfigurationError: the configuration is invalid; one line for each error.
    """
    settings = document.read(Settings, document.file.parent)
    limits = [limit.to_limit() for limit in settings.limits]
    limiter, local_budget = Limiter(limits, context.metrics), MemoryBudget(limits, context.metrics)
    if settings.redis is None:
        if context.workers > 1 and not settings.accept_limits_per_worker:
            raise document.error([_limits_per_worker(context.workers)])
        return [create_local_policy(limiter, local_budget)]
    shared_budget = RedisBudget(limits, settings.redis, local_budget, context.metrics)
    context.on_shutdown(shared_budget.close)
    return [create_shared_policy(limiter, shared_budget)]


def _limits_per_worker(workers: int) -> FieldError:
    return FieldError(
        ("acceptLimitsPerWorker",),
        "Required value",
        f"each of the {workers} workers counts separately, so up to {workers} times the limits can pass: share the "
        "limits with backend: redis, or accept this with acceptLimitsPerWorker: true",
    )

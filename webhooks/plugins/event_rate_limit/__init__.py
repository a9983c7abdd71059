"""EventRateLimit: how many events a cluster takes, in all and of each namespace, user, and source and object.

As the API server's own plugin does it; and, beyond that, over several processes that share their budgets.
"""

from webhooks.plugins import Document, FieldError, PluginContext
from webhooks.plugins.event_rate_limit.policy import Limiter, limiting, sharing
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.settings import Settings
from webhooks.plugins.event_rate_limit.token_bucket import MemoryBudget
from webhooks.policy.model import AnyPolicy


def configure(document: Document, context: PluginContext) -> list[AnyPolicy]:
    """Make the policy of a configuration; see `webhooks.plugins.loader`.

    Raises:
        ConfigurationError: with all that is wrong with it.
    """
    settings = document.read(Settings, document.file.parent)
    limits = [each.limit for each in settings.limits]
    limiter, local = Limiter(limits, context.metrics), MemoryBudget(limits, context.metrics)
    if settings.redis is None:
        if context.workers > 1 and not settings.accept_limits_per_worker:
            raise document.error([_per_worker(context.workers)])
        return [limiting(limiter, local)]
    shared = RedisBudget(limits, settings.redis, local, context.metrics)
    context.on_shutdown(shared.close)
    return [sharing(limiter, shared)]


def _per_worker(workers: int) -> FieldError:
    return FieldError(
        ("acceptLimitsPerWorker",),
        "Required value",
        f"each of the {workers} workers would count for itself, so that up to {workers} times the limits could pass: "
        "share the budgets by backend: redis, or accept that by acceptLimitsPerWorker: true",
    )

"""The budget that several processes share: each decision is one script, which a server of the Redis protocol runs.

While Redis is unavailable or slow, each process applies the limits by itself, and tries to connect again.
"""

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter

from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit.redis_connection import ErrorReply, RedisConnection, RedisError
from webhooks.plugins.event_rate_limit.redis_connector import RedisConnector
from webhooks.plugins.event_rate_limit.redis_script import Script
from webhooks.plugins.event_rate_limit.settings import RedisSettings
from webhooks.plugins.event_rate_limit.token_bucket import Limit, MemoryBudget

logger = logging.getLogger("webhooks.plugins.event_rate_limit")

_RETRY_INTERVAL = 1.0  # seconds between two attempts to connect
_HISTOGRAM_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class RedisBudget:
    """The budget of all processes that use the same Redis.

    It connects when `take` is called first, and belongs to the event loop of that call.

    Args:
        limits: the limits in the order of the configuration.
        settings: the settings of the connection.
        local_budget: the budget that is used while Redis is unavailable.
        metrics: the registry for the latency and the availability of Redis, and for the local decisions.

    Raises:
        ConfigurationError: see `RedisConnector`.
    """

    def __init__(
        self, limits: Sequence[Limit], settings: RedisSettings, local_budget: MemoryBudget, metrics: MetricRegistry
    ) -> None:
        self._script = Script(limits, settings.prefix)
        self._connector = RedisConnector(settings, self._script.probe)
        self._timeout = settings.timeout
        self._local_budget = local_budget
        self._connection: RedisConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._attempt_done = asyncio.Event()  # cleared while a lost connection is replaced
        self._is_unavailable = False
        self._seconds = metrics.histogram(
            "webhooks_event_rate_limit_store_seconds", "Duration of decisions in Redis, in seconds.", _HISTOGRAM_BOUNDS
        )
        self._up = metrics.gauge(
            "webhooks_event_rate_limit_store_up", "Processes that share their event rate limits in Redis."
        )
        self._local_decisions = metrics.counter(
            "webhooks_event_rate_limit_local_decisions_total",
            "Decisions by limits of one process, because Redis was unavailable.",
        )

    async def take(self, keys: Sequence[str]) -> list[int]:
        """Take a token from the bucket of each key, also if another bucket has none.

        It takes no longer than the timeout: if Redis is late, it counts as unavailable, and is not waited for.

        Args:
            keys: `keys[i]` is the key for `limits[i]`.

        Returns:
            For each limit 0 if a token was taken, else the nanoseconds until there is one.
        """
        started = perf_counter()
        connection = self._connection or await self._wait_for_connection()
        if connection is not None:
            try:
                waits = await self._request(connection, keys, started + self._timeout)
            except RedisError:
                pass  # `_maintain_connection` reports it
            else:
                self._seconds.observe(perf_counter() - started)
                return waits
        self._local_decisions.add()
        return self._local_budget.take(keys)

    async def close(self) -> None:
        """Close the connection. Later decisions use the local budget."""
        self._is_unavailable = True
        self._attempt_done.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close("it is no longer needed")
            await connection.closed

    async def _request(self, connection: RedisConnection, keys: Sequence[str], deadline: float) -> list[int]:
        reply = await connection.request(self._script.take(keys), deadline)
        if isinstance(reply, ErrorReply) and str(reply).startswith("NOSCRIPT"):
            reply = await connection.request(self._script.take_with_source(keys), deadline)
        if isinstance(reply, ErrorReply):
            connection.close(str(reply))
            raise reply
        return [microseconds * 1000 for microseconds in reply]

    async def _wait_for_connection(self) -> RedisConnection | None:
        """Return the connection. During the first attempt to connect, wait for it as long as for a decision."""
        if self._task is None:
            self._task = asyncio.create_task(self._maintain_connection())
        if not self._is_unavailable:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._attempt_done.wait()
            except TimeoutError:
                self._mark_unavailable("not reachable in time")
        return self._connection

    async def _maintain_connection(self) -> None:
        """Connect, and connect again when the connection is lost.

        A connection that lasted for some time is replaced without a warning: some servers close idle connections.
        """
        while True:
            started = perf_counter()
            try:
                self._connection = await self._connector.connect()
            except RedisError as error:
                self._mark_unavailable(str(error))
            else:
                self._mark_available()
                lost = self._connection.lost
                await asyncio.wait((lost,))  # does not cancel `lost` when this task is cancelled
                self._connection = None
                if perf_counter() - started > _RETRY_INTERVAL:
                    self._attempt_done.clear()
                    continue
                self._mark_unavailable(lost.result())
            await asyncio.sleep(started + _RETRY_INTERVAL - perf_counter())

    def _mark_unavailable(self, reason: str) -> None:
        if not self._is_unavailable:
            logger.warning("Redis is unavailable, each process applies event rate limits by itself: %.200s", reason)
        self._is_unavailable = True
        self._up.set(0)
        self._attempt_done.set()

    def _mark_available(self) -> None:
        if self._is_unavailable:
            logger.warning("Redis is available again, event rate limits are shared")
        self._is_unavailable = False
        self._up.set(1)
        self._attempt_done.set()

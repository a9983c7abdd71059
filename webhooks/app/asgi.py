"""The ASGI application: reviews, health, metrics, and the API documentation."""

import asyncio
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from webhooks.app.asgi_http import read_body, request_path, send_json, send_method_not_allowed, send_not_found
from webhooks.app.endpoints import AnyEndpoint
from webhooks.app.ops_routes import HEALTH_PATHS, OPS_PATHS, OpsRoutes
from webhooks.app.review_metrics import ReviewMetrics
from webhooks.app.review_routes import ReviewRoutes
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import Authentication, Client, Rejection
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.executor import PolicyExecutor
from webhooks.http.headers import HeaderReader
from webhooks.http.responses import JsonResponse
from webhooks.plugins.loader import PluginContext
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.reviews.envelope import ID_PREFIX_SIZE
from webhooks.settings import Limits

if TYPE_CHECKING:
    from webhooks.app.documentation import Documentation

PEER_AUTHENTICATION = "webhooks.peer_authentication"
"""The key for the `Authentication` of a connection in the state of a scope. Only our own server sets it."""


class WebhookApp:
    """The ASGI application.

    Args:
        routes: the review endpoints.
        ops: responds to requests for health and metrics.
        authenticator: authenticates clients, except for health checks.
        headers: reads the headers of reviews.
        lifespan: creates the context that is entered for the lifespan of the application.

    Attributes:
        routes: as above.
    """

    def __init__(
        self,
        routes: ReviewRoutes,
        ops: OpsRoutes,
        authenticator: Authenticator,
        headers: HeaderReader,
        lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self.routes = routes
        self._ops = ops
        self._authenticator = authenticator
        self._headers = headers
        self._lifespan = lifespan
        self._documentation: Documentation | None = None  # created for the first request
        self._documentation_lock = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the lifespan of the application. WebSockets are rejected."""
        if scope["type"] == "http":
            await self._respond(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = request_path(scope)
        if path in HEALTH_PATHS:
            await self._ops(scope, receive, send)
            return
        client = await self._authenticate(scope)
        endpoint = self.routes.by_path.get(path)
        if isinstance(client, Rejection):
            await send_json(send, self._authenticator.reject(client, (scope.get("client") or ("",))[0]))
        elif endpoint is not None:
            await self._review(endpoint, client, scope, receive, send)
        elif path in OPS_PATHS:
            await self._ops(scope, receive, send)
        elif path in ("/docs", "/openapi.json") or path.startswith("/docs/"):
            documentation = await self._get_documentation()
            await documentation(scope, receive, send)
        else:
            await send_not_found(send)

    async def _authenticate(self, scope: Scope) -> Authentication:
        connection = scope.get("state", {}).get(PEER_AUTHENTICATION)
        if connection is None:  # another server, which does not pass client certificates on
            connection = self._authenticator.authenticate_connection(None)
        authorization = dict(scope["headers"]).get(b"authorization")
        return await self._authenticator.authenticate_request_async(connection, authorization)

    async def _review(self, endpoint: AnyEndpoint, client: Client, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await send_method_not_allowed(send, "reviews are sent by POST", b"POST")
            return
        headers = dict(scope["headers"])
        expected = self._headers.read(headers)
        if expected.error is not None:
            await send_json(send, expected.error)
            return
        body = await read_body(receive, expected.limit) if expected.limit else b""
        if body is None:
            return
        if len(body) > expected.limit or not expected.limit:
            response = endpoint.reject(self._headers.too_large(), body, client)
        else:
            answer = endpoint.answer(body, scope["query_string"], client, headers)
            response = answer if isinstance(answer, JsonResponse) else await answer
        await send_json(send, response)

    async def _get_documentation(self) -> "Documentation":
        if self._documentation is None:
            return await asyncio.to_thread(self._load_documentation)
        return self._documentation

    def _load_documentation(self) -> "Documentation":
        """Import FastAPI, which takes a few hundred milliseconds. Reviews continue, because a thread does it."""
        from webhooks.app.documentation import Documentation

        with self._documentation_lock:
            if self._documentation is None:
                self._documentation = Documentation(self.routes.by_path, self._headers.max_body)
            return self._documentation

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        event = "startup"
        await receive()
        try:
            async with self._lifespan():
                await send({"type": "lifespan.startup.complete"})
                event = "shutdown"
                await receive()
        except BaseException:
            await send({"type": f"lifespan.{event}.failed", "message": traceback.format_exc()})
            raise
        await send({"type": "lifespan.shutdown.complete"})


def create_app(
    policies: Iterable[AnyPolicy],
    context: PluginContext | None = None,
    limits: Limits | None = None,
    authenticator: Authenticator | None = None,
) -> WebhookApp:
    """Create an ASGI application for any ASGI server, which may also be mounted in another application.

    Args:
        policies: the policies.
        context: the context that was given to the plugins among them, see `webhooks.plugins.load`.
        limits: the limits of bodies and of concurrent reviews. The server must enforce the others.
        authenticator: authenticates clients by their tokens. The server must verify client certificates.

    Raises:
        ConfigurationError: two policies have one name, or a parameter of a policy is missing or invalid.
    """
    registry = Registry(policies)
    context = context or PluginContext()
    limits = limits or Limits()
    authenticator = authenticator or Authenticator(context.metrics)
    metrics = ReviewMetrics(context.metrics)
    executor = PolicyExecutor(registry, metrics.on_mode_change, context.metrics)
    context.on_shutdown(executor.close)
    routes = ReviewRoutes(registry, executor, ConcurrencyLimiter(limits, context.metrics), metrics)

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        with authenticator.watching():
            yield
        await context.close()

    ops = OpsRoutes({}, {"policies": lambda: routes.has_policies}, lambda: metrics.snapshot)
    return WebhookApp(routes, ops, authenticator, HeaderReader(limits.max_body, ID_PREFIX_SIZE), lifespan)

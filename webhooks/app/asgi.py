"""The application: FastAPI, with the review paths ahead of its routing, health, metrics and documentation."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from webhooks.app import ops_routes
from webhooks.app.decision_log import DecisionLog
from webhooks.app.endpoints import AnyEndpoint, build_endpoints
from webhooks.app.lifecycle import Lifecycle, Phase
from webhooks.app.review_metrics import Metrics
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import Authentication, Client, Rejection
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.dispatcher import Dispatcher
from webhooks.engine.executor import PolicyExecutor
from webhooks.engine.watchdog import DEAD_AFTER, LoopWatchdog, PolicyInterrupter
from webhooks.http.header_cache import HeaderCache
from webhooks.http.headers import HeaderReader
from webhooks.http.responses import EXTRA_HEADERS, JsonResponse, error_response
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.plugins.loader import PluginContext
from webhooks.policy.model import AnyPolicy
from webhooks.policy.registry import Registry
from webhooks.reviews import envelope
from webhooks.settings import Limits

PEER_AUTHENTICATION = "webhooks.peer_authentication"  # the state in the ASGI scope that holds the result
if TYPE_CHECKING:
    from webhooks.app.tracing import Tracing

_JSON = (b"content-type", b"application/json")
_LONGEST_REVIEW = MAX_TIMEOUT + 5  # seconds


class WebhookApp(FastAPI):
    """The application. Review paths are answered before the framework looks at a request.

    Attributes:
        endpoints: the review paths.
        endpoints_by_path: the same by the path as it comes in a request.
        limits: how much is taken.
        callers: those who may ask for anything but health.
        heads: reads what stands before reviews.
        head_cache: what was read there before.
        metrics: what is counted.
        runner: what runs the policies.
        site: what the plugins among the policies were given; closed at the end of the application's lifespan.
        life: how far its end has come.
        pulse: of the loop that it runs on, where it is our own server's.
        operations: the routes for health and metrics alone, which can be served on a port of their own.
    """

    def __init__(
        self,
        registry: Registry,
        site: PluginContext | None = None,
        limits: Limits | None = None,
        callers: Authenticator | None = None,
        journal: DecisionLog | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        super().__init__(title="cluster-webhooks", docs_url=None, redoc_url=None, lifespan=_lifespan)
        self.site = site or PluginContext()
        self.limits = limits or Limits()
        self.callers = callers or Authenticator(self.site.metrics)
        self.heads = HeaderReader(self.limits.max_body, envelope.ID_PREFIX_SIZE)
        self.head_cache = HeaderCache()
        self.metrics = metrics = Metrics(self.site.metrics)
        if tracing is not None:
            self.site.on_shutdown(tracing.close)
            journal = tracing.journal(journal)
        self.runner = (PolicyExecutor if tracing is None else tracing.runner)(
            registry, metrics.paced, self.site.metrics
        )
        self.site.on_shutdown(self.runner.close)
        self._turns = ConcurrencyLimiter(self.limits, self.site.metrics)
        self._journal = journal
        self._tracing = tracing
        self._ending: set[asyncio.Task[None]] = set()
        self.endpoints: dict[str, AnyEndpoint] = {}
        self.endpoints_by_path: dict[bytes, AnyEndpoint] = {}
        self._answer_by(registry)
        self.life = Lifecycle()
        self.pulse = LoopWatchdog(PolicyInterrupter(self.site.metrics).interrupt)
        self.operations = ops_routes.routes(
            {"loop": lambda: self.pulse.seconds_since_tick < DEAD_AFTER},
            {"policies": lambda: len(self._registry) > 0, "shutdown": lambda: self.life.phase is Phase.SERVING},
            lambda: metrics.tally,
        )
        self.router.routes.extend([*self.operations, *_documentation(self)])
        self.add_exception_handler(HTTPException, _http_error)

    async def exchange(self, registry: Registry) -> None:
        """Answer by other policies from the next review on. Those that are being answered end as they began.

        Raises:
            ConfigurationError: an isolated policy cannot be loaded in its process. Nothing has changed then.
        """
        await self.runner.add(registry)
        stay = set(registry)
        gone = [policy for policy in self._registry if policy not in stay]
        self._answer_by(registry)
        ending = asyncio.create_task(self._end(gone))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _answer_by(self, registry: Registry) -> None:
        """Have all paths ask these policies: in one go, between two reviews."""
        made = build_endpoints(Dispatcher(registry, self.runner, self._turns), self.metrics, self._journal)
        made = made if self._tracing is None else self._tracing.endpoints(made)
        self._registry = registry
        self.endpoints.clear()
        self.endpoints.update(made)
        self.endpoints_by_path.clear()
        self.endpoints_by_path.update((path.encode(), endpoint) for path, endpoint in made.items())
        self.openapi_schema = None

    async def _end(self, policies: Sequence[AnyPolicy]) -> None:
        """Forget policies when the last review that asks them must have been answered."""
        await asyncio.sleep(_LONGEST_REVIEW)
        await self.runner.remove(policies)
        self.metrics.forget(policies, self._registry)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        if scope["type"] != "http" or (path := _path(scope)) in ops_routes.HEALTH:
            await super().__call__(scope, receive, send)
            return
        client = await self._caller(scope)
        endpoint = self.endpoints.get(path)
        if isinstance(client, Rejection):
            await _send(send, self.callers.reject(client, (scope.get("client") or ("",))[0]))
        elif endpoint is None:
            await super().__call__(scope, receive, send)
        elif answer := await _answer(endpoint, self.heads, scope, receive, client):
            await _send(send, answer)

    async def _caller(self, scope: Scope) -> Authentication:
        """Who sends a request: who is at the other end is known where the server is our own, see `ReviewProtocol`."""
        met = scope.get("state", {}).get(PEER_AUTHENTICATION) or self.callers.authenticate_connection(None)
        return await self.callers.authenticate_request_async(met, dict(scope["headers"]).get(b"authorization"))

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, which describes the review bodies."""
        from webhooks.app.openapi import describe  # here, because only readers of the document need it

        if self.openapi_schema is None:
            self.openapi_schema = describe(self.title, self.endpoints, self.limits.max_body)
        return self.openapi_schema


def create_app(
    policies: Iterable[AnyPolicy],
    site: PluginContext | None = None,
    limits: Limits | None = None,
    callers: Authenticator | None = None,
) -> WebhookApp:
    """Make an application of policies, to be run by any ASGI server.

    Args:
        policies: those it asks.
        site: what plugins among them were given, see `webhooks.plugins.loader.load`.
        limits: how large bodies may be and how many reviews may wait; the rest is for the server to keep.
        callers: those who may ask, by their tokens: a certificate is for the server to ask for.

    Raises:
        ConfigurationError: two policies share a name, or one has a parameter that is not set or of the wrong type.
    """
    return WebhookApp(Registry(policies), site, limits, callers)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, WebhookApp)
    with app.callers.watching():
        yield
    await app.site.close()


def _path(scope: Scope) -> str:
    """The path below where the application is mounted."""
    path: str = scope["path"]
    root = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


async def _answer(
    endpoint: AnyEndpoint, heads: HeaderReader, scope: Scope, receive: Receive, client: Client
) -> JsonResponse | None:
    """The answer to a review; None where the caller is gone."""
    if scope["method"] != "POST":
        return error_response(405, "reviews are sent by POST")
    headers = dict(scope["headers"])
    head = heads.read(headers)
    if head.error is not None:
        return head.error
    body = await _read(receive, head.limit) if head.limit else b""
    if body is None:
        return None
    if len(body) > head.limit or not head.limit:
        return endpoint.reject(heads.too_large(), body, client)
    answer = endpoint.answer(body, scope["query_string"], client, headers)
    return answer if isinstance(answer, JsonResponse) else await answer


async def _read(receive: Receive, limit: int) -> bytes | None:
    """The body, or as much of it as shows that it is too large; None where the caller is gone."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _send(send: Send, answer: JsonResponse) -> None:
    headers = [_JSON, (b"content-length", str(len(answer.body)).encode())]
    if answer.close:
        headers.append((b"connection", b"close"))
    if answer.code in EXTRA_HEADERS:
        headers.append(EXTRA_HEADERS[answer.code])
    if answer.code == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _documentation(app: FastAPI) -> list[BaseRoute]:
    """The pages for people, from files on this machine: a cluster may have no way out."""

    async def page(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        return get_swagger_ui_html(
            title=app.title,
            openapi_url=f"{root}{app.openapi_url}",
            swagger_js_url=f"{root}/docs/static/swagger-ui-bundle.js",
            swagger_css_url=f"{root}/docs/static/swagger-ui.css",
            swagger_favicon_url=f"{root}/docs/static/favicon.png",
        )

    static = resources.files("fastapi_offline") / "static"
    return [Route("/docs", page), Mount("/docs/static", StaticFiles(directory=str(static)))]


async def _http_error(_: Request, exception: Exception) -> Response:
    """The framework's own errors, in the form that callers understand."""
    assert isinstance(exception, HTTPException)
    answer = error_response(exception.status_code, exception.detail)
    return Response(answer.body, answer.code, headers=exception.headers, media_type="application/json")

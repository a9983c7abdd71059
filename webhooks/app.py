"""The application: FastAPI, with the review paths ahead of its routing, health, metrics and documentation."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from webhooks.answers import Answer, error
from webhooks.dispatch import Dispatcher
from webhooks.endpoints import AnyEndpoint, endpoints
from webhooks.heads import read_head, too_large
from webhooks.metrics import Metrics, Tally, page
from webhooks.plugin import Site
from webhooks.policy import AnyPolicy
from webhooks.registry import Registry

_JSON = (b"content-type", b"application/json")


class Health:
    """Whether the server lives and can answer, told as API servers tell it.

    Attributes:
        checks: by name, whether something that answers depend on is in order.
    """

    def __init__(self, checks: Mapping[str, Callable[[], bool]]) -> None:
        self.checks = checks

    def respond(self, request: Request) -> Response:
        """``ok``, or with ``?verbose`` or on a failure a line a check."""
        results = {name: check() for name, check in self.checks.items()}
        good = all(results.values())
        if good and "verbose" not in request.query_params:
            return PlainTextResponse("ok")
        name = request.url.path.strip("/")
        lines = [f"[+]{check} ok" if passed else f"[-]{check} failed" for check, passed in results.items()]
        lines.append(f"{name} check {'passed' if good else 'failed'}")
        return PlainTextResponse("\n".join(lines) + "\n", 200 if good else 503)


class WebhookApp(FastAPI):
    """The application. Review paths are answered before the framework looks at a request.

    Attributes:
        endpoints: the review paths.
        endpoints_by_path: the same by the path as it comes in a request.
        metrics: what is counted.
        runner: what runs the policies.
        site: what the plugins among the policies were given; closed at the end of the application's lifespan.
        operations: the routes for health and metrics alone, which can be served on a port of their own.
    """

    def __init__(self, registry: Registry, site: Site | None = None) -> None:
        super().__init__(title="cluster-webhooks", docs_url=None, redoc_url=None, lifespan=_lifespan)
        self.site = site or Site()
        self.metrics = metrics = Metrics(self.site.meters)
        dispatcher = Dispatcher(registry, metrics.paced)
        self.runner = dispatcher.runner
        self.endpoints = endpoints(dispatcher, metrics)
        self.endpoints_by_path = {path.encode(): endpoint for path, endpoint in self.endpoints.items()}
        self.operations = operations({"policies": lambda: len(registry) > 0}, lambda: metrics.tally)
        self.router.routes.extend([*self.operations, *_documentation(self)])
        self.add_exception_handler(HTTPException, _http_error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of ASGI."""
        endpoint = self.endpoints.get(_path(scope)) if scope["type"] == "http" else None
        if endpoint is None:
            await super().__call__(scope, receive, send)
            return
        answer = await _answer(endpoint, scope, receive)
        if answer is not None:
            await _send(send, answer)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, which describes the review bodies."""
        from webhooks.openapi import describe  # here, since only people who read it need its models

        if self.openapi_schema is None:
            self.openapi_schema = describe(self.title, self.endpoints)
        return self.openapi_schema


def create_app(policies: Iterable[AnyPolicy], site: Site | None = None) -> WebhookApp:
    """Make an application of policies, to be run by any ASGI server.

    Args:
        policies: those it asks.
        site: what plugins among them were given, see `webhooks.plugin.load`; they end with the application's lifespan.

    Raises:
        ConfigurationError: two policies share a name, or one has a parameter that is not set or of the wrong type.
    """
    return WebhookApp(Registry(policies), site)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    assert isinstance(app, WebhookApp)
    await app.site.close()


def _path(scope: Scope) -> str:
    """The path below where the application is mounted."""
    path: str = scope["path"]
    root = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


async def _answer(endpoint: AnyEndpoint, scope: Scope, receive: Receive) -> Answer | None:
    """The answer to a review; None where the caller is gone."""
    if scope["method"] != "POST":
        return error(405, "reviews are sent by POST")
    head = read_head(scope["headers"])
    if head.refusal is not None:
        return head.refusal
    body = await _read(receive, head.limit) if head.limit else b""
    if body is None:
        return None
    if len(body) > head.limit or not head.limit:
        return endpoint.refuse(too_large(), body)
    answer = endpoint.answer(body, scope["query_string"])
    return answer if isinstance(answer, Answer) else await answer


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


async def _send(send: Send, answer: Answer) -> None:
    headers = [_JSON, (b"content-length", str(len(answer.body)).encode())]
    if answer.close:
        headers.append((b"connection", b"close"))
    if answer.code == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def operations(checks: Mapping[str, Callable[[], bool]], tally: Callable[[], Tally]) -> list[BaseRoute]:
    """The routes for health and metrics.

    Args:
        checks: what being ready depends on.
        tally: what has been counted.
    """
    live = Health({"ping": lambda: True})
    ready = Health({"ping": lambda: True, **checks})

    async def scrape(_: Request) -> Response:
        # Writing the page takes milliseconds, for which no review shall wait.
        return Response(await asyncio.to_thread(page, tally()), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", live.respond),
        Route("/readyz", ready.respond),
        Route("/healthz", ready.respond),
        Route("/metrics", scrape),
    ]


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
    answer = error(exception.status_code, exception.detail)
    return Response(answer.body, answer.code, headers=exception.headers, media_type="application/json")

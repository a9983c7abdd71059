"""Health and metrics over HTTP."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import parse_qsl

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import Receive, Scope, Send

from webhooks.app import prometheus
from webhooks.app.asgi_http import request_path, send_method_not_allowed, send_not_found, send_response
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.observability.metrics import Gauge

HEALTH_PATHS = frozenset(("/livez", "/readyz", "/healthz"))
OPS_PATHS = HEALTH_PATHS | {"/metrics"}
RELOAD_FAILING = "webhooks_policy_reload_failing"  # a gauge that /readyz reports too
_RELOAD_WARNING = "the policies are older than their files, which could not be loaded; the log has the reason"

Checks: TypeAlias = Mapping[str, Callable[[], bool]]
"""Functions that return whether a part of the server is healthy, by the names of the parts."""


class OpsRoutes:
    """Responds to requests for health and metrics. An ASGI application, also as a part of another one.

    Args:
        liveness: the checks of /livez.
        readiness: the further checks of /readyz and /healthz.
        snapshot: returns the metrics.
    """

    def __init__(self, liveness: Checks, readiness: Checks, snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._liveness: Checks = {"ping": lambda: True, **liveness}
        self._readiness: Checks = {**self._liveness, **readiness}
        self._snapshot = snapshot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Respond to a request."""
        path = request_path(scope)
        if path not in OPS_PATHS:
            await send_not_found(send)
        elif scope["method"] not in ("GET", "HEAD"):
            await send_method_not_allowed(send, "health and metrics are requested by GET", b"GET, HEAD")
        elif path == "/metrics":
            # Rendering takes milliseconds, which reviews would have to wait.
            page = await asyncio.to_thread(prometheus.render, self._snapshot())
            await send_response(send, 200, page, CONTENT_TYPE_LATEST.encode())
        else:
            await self._send_health(path, scope, send)

    async def _send_health(self, path: str, scope: Scope, send: Send) -> None:
        checks = self._liveness if path == "/livez" else self._readiness
        results = {name: check() for name, check in checks.items()}
        is_healthy = all(results.values())
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if is_healthy and "verbose" not in query:
            text = "ok"
        else:
            lines = [f"[+]{name} ok" if passed else f"[-]{name} failed" for name, passed in results.items()]
            lines += [] if path == "/livez" else _warnings(self._snapshot())
            lines.append(f"{path[1:]} check {'passed' if is_healthy else 'failed'}\n")
            text = "\n".join(lines)
        await send_response(send, 200 if is_healthy else 503, text.encode(), b"text/plain; charset=utf-8")


def _warnings(snapshot: MetricsSnapshot) -> Sequence[str]:
    failing = snapshot.registered.get(RELOAD_FAILING)
    return [f"[!]{_RELOAD_WARNING}"] if isinstance(failing, Gauge) and any(failing.values.values()) else []

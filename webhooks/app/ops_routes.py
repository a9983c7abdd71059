"""The routes for health and metrics."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from webhooks.app.review_metrics import REFUSED, MetricsSnapshot, page
from webhooks.observability.metrics import Gauge

HEALTH = ("/livez", "/readyz", "/healthz")
_REFUSAL = "policies are older than their files, which could not be taken over; the log says why"

Checks: TypeAlias = Mapping[str, Callable[[], bool]]
"""By name, whether something that answers depend on is in order."""


class _Health:
    """Whether the server lives and can answer, told as API servers tell it.

    Args:
        checks: what it depends on.
        remarks: what else there is to say, a line each.
    """

    def __init__(self, checks: Checks, remarks: Callable[[], Sequence[str]]) -> None:
        self._checks = checks
        self._remarks = remarks

    def respond(self, request: Request) -> Response:
        """``ok``, or with ``?verbose`` or on a failure a line a check."""
        results = {name: check() for name, check in self._checks.items()}
        good = all(results.values())
        if good and "verbose" not in request.query_params:
            return PlainTextResponse("ok")
        name = request.url.path.strip("/")
        lines = [f"[+]{check} ok" if passed else f"[-]{check} failed" for check, passed in results.items()]
        lines += [f"[!]{remark}" for remark in self._remarks()]
        lines.append(f"{name} check {'passed' if good else 'failed'}")
        return PlainTextResponse("\n".join(lines) + "\n", 200 if good else 503)


def routes(vital: Checks, ready: Checks, tally: Callable[[], MetricsSnapshot]) -> list[BaseRoute]:
    """The routes for health and metrics.

    Args:
        vital: what being alive depends on.
        ready: what being ready depends on beside that.
        tally: what has been counted.
    """
    alive = {"ping": lambda: True, **vital}
    life = _Health(alive, tuple)
    readiness = _Health({**alive, **ready}, lambda: _remarks(tally()))

    async def scrape(_: Request) -> Response:
        # Writing the page takes milliseconds, for which no review shall wait.
        return Response(await asyncio.to_thread(page, tally()), media_type=CONTENT_TYPE_LATEST)

    return [
        *(Route(path, life.respond if path == "/livez" else readiness.respond) for path in HEALTH),
        Route("/metrics", scrape),
    ]


def _remarks(tally: MetricsSnapshot) -> Sequence[str]:
    refused = tally.meters.get(REFUSED)
    return [_REFUSAL] if isinstance(refused, Gauge) and any(refused.values.values()) else []

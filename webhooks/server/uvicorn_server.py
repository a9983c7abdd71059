"""A uvicorn server with connection limits, whose start and shutdown are controlled from outside.

This module alone uses the internals of `uvicorn.Server`; `tests/server/test_uvicorn_server.py` lists and checks them.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import uvicorn

from webhooks.http.connections import ConnectionTable
from webhooks.http.listener import Listener, raise_fd_limit
from webhooks.http.protocol import CLOSE_HEADER, LimitedHttpProtocol, WriteBatcher
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Limits

logger = logging.getLogger("webhooks.server")

KEEP_ALIVE = 120  # seconds; clients keep idle connections for 90, and must be the first to close them
IDLE_AT_SHUTDOWN = 1.0  # seconds without a request, until a connection is closed during shutdown
_POLL_INTERVAL = 0.05  # seconds between two checks whether all connections are closed


def create_table(port: str, limits: Limits, metrics: MetricRegistry) -> ConnectionTable:
    """Create the table for the connections of a port, with as many as the limits and the system allow.

    Args:
        port: the label of the port in metrics.
        limits: the limits.
        metrics: the registry for the metrics.
    """
    limits = replace(limits, max_connections=raise_fd_limit(limits.max_connections))
    return ConnectionTable(port, limits, KEEP_ALIVE, metrics)


class UvicornServer(uvicorn.Server):
    """A server for one ASGI application.

    Args:
        app: the ASGI application.
        connections: the table of its connections.
        tls: the TLS context of the connections; None for plain HTTP.
        protocol: creates the protocol of a connection.
        on_ready: called when the server accepts connections.
        grace: how many seconds connections may stay open after `stop`.
    """

    _writes: WriteBatcher  # requires the running loop

    def __init__(
        self,
        app: Any,
        connections: ConnectionTable,
        tls: ssl.SSLContext | None = None,
        *,
        protocol: Callable[..., LimitedHttpProtocol] = LimitedHttpProtocol,
        on_ready: Callable[[], None] | None = None,
        grace: float = 0.0,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=LimitedHttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            log_level="warning",
            proxy_headers=False,  # clients could forge them
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        super().__init__(config)
        self._connections = connections
        self._tls = tls
        self._protocol = protocol
        self._on_ready = on_ready
        self._grace = grace

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        self._loop = asyncio.get_running_loop()
        self._writes = WriteBatcher(self._loop)
        await super().startup([])
        for listener in sockets or ():
            self.servers.append(Listener(listener, self._tls, self._connections, self._create_protocol))  # type: ignore[arg-type]
        self._connections.watch()
        if self._on_ready is not None:
            self._on_ready()

    def _create_protocol(self, peer: str) -> LimitedHttpProtocol:
        state = self.server_state
        return self._protocol(
            peer, self._connections, self._writes, config=self.config, server_state=state, app_state={}
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, close each one after its next response, and wait for that.

        If idle connections were closed at once, requests on their way would be lost. A response with
        ``Connection: close`` makes the client open its next connection elsewhere.
        """
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        state, connections = self.server_state, self._connections
        state.default_headers = [*state.default_headers, CLOSE_HEADER]
        for connection in state.connections:
            connection.shutdown()
        connections.close_idle(IDLE_AT_SHUTDOWN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                while (len(connections) or state.tasks) and not self.force_exit:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_INTERVAL)
        if len(connections) and self._grace and not self.force_exit:
            logger.error("%d connections were still open after the grace period of %g s", len(connections), self._grace)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to others."""
        yield

    def close_untrusted(self, is_trusted: Callable[[bytes], bool]) -> None:
        """Close the connections of clients whose certificate is no longer trusted. May be called from any thread."""
        if self.started:
            self._loop.call_soon_threadsafe(self._connections.close_untrusted, is_trusted)

    def stop(self) -> None:
        """Shut down gracefully; if called again, at once. May be called from any thread."""
        self.force_exit = self.should_exit
        self.should_exit = True

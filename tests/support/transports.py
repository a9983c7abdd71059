"""Connections without sockets: a transport that records what is written, and a review protocol on it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from webhooks.app.asgi import WebhookApp
from webhooks.http.connections import ConnectionTable
from webhooks.http.header_cache import HeaderCache
from webhooks.http.protocol import WriteBatcher
from webhooks.observability.metrics import MetricRegistry
from webhooks.server.review_protocol import ReviewContext, ReviewProtocol
from webhooks.settings import Limits

Written = list[tuple[str, bytes]]
"""Names of transports, with what was written to them, in order."""


class RecordingTransport(asyncio.Transport):
    """Appends what is written to it to a list, which several transports may share."""

    def __init__(self, name: str, written: Written) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._name = name
        self._written = written
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._written.append((self._name, bytes(data)))

    def close(self) -> None:
        self._closing = True

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        """Do nothing: there is nothing to read."""

    resume_reading = pause_reading

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """Ignore the limits: there is no buffer."""


class CountingProtocol(ReviewProtocol):
    """Counts the requests whose headers were parsed."""

    parsed = 0

    def on_headers_complete(self) -> None:
        self.parsed += 1
        super().on_headers_complete()


@dataclass
class FakeConnection:
    """A connection to an application.

    Attributes:
        protocol: the protocol on the server.
        app: the application.
        written: what the server wrote.
        runner: runs the event loop of the connection, only while a test uses it.
    """

    protocol: CountingProtocol
    app: WebhookApp
    written: Written
    runner: asyncio.Runner

    def flush(self) -> None:
        """Write the responses that wait for the end of the iteration of the loop."""
        self.protocol._writes.flush()


@contextmanager
def connected(app: WebhookApp) -> Iterator[FakeConnection]:
    """A new connection to an application."""
    with asyncio.Runner() as runner:
        written: Written = []

        async def connect() -> CountingProtocol:
            config = uvicorn.Config(app)
            config.load()
            context = ReviewContext(app.routes.by_raw_path, app._headers, HeaderCache(), app._authenticator)
            table = ConnectionTable("reviews", Limits(), 120, MetricRegistry())
            writes = WriteBatcher(asyncio.get_running_loop())
            create = partial(CountingProtocol, context, "127.0.0.1", table, writes)
            protocol = create(config=config, server_state=ServerState(), app_state={})
            protocol.connection_made(RecordingTransport("", written))
            return protocol

        yield FakeConnection(runner.run(connect()), app, written, runner)

"""A transport that goes nowhere, and the protocol of a connection on one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from webhooks.app.asgi import WebhookApp
from webhooks.http.connections import ConnectionTable
from webhooks.http.outbox import WriteBatcher
from webhooks.observability.metrics import MetricRegistry
from webhooks.server.review_protocol import ReviewProtocol
from webhooks.settings import Limits


class Recorder(asyncio.Transport):
    """Notes what is written to it, in a log that it may share with others."""

    def __init__(self, name: str, log: list[tuple[str, bytes]]) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._name = name
        self._log = log
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._log.append((self._name, bytes(data)))

    def close(self) -> None:
        self._closing = True

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """There is no buffer."""


class Counting(ReviewProtocol):
    """Counts the heads that are read."""

    heads_read = 0

    def on_headers_complete(self) -> None:
        self.heads_read += 1
        super().on_headers_complete()


@dataclass
class Line:
    """A connection to an application, what is written to it, and the loop, which turns when it is told to."""

    protocol: Counting
    app: WebhookApp
    log: list[tuple[str, bytes]]
    runner: asyncio.Runner


@contextmanager
def connected(app: WebhookApp) -> Iterator[Line]:
    """A new connection to an application."""
    with asyncio.Runner() as runner:
        log: list[tuple[str, bytes]] = []

        async def made() -> Counting:
            config = uvicorn.Config(app)
            config.load()
            neighbours = ConnectionTable("reviews", Limits(), 120, MetricRegistry())
            outbox = WriteBatcher(asyncio.get_running_loop())
            found = Counting("127.0.0.1", neighbours, outbox, config=config, server_state=ServerState(), app_state={})
            found.connection_made(Recorder("", log))
            return found

        yield Line(runner.run(made()), app, log, runner)

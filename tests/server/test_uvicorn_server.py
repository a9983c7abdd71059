"""The uvicorn server: idle connections, and the internals of uvicorn that it uses."""

import asyncio
import logging
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from webhooks.app.ops_routes import OpsRoutes
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.http.protocol import CLOSE_HEADER
from webhooks.observability.metrics import MetricRegistry
from webhooks.server import uvicorn_server
from webhooks.server.sockets import bind
from webhooks.server.uvicorn_server import KEEP_ALIVE, UvicornServer, create_table
from webhooks.settings import Limits

from ..support.members import used_members
from ..support.pairs import VALIDATE, assert_serves
from ..support.servers import POLICIES, Connection, Gate, await_true, serving

USED = {
    *("__init__", "startup", "shutdown", "capture_signals"),
    *("config", "force_exit", "server_state", "servers", "should_exit", "started"),
}


def test_only_idle_connections_are_closed(tmp_path: Path) -> None:
    assert KEEP_ALIVE > 90  # clients keep idle connections for 90 seconds, and must be the first to close them
    short = "import webhooks.server.uvicorn_server\nwebhooks.server.uvicorn_server.KEEP_ALIVE = 1\n"
    with (
        serving(tmp_path, policies=short + POLICIES) as server,
        Gate() as gate,
        server.connect() as idle,
        server.connect() as used,
        server.connect() as waiting,
    ):
        assert_serves(waiting)
        waiting.request("POST", VALIDATE, gate.review("waits"))
        gate.await_policy()
        assert_serves(idle)
        start = time.monotonic()
        while idle.is_silent(0.2):
            assert_serves(used)
        assert 0.9 < time.monotonic() - start < 3
        assert idle.is_closed()
        gate.open()
        assert waiting.reply().json()["response"]["allowed"] is True
        assert_serves(waiting)
        assert_serves(used)
        last = time.monotonic()
        assert used.is_closed()
        assert 0.9 < time.monotonic() - last < 3


def create_server(grace: float = 0.0) -> UvicornServer:
    ops = OpsRoutes({}, {}, MetricsSnapshot)
    return UvicornServer(ops, create_table("ops", Limits(), MetricRegistry()), grace=grace)


def test_it_serves_until_it_is_stopped() -> None:
    async def scenario() -> None:
        listener = bind("127.0.0.1", 0, is_shared=False)
        port: int = listener.getsockname()[1]
        server = create_server(grace=5)
        serving = asyncio.create_task(server.serve([listener]))

        def is_draining() -> bool:
            return CLOSE_HEADER in server.server_state.default_headers

        def request_twice() -> tuple[bool, bool]:
            with Connection(port, None) as connection:
                connection.request("GET", "/livez", headers={})
                before = connection.reply().closes
                server.stop()
                await_true(is_draining, "the shutdown")
                connection.request("GET", "/livez", headers={})
                return before, connection.reply().closes

        assert await asyncio.to_thread(request_twice) == (False, True)
        await serving
        assert listener.fileno() == -1

    asyncio.run(asyncio.wait_for(scenario(), 10))


def test_connections_that_stay_open_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        listener = bind("127.0.0.1", 0, is_shared=False)
        server = create_server(grace=0.1)
        serving = asyncio.create_task(server.serve([listener]))
        _, writer = await asyncio.open_connection(*listener.getsockname())
        await asyncio.to_thread(await_true, lambda: len(server._connections) == 1, "the connection")
        server.stop()
        await serving
        writer.close()

    asyncio.run(asyncio.wait_for(scenario(), 10))
    [record] = [record for record in caplog.records if record.name == "webhooks.server"]
    assert (record.levelno, record.getMessage()) == (
        logging.ERROR,
        "1 connections were still open after the grace period of 0.1 s",
    )


# The internals of uvicorn.


class Recording(uvicorn.Server):
    """Records the calls of the methods that our server overrides."""

    def __init__(self) -> None:
        super().__init__(uvicorn.Config(None, lifespan="off", log_config=None))  # type: ignore[arg-type]
        self.calls: list[Any] = []

    @contextmanager
    def capture_signals(self) -> Any:
        self.calls.append("capture")
        yield
        self.calls.append("release")

    async def startup(self, sockets: Any = None) -> None:
        await super().startup([])
        self.calls.append(("startup", sockets))

    async def shutdown(self, sockets: Any = None) -> None:
        self.calls.append(("shutdown", sockets))


def test_only_known_internals_of_uvicorn_are_used() -> None:
    async def scenario() -> Recording:
        server = Recording()
        server.should_exit = True
        await server.serve([])
        return server

    overridden = {name for name in vars(UvicornServer) if name in vars(uvicorn.Server)}
    used = used_members(uvicorn_server, asyncio.run(scenario())) | overridden
    assert used - {"__doc__", "__module__"} == USED


def test_uvicorn_life_cycle() -> None:
    """`serve` calls the methods in order, with the sockets, and checks `should_exit` periodically."""

    async def scenario() -> Recording:
        server = Recording()
        assert (server.started, server.should_exit, server.force_exit) == (False, False, False)
        serving = asyncio.create_task(server.serve(["a socket"]))  # type: ignore[list-item]
        await asyncio.to_thread(await_true, lambda: server.started, "the start")
        assert server.servers == []
        server.should_exit = True
        await serving
        return server

    server = asyncio.run(asyncio.wait_for(scenario(), 10))
    assert server.calls == ["capture", ("startup", ["a socket"]), ("shutdown", ["a socket"]), "release"]


def test_uvicorn_replaces_the_default_headers_each_second() -> None:
    """The protocol encodes a list of headers once, and recognizes a new list by its identity."""

    async def scenario() -> None:
        server = Recording()
        server.config.load()
        lists = []
        for counter in range(21):
            assert await server.on_tick(counter) is False
            if not any(server.server_state.default_headers is known for known in lists):
                lists.append(server.server_state.default_headers)
        assert len(lists) == 3
        assert [name for name, _ in lists[0]] == [b"date", b"server"]

    asyncio.run(scenario())


def test_uvicorn_server_state() -> None:
    state = Recording().server_state
    assert (state.connections, state.tasks, state.default_headers) == (set(), set(), [])

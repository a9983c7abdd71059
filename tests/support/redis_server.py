"""A real Redis server that tests start, disturb and stop."""

import asyncio
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest
import uvloop

from webhooks.plugins.event_rate_limit.redis_connection import encode_command
from webhooks.plugins.event_rate_limit.settings import RedisSettings

from .servers import SECONDS, await_true, free_port

T = TypeVar("T")

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="requires redis-server on PATH")


class RedisServer:
    """A server without persistence, with its own port and socket. It can be restarted."""

    def __init__(self, *options: object) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="redis-")  # short: paths of sockets are limited
        self.path = f"{self._folder.name}/socket"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        """Start it with empty databases, and wait until it replies."""
        arguments = ("--bind", "127.0.0.1", "--port", self.port, "--unixsocket", self.path, "--dir", self._folder.name)
        command = ["redis-server", *arguments, "--save", "", *self._options]
        self._process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        await_true(self._is_ready, "a reply of the redis-server")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def request(self, *arguments: str | int, password: str = "") -> Any:
        """Send a command on a new connection and return the reply. An error is returned as an exception."""
        with self._connect() as connection:
            connection.settimeout(SECONDS)
            if password:
                connection.sendall(encode_command("AUTH", password))
                assert _read_reply(connection) == "OK"
            connection.sendall(encode_command(*arguments))
            return _read_reply(connection)

    def send(self, *arguments: str | int) -> None:
        """Send a command, and do not wait for a reply."""
        with self._connect() as connection:
            connection.sendall(encode_command(*arguments))

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection

    def _is_ready(self) -> bool:
        with suppress(OSError):
            return self.request("PING") is not None
        return False


def _read_reply(connection: socket.socket) -> Any:
    from hiredis import Reader

    reader = Reader(encoding="utf-8")
    while (reply := reader.gets()) is False:
        data = connection.recv(65536)
        if not data:
            raise EOFError("the server closed the connection")
        reader.feed(data)
    return reply


def redis_settings(url: str, folder: Path | None = None, **fields: str) -> RedisSettings:
    """Settings as read from a file in a folder."""
    return RedisSettings.model_validate({"url": url, **fields}, context=folder or Path("/"), strict=False)


def run(scenario: Callable[[], Coroutine[Any, Any, T]], loop: Callable[[], Any] = uvloop.new_event_loop) -> T:
    """Run a scenario on the kind of event loop that the server uses."""

    async def limited() -> T:
        async with asyncio.timeout(4 * SECONDS):
            return await scenario()

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(limited())

"""A real Redis server, which tests start, disturb and end."""

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

from webhooks.plugins.event_rate_limit.redis_connection import command
from webhooks.plugins.event_rate_limit.settings import RedisSettings

from ...support.servers import SECONDS, await_true, free_port

T = TypeVar("T")

needs_redis = pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server on PATH")


class RedisServer:
    """A server that keeps nothing on disk, at a port and a socket of its own; it can be started again and again."""

    def __init__(self, *options: object) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="redis-")  # short, as the paths of sockets must be
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
        """Start it, empty, and wait until it answers."""
        given = ("--bind", "127.0.0.1", "--port", self.port, "--unixsocket", self.path, "--dir", self._folder.name)
        words = ["redis-server", *given, "--save", "", *self._options]
        self._process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        await_true(self._answers, "an answer of the redis-server")

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

    def ask(self, *words: str | int, password: str = "") -> Any:
        """What it answers to a command, on a connection of its own; an error is an exception that is not raised."""
        with self._connected() as connection:
            connection.settimeout(SECONDS)
            if password:
                connection.sendall(command("AUTH", password))
                assert _answer(connection) == "OK"
            connection.sendall(command(*words))
            return _answer(connection)

    def tell(self, *words: str | int) -> None:
        """Send a command, and wait for no answer."""
        with self._connected() as connection:
            connection.sendall(command(*words))

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def _connected(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.ask("PING") is not None
        return False


def _answer(connection: socket.socket) -> Any:
    from hiredis import Reader

    reader = Reader(encoding="utf-8")
    while (answer := reader.gets()) is False:
        data = connection.recv(65536)
        if not data:
            raise EOFError("it closed the connection")
        reader.feed(data)
    return answer


def redis_settings(url: str, folder: Path | None = None, **fields: str) -> RedisSettings:
    """Settings as they are read from a file in that folder."""
    return RedisSettings.model_validate({"url": url, **fields}, context=folder or Path("/"), strict=False)


def run(scenario: Callable[[], Coroutine[Any, Any, T]], loop: Callable[[], Any] = uvloop.new_event_loop) -> T:
    """Run it on a loop as the server has it."""

    async def limited() -> T:
        async with asyncio.timeout(4 * SECONDS):
            return await scenario()

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(limited())

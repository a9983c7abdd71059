"""Two servers with the same policies: our own server over TLS, and a user's application under uvicorn."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from .servers import Connection, Reply, Server, review, serving, under_uvicorn

VALIDATE = "/admission/validate"
GOOD = review()


class Servers(NamedTuple):
    """The two servers."""

    own: Server
    asgi: Server


@contextmanager
def serving_both(folders: pytest.TempPathFactory) -> Iterator[Servers]:
    """Start both servers for the block."""
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        own = pool.submit(stack.enter_context, serving(folders.mktemp("own")))
        asgi = pool.submit(stack.enter_context, under_uvicorn(folders.mktemp("asgi")))
        yield Servers(own.result(), asgi.result())


def assert_serves(connection: Connection) -> None:
    """Assert that the next request on a connection is served."""
    reply = connection.post(VALIDATE, GOOD)
    assert (reply.status, reply.json()["response"]) == (200, {"uid": "uid-1", "allowed": True})


def assert_serves_after(server: Server, connection: Connection, reply: Reply) -> None:
    """Assert that new connections are served after a reply, and the same one unless the reply closed it."""
    if reply.closes:
        assert connection.is_closed()
    else:
        assert_serves(connection)
    with server.connect() as new:
        assert_serves(new)


def assert_is_status(reply: Reply, code: int) -> None:
    """Assert that a reply is an error that Kubernetes clients understand."""
    status = reply.json()
    assert (reply.status, reply.headers["content-type"]) == (code, "application/json")
    assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == ("Status", "v1", "Failure", code)
    assert status["message"]
    assert status["reason"]


def comparable(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """Return a reply without the headers that differ between servers; the methods in Allow have no order."""
    headers = {name: value for name, value in reply.headers.items() if name not in ("date", "server")}
    if "allow" in headers:
        headers["allow"] = ", ".join(sorted(headers["allow"].split(", ")))
    return reply.status, reply.body, headers

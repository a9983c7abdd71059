"""Connection limits and evictions of a real server."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ..support.servers import POLICIES, REPLY_SECONDS, Connection, Gate, Server, await_true, review, serving

VALIDATE = "/admission/validate"
GOOD = review()
HERE, THERE = "127.0.0.1", "127.0.0.2"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--max-connections", 4, "--max-connections-per-peer", 3)
    with serving(tmp_path_factory.mktemp("small"), *options) as server:
        yield server


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("large")) as server:
        yield server


class ConnectionFrom(Connection):
    """A connection from a given address of this host."""

    def __init__(self, peer: str, port: int, tls: ssl.SSLContext | None) -> None:
        raw = socket.create_connection(("127.0.0.1", port), REPLY_SECONDS, source_address=(peer, 0))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = raw if tls is None else tls.wrap_socket(raw, server_hostname="127.0.0.1")
        self._buffer = b""


def serves(connection: Connection) -> bool:
    """Whether a connection is served and not closed."""
    try:
        return bool(connection.post(VALIDATE, GOOD).json()["response"]["allowed"])
    except (OSError, EOFError):
        return False


@contextmanager
def idle(server: Server, *peers: str) -> Iterator[list[Connection]]:
    """Open connections that were served and are idle, the first one for the longest time."""
    with ExitStack() as stack:
        connections: list[Connection] = []
        for peer in peers:
            connections.append(stack.enter_context(ConnectionFrom(peer, server.port, server.tls)))
            assert serves(connections[-1])
        yield connections


def sample(server: Server, name: str) -> float:
    lines = server.get("/metrics", ops=True).body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def await_no_connections(server: Server) -> None:
    """Wait until the connections of the previous test are closed."""
    await_true(lambda: sample(server, 'webhooks_connections{port="reviews"}') == 0, "no connections")


def test_the_longest_idle_connection_is_evicted(small: Server) -> None:
    await_no_connections(small)
    with idle(small, HERE, THERE, HERE, THERE) as (first, second, *others), idle(small, "127.0.0.3") as [new]:
        assert first.is_closed()
        assert [serves(connection) for connection in (second, *others, new)] == [True] * 4


def test_an_address_at_its_limit_evicts_its_own_connection(small: Server) -> None:
    await_no_connections(small)
    with idle(small, THERE, HERE, HERE, HERE) as (other, first, *others), idle(small, HERE) as [new]:
        assert first.is_closed()
        assert [serves(connection) for connection in (other, *others, new)] == [True] * 4


def test_a_late_handshake_is_evicted_before_an_idle_connection(small: Server) -> None:
    await_no_connections(small)
    with (
        idle(small, HERE, THERE, THERE) as others,
        ConnectionFrom(HERE, small.port, None) as silent,
    ):
        assert silent.is_silent(0.5)
        with idle(small, "127.0.0.3") as [new]:
            assert silent.is_closed()
            assert [serves(connection) for connection in (*others, new)] == [True] * 4


@pytest.mark.parametrize(("peers", "peer"), [((HERE, HERE, HERE), HERE), ((HERE, HERE, THERE, THERE), "127.0.0.3")])
def test_connections_that_wait_for_a_response_are_not_evicted(peers: tuple[str, ...], peer: str, small: Server) -> None:
    await_no_connections(small)
    before = sample(small, "webhooks_connections_rejected_total")
    with Gate() as gate, idle(small, *peers) as connections:
        for connection in connections:
            connection.request("POST", VALIDATE, gate.review("waits"))
            gate.await_policy()
        with pytest.raises((OSError, EOFError)):
            ConnectionFrom(peer, small.port, small.tls)
        assert sample(small, "webhooks_connections_rejected_total") == before + 1  # the ops port has its own limit
        gate.open()
        assert all(connection.reply().json()["response"]["allowed"] for connection in connections)
    await_no_connections(small)
    with idle(small, peer):
        pass


def test_connections_that_are_reset_are_not_counted(small: Server) -> None:
    await_no_connections(small)
    for _ in range(10):
        with idle(small, HERE) as [connection], ConnectionFrom(HERE, small.port, None) as silent:
            silent.reset()
            connection.reset()
    await_no_connections(small)
    assert sample(small, "webhooks_connections_rejected_total") < 10


def test_the_ops_port_has_limits_too(small: Server) -> None:
    port = small.ops_port or 0
    with ExitStack() as stack:
        silent = [stack.enter_context(ConnectionFrom(HERE, port, None)) for _ in range(3)]
        assert small.get("/livez", ops=True).body == b"ok"
        assert silent[0].is_closed()


@pytest.mark.parametrize("number", [25, 200])
def test_idle_connections_do_not_block_new_ones(number: int, large: Server) -> None:
    with idle(large, *[HERE] * number) as connections, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(serves, connections))
        with idle(large, HERE):
            pass


def test_many_connections_at_once_are_all_answered(large: Server) -> None:
    start = threading.Barrier(50)

    def send_requests(_: int) -> int:
        start.wait(REPLY_SECONDS)
        return sum(large.post(VALIDATE, GOOD).status == 200 for _ in range(4))

    with ThreadPoolExecutor(50) as pool:
        assert sum(pool.map(send_requests, range(50))) == 200


def test_each_worker_has_its_own_limits(tmp_path: Path) -> None:
    options = ("--workers", 2, "--max-connections", 2)
    with serving(tmp_path, *options) as server, idle(server, *[HERE] * 12):
        await_true(
            lambda: (
                sample(server, 'webhooks_connections{port="reviews"}')
                + sample(server, "webhooks_connections_closed_total")
                == 12
            ),
            "twelve connections",
        )
        assert 2 <= sample(server, 'webhooks_connections{port="reviews"}') <= 4


# File descriptors are limited at the start, or by a policy, which leaves only a few more than are in use.
FEW = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

@validating("widgets", names=["uses all"])
def uses_all(review):
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 10, used + 10))
    return Allow()
"""


@pytest.mark.parametrize("later", [False, True])
def test_idle_connections_are_evicted_without_file_descriptors(later: bool, tmp_path: Path) -> None:
    """Although the limits would admit more connections."""
    with serving(tmp_path, policies=POLICIES + FEW) as server, ExitStack() as stack:
        if later:
            assert server.post(VALIDATE, review("uses all")).json()["response"]["allowed"] is True
        for _ in range(100):
            connection = stack.enter_context(server.connect())
            assert serves(connection)
        assert later or server.get("/livez", ops=True).body == b"ok"


def test_the_soft_limit_of_file_descriptors_is_raised(tmp_path: Path) -> None:
    few = "import resource\n_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
    few += "resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))\n"
    with serving(tmp_path, "--max-connections", 50, policies=few + POLICIES) as server:
        limits = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
        [files] = [line.split() for line in limits if line.startswith("Max open files")]
        assert int(files[3]) >= 100
        assert int(files[3]) <= int(files[4])


@pytest.mark.parametrize(
    "connect",
    [lambda server: Connection(server.port, None), lambda server: server.connect()],
    ids=["silent", "after the handshake"],
)
def test_connections_that_are_reset_release_their_memory(
    connect: Callable[[Server], Connection], large: Server
) -> None:
    def open_and_reset(number: int) -> None:
        clients = []
        with suppress(OSError):
            clients = [connect(large) for _ in range(number)]
        for client in clients:
            client.reset()
        await_no_connections(large)

    open_and_reset(100)
    before = large.resident_mb
    for _ in range(4):
        open_and_reset(100)
    await_true(lambda: large.resident_mb - before < 5, "the memory is released")

"""The shutdown of a server: clients that follow HTTP lose no review."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ..support.load import VALIDATE, Client, Load, Service, is_ready
from ..support.pairs import GOOD, assert_serves
from ..support.servers import POLICIES, Connection, Gate, Server, await_true, request, review, serving

LONG = ("--shutdown-delay", "1h")
# Idle connections are not closed during the test.
KEEP_IDLE = "import webhooks.server.uvicorn_server\nwebhooks.server.uvicorn_server.IDLE_AT_SHUTDOWN = 60\n"

for_each_size = pytest.mark.parametrize("workers", [1, 2])


def children(server: Server) -> list[int]:
    """Return the ids of the child processes of a server, and of their children."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    processes = [server.process.pid]
    for process in processes:
        processes += [child for child, parent in parents.items() if parent == process]
    return processes[1:]


@for_each_size
def test_readiness_fails_at_once_while_the_server_still_serves(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, *LONG, "--workers", workers) as server, server.connect() as connection:
        assert is_ready(server)
        server.signal()
        await_true(lambda: not is_ready(server), "it is not ready")
        await_true(lambda: not is_ready(server, ops=False), "it is not ready at the port for reviews")
        assert "[-]shutdown failed" in server.get("/readyz", ops=True).body.decode().splitlines()
        assert server.get("/livez", ops=True).status == 200
        for _ in range(4):
            reply = server.post(VALIDATE, review())
            assert reply.json()["response"]["allowed"] is True
            assert not reply.closes
        assert not connection.post(VALIDATE, review()).closes
        server.signal()
        assert server.process.wait(5) == 0


@for_each_size
def test_responses_close_their_connections_while_draining(workers: int, tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--workers", workers, policies=KEEP_IDLE + POLICIES) as server,
        server.connect() as used,
        server.connect() as fresh,
        server.connect() as asking,
    ):
        assert not used.post(VALIDATE, review()).closes
        server.signal()
        await_true(lambda: not server.accepts(), "the port is closed")
        for connection in (used, fresh):
            reply = connection.post(VALIDATE, review())
            assert reply.json()["response"]["allowed"] is True
            assert reply.closes
            assert connection.is_closed()
            connection.close()
        asking.request("GET", "/livez", headers={})
        assert asking.reply().closes
        assert asking.is_closed()
        asking.close()
        assert server.wait() == 0
        assert not [record for record in server.logs() if record["level"] not in ("info", "debug")]


@for_each_size
def test_an_interrupt_has_no_shutdown_delay(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, *LONG, "--workers", workers) as server:
        assert server.post(VALIDATE, review()).status == 200
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(5) == 0


@for_each_size
def test_connections_are_closed_after_the_grace_period(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "300ms", "--workers", workers) as server, Gate() as gate:
        with server.connect() as connection:
            connection.request("POST", f"{VALIDATE}?timeout=30s", gate.review("waits"))
            gate.await_policy()
            server.signal()
            assert server.process.wait(5) == 0
        server.errors.await_line("1 connections were still open after the grace period of 0.3 s")


def test_a_coroutine_that_ignores_cancellation_does_not_delay_the_shutdown(tmp_path: Path) -> None:
    stubborn = """

@validating("widgets", names=["stubborn"], timeout=0.1)
async def stubborn(review):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""
    with serving(tmp_path, policies=POLICIES + stubborn) as server:
        assert server.post(VALIDATE, review("stubborn")).json()["response"]["status"]["code"] == 504
        server.signal()
        assert server.process.wait(5) == 0


@for_each_size
def test_a_signal_to_all_processes_is_one_signal(workers: int, tmp_path: Path) -> None:
    """Service managers and terminals send it to all processes."""
    isolated = POLICIES.replace('@validating("widgets", names=["hangs"])', '@validating("widgets", isolation=True)')
    with serving(tmp_path, "--workers", workers, policies=isolated) as server, Gate() as gate, ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(2)]
        for connection in connections:
            connection.request("POST", VALIDATE, gate.review("well"))
            gate.await_policy()
        for process in [server.process.pid, *children(server)]:
            os.kill(process, signal.SIGTERM)
        await_true(lambda: not server.accepts(), "the port is closed")
        gate.open()
        for connection in connections:
            assert connection.reply().json()["response"]["allowed"] is True
            connection.close()
        assert server.wait() == 0


@for_each_size
def test_no_process_remains_when_the_server_is_killed(workers: int, tmp_path: Path) -> None:
    isolated = POLICIES.replace("@image_policy", "@image_policy(isolation=True)")
    with serving(tmp_path, "--workers", workers, policies=isolated) as server:
        processes = children(server)
        assert len(processes) >= workers
        server.signal(signal.SIGKILL)
        server.wait()
        await_true(
            lambda: not any(Path(f"/proc/{process}").exists() for process in processes), "all processes have stopped"
        )


BLOCKING = """
import webhooks.server.process

webhooks.server.process.DEAD_AFTER = 0.2


@validating("widgets", names=["blocks"])
async def blocks(review):
    with socket.socket(socket.AF_UNIX) as gate:
        gate.connect(review.object["gate"])
        while True:
            try:
                gate.recv(1)
                return Allow()
            except BaseException:
                pass
"""


def test_liveness_fails_while_the_loop_is_blocked(tmp_path: Path) -> None:
    with serving(tmp_path, policies=POLICIES + BLOCKING) as server, Gate() as gate, server.connect() as connection:
        assert server.get("/livez", ops=True).body == b"ok"
        connection.request("POST", VALIDATE, gate.review("blocks"))
        gate.await_policy()
        await_true(lambda: server.get("/livez", ops=True).status == 503, "liveness fails")
        assert "[-]loop failed" in server.get("/livez", ops=True).body.decode()
        assert b"webhooks_" in server.get("/metrics", ops=True).body
        gate.open()
        assert connection.reply().json()["response"]["allowed"] is True
        await_true(lambda: server.get("/livez", ops=True).status == 200, "liveness succeeds")
        assert b'webhooks_policy_blocked_loop_total{policy="blocks"} 1.0' in server.get("/metrics", ops=True).body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_open_reviews_are_answered_before_the_server_stops(number: int, tmp_path: Path) -> None:
    with serving(tmp_path) as server, Gate() as gate:
        open_reviews = [server.connect() for _ in range(2)]
        idle = server.connect()
        assert_serves(idle)
        for connection, slow in zip(open_reviews, ("waits", "hangs"), strict=True):
            connection.request("POST", VALIDATE, gate.review(slow))
            gate.await_policy()
        server.signal(number)
        assert idle.is_closed()
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        gate.open()
        for connection in open_reviews:
            reply = connection.reply()
            assert reply.json()["response"]["allowed"] is True
            assert reply.closes
            assert connection.is_closed()
            connection.close()
        assert server.wait() == 0
        assert server.errors.all() == []


def test_a_policy_that_hangs_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    with serving(tmp_path) as server, Gate() as gate:
        with server.connect() as connection:
            connection.request("POST", f"{VALIDATE}?timeout=1s", gate.review("hangs"))
            gate.await_policy()
            server.signal()
            response = connection.reply().json()["response"]
        assert (response["allowed"], response["status"]["code"]) == (False, 504)
        assert server.process.wait(5) == 0


@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_a_second_signal_stops_the_server_at_once(slow: str, tmp_path: Path) -> None:
    with serving(tmp_path) as server, Gate() as gate, server.connect() as connection:
        connection.request("POST", VALIDATE, gate.review(slow))
        gate.await_policy()
        with server.connect() as idle:
            server.signal()
            assert idle.is_closed()  # so the first signal was handled
        server.signal()
        assert server.process.wait(5) == 0


@pytest.fixture(scope="module", autouse=True)
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that stops while clients are silent, send a body slowly, or wait for a policy that hangs."""
    with (
        serving(tmp_path_factory.mktemp("blocked"), "--grace", 10) as server,
        Gate() as gate,
        server.connect() as incomplete,
        server.connect(),
        Connection(server.port, None),
        server.connect() as waiting,
    ):
        incomplete.send(request("POST", VALIDATE, GOOD)[:-10])
        waiting.request("POST", f"{VALIDATE}?timeout=30s", gate.review("hangs"))
        gate.await_policy()
        server.signal()
        yield server


@for_each_size
def test_no_review_is_lost_when_one_of_two_servers_stops(workers: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    options = ("--workers", workers, "--shutdown-delay", "500ms")
    with serving(tmp_path / "a", *options) as one, serving(tmp_path / "b") as other:
        service = Service(one, other)
        clients = [Client(service.connect) for _ in range(4)]
        with service.polling(), Load(clients).running() as load:
            await_true(lambda: all(len(client.durations) > 20 for client in clients), "all clients get responses")
            one.signal()
            assert one.wait() == 0
            before = [len(client.durations) for client in clients]
            await_true(
                lambda: all(len(client.durations) > count + 20 for client, count in zip(clients, before, strict=True)),
                "all clients get responses from the other server",
            )
        print(f"{load.answered} reviews, {workers} workers")
        assert load.failures == []


def test_clients_cannot_keep_the_process_alive(blocked: Server) -> None:
    """The last test, because these clients have a grace period of ten seconds."""
    assert blocked.wait() == 0

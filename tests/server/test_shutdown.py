"""The end of a server as its callers meet it: nobody who calls as they should loses a review."""

import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ..support.load import VALIDATE, Client, Load, Service, is_ready
from ..support.servers import POLICIES, Gate, Server, await_true, review, serving

LONG = ("--shutdown-delay", "1h")
# Connections without requests do not end before this time.
PATIENT = "import webhooks.server.uvicorn_server\nwebhooks.server.uvicorn_server.IDLE_AT_SHUTDOWN = 60\n"

each_size = pytest.mark.parametrize("workers", [1, 2])


def children(server: Server) -> list[int]:
    """The processes that it started, and those that they started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [server.process.pid]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


@each_size
def test_it_says_at_once_that_it_ends_and_serves_on(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, *LONG, "--workers", workers) as server, server.connect() as connection:
        assert is_ready(server)
        server.signal()
        await_true(lambda: not is_ready(server), "it is not ready")
        await_true(lambda: not is_ready(server, ops=False), "it is not ready for its callers either")
        assert "[-]shutdown failed" in server.get("/readyz", ops=True).body.decode().splitlines()
        assert server.get("/livez", ops=True).status == 200
        for _ in range(4):
            reply = server.post(VALIDATE, review())
            assert reply.json()["response"]["allowed"] is True
            assert not reply.closes
        assert not connection.post(VALIDATE, review()).closes
        server.signal()
        assert server.process.wait(5) == 0


@each_size
def test_answers_end_their_connections_then(workers: int, tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--workers", workers, policies=PATIENT + POLICIES) as server,
        server.connect() as used,
        server.connect() as fresh,
        server.connect() as asking,
    ):
        assert not used.post(VALIDATE, review()).closes
        server.signal()
        await_true(lambda: not server.accepts(), "nobody is let in any more")
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


@each_size
def test_at_a_terminal_nobody_waits_for_callers_to_learn_of_it(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, *LONG, "--workers", workers) as server:
        assert server.post(VALIDATE, review()).status == 200
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(5) == 0


@each_size
def test_what_has_not_ended_within_the_grace_is_left(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "300ms", "--workers", workers) as server, Gate() as gate:
        with server.connect() as connection:
            connection.request("POST", f"{VALIDATE}?timeout=30s", gate.review("waits"))
            gate.await_policy()
            server.signal()
            assert server.process.wait(5) == 0
        server.errors.await_line("1 connections were still open after the grace period of 0.3 s")


def test_a_coroutine_that_refuses_to_end_keeps_nobody(tmp_path: Path) -> None:
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


@each_size
def test_a_signal_to_all_of_its_processes_is_one_to_it(workers: int, tmp_path: Path) -> None:
    """As a service manager sends it, or a terminal."""
    isolated = POLICIES.replace('@validating("widgets", names=["hangs"])', '@validating("widgets", isolation=True)')
    with serving(tmp_path, "--workers", workers, policies=isolated) as server, Gate() as gate, ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(2)]
        for connection in connections:
            connection.request("POST", VALIDATE, gate.review("well"))
            gate.await_policy()
        for process in [server.process.pid, *children(server)]:
            os.kill(process, signal.SIGTERM)
        await_true(lambda: not server.accepts(), "nobody is let in any more")
        gate.open()
        for connection in connections:
            assert connection.reply().json()["response"]["allowed"] is True
            connection.close()
        assert server.wait() == 0


@each_size
def test_nothing_is_left_when_it_is_killed(workers: int, tmp_path: Path) -> None:
    isolated = POLICIES.replace("@image_policy", "@image_policy(isolation=True)")
    with serving(tmp_path, "--workers", workers, policies=isolated) as server:
        processes = children(server)
        assert len(processes) >= workers
        server.signal(signal.SIGKILL)
        server.wait()
        await_true(lambda: not any(Path(f"/proc/{each}").exists() for each in processes), "they have all ended")


KEEPER = """
import webhooks.app.asgi

webhooks.app.asgi.DEAD_AFTER = 0.2


@validating("widgets", names=["keeps"])
async def keeps(review):
    with socket.socket(socket.AF_UNIX) as gate:
        gate.connect(review.object["gate"])
        while True:
            try:
                gate.recv(1)
                return Allow()
            except BaseException:
                pass
"""


def test_who_watches_learns_that_the_loop_is_kept(tmp_path: Path) -> None:
    with serving(tmp_path, policies=POLICIES + KEEPER) as server, Gate() as gate, server.connect() as connection:
        assert server.get("/livez", ops=True).body == b"ok"
        connection.request("POST", VALIDATE, gate.review("keeps"))
        gate.await_policy()
        await_true(lambda: server.get("/livez", ops=True).status == 503, "it does not live")
        assert "[-]loop failed" in server.get("/livez", ops=True).body.decode()
        assert b"webhooks_" in server.get("/metrics", ops=True).body
        gate.open()
        assert connection.reply().json()["response"]["allowed"] is True
        await_true(lambda: server.get("/livez", ops=True).status == 200, "it lives again")
        assert b'webhooks_policy_blocked_loop_total{policy="keeps"} 1.0' in server.get("/metrics", ops=True).body


@each_size
def test_no_review_is_lost_when_one_of_two_servers_ends(workers: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    options = ("--workers", workers, "--shutdown-delay", "500ms")
    with serving(tmp_path / "a", *options) as one, serving(tmp_path / "b") as other:
        service = Service(one, other)
        clients = [Client(service.connect) for _ in range(4)]
        with service.polling(), Load(clients).running() as load:
            await_true(lambda: all(len(client.durations) > 20 for client in clients), "all of them are answered")
            one.signal()
            assert one.wait() == 0
            before = [len(client.durations) for client in clients]
            await_true(
                lambda: all(len(client.durations) > count + 20 for client, count in zip(clients, before, strict=True)),
                "all of them are answered by the other",
            )
        print(f"{load.answered} reviews, {workers} workers")
        assert load.failures == []

"""Worker processes: they share a port, their metrics are added up, and dead workers are replaced."""

import asyncio
import multiprocessing
import os
import re
import signal
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from webhooks.app.lifecycle import Lifecycle
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.server.supervisor import Worker
from webhooks.settings import Settings

from ..support.builders import encode_body, image_body
from ..support.packages import denying
from ..support.servers import POLICIES, SECONDS, Gate, Server, await_true, review, serving, webhooks

VALIDATE = "/admission/validate"
WHO = """

@validating("whos")
def who(review):
    import os

    return Deny(str(os.getpid()))
"""
CALLS = 32  # connections, of which each worker gets some


def serving_workers(folder: Path) -> AbstractContextManager[Server]:
    return serving(folder, "--workers", 2, policies=POLICIES + WHO)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving_workers(tmp_path_factory.mktemp("server")) as server:
        yield server


def find_workers(server: Server) -> Counter[int]:
    """Count the responses of each worker, by its process id."""
    replies = [server.post(VALIDATE, review(resource="whos")).json()["response"] for _ in range(CALLS)]
    return Counter(int(reply["status"]["message"]) for reply in replies)


def count_reviews(server: Server, kind: str) -> float:
    """Return the number of reviews of a kind in the metrics."""
    page = server.get("/metrics", ops=True).body.decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    reviews = [sample for sample in samples if sample.name == "webhooks_reviews_total"]
    return sum(sample.value for sample in reviews if sample.labels["kind"] == kind)


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_both_workers_answer(server: Server) -> None:
    workers = find_workers(server)
    assert len(workers) == 2
    assert server.process.pid not in workers
    assert server.output.lines == [f"ready https://127.0.0.1:{server.port}"]


def test_metrics_are_added_up(server: Server) -> None:
    for _ in range(CALLS):
        server.post("/images", encode_body(image_body("a@b")))
    await_true(lambda: count_reviews(server, "ImageReview") >= CALLS, "all are counted")
    assert count_reviews(server, "ImageReview") == CALLS


def test_workers_are_counted(server: Server) -> None:
    def page() -> str:
        return server.get("/metrics", ops=True).body.decode()

    await_true(lambda: "\nwebhooks_workers 2.0\n" in page(), "both are counted")
    assert "\nwebhooks_log_records_dropped_total 0.0\n" in page()


def test_health(server: Server) -> None:
    page = server.get("/readyz?verbose", ops=True).body.decode()
    assert page.splitlines() == ["[+]ping ok", "[+]workers ok", "[+]shutdown ok", "readyz check passed"]
    assert server.get("/readyz").body == b"ok"


def test_dead_workers_are_replaced(server: Server) -> None:
    first, second = find_workers(server)
    await_true(lambda: count_reviews(server, "AdmissionReview") >= CALLS, "earlier reviews are counted")
    before = count_reviews(server, "AdmissionReview")
    with server.connect() as connection:
        kept = int(connection.post(VALIDATE, review(resource="whos")).json()["response"]["status"]["message"])
        killed = second if kept == first else first
        os.kill(killed, signal.SIGKILL)
        server.errors.await_line("a worker died with exit code -9")
        assert connection.post(VALIDATE, review()).json()["response"]["allowed"] is True
    workers = find_workers(server)  # connections in the queue of the dead worker waited for the new one
    assert len(workers) == 2
    assert killed not in workers
    await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
    assert count_reviews(server, "AdmissionReview") >= before
    assert [record["level"] for record in server.logs()] == ["error"]


SHORT_TIMEOUT = """
import re

import webhooks.server.supervisor

webhooks.server.supervisor.DEAD_AFTER = 1.5


@validating("widgets", names=["backtracks"])
def backtracks(review):
    re.match("(a+)+$", "a" * 40 + "b")
    return Allow()
"""


def restarts(server: Server) -> dict[str, str]:
    """Return the number of replaced workers by reason."""
    page = server.get("/metrics", ops=True).body.decode()
    return dict(re.findall(r'^webhooks_worker_restarts_total\{reason="(\w+)"\} (\S+)$', page, re.MULTILINE))


def test_workers_that_hang_are_killed_and_replaced(tmp_path: Path) -> None:
    """A worker that is stopped, and one with a policy that never releases the GIL."""
    with serving(tmp_path, "--workers", 2, policies=POLICIES + WHO + SHORT_TIMEOUT) as server:
        first, second = find_workers(server)
        os.kill(first, signal.SIGSTOP)
        server.errors.await_line("a worker has not reported for 1.5 s and is killed")
        await_true(lambda: first not in find_workers(server), "it is replaced")
        assert restarts(server) == {"died": "0.0", "hung": "1.0"}
        start = len(server.errors.lines)
        with server.connect() as connection:
            connection.request("POST", VALIDATE, review("backtracks"))
            server.errors.await_line("a worker has not reported for 1.5 s and is killed", start)
            assert connection.is_closed()
        await_true(lambda: restarts(server) == {"died": "0.0", "hung": "2.0"}, "it is replaced")
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
        workers = find_workers(server)
        assert len(workers) == 2
        assert len({first, second} & set(workers)) <= 1


def test_failed_starts_are_retried(tmp_path: Path) -> None:
    delay = "import webhooks.server.supervisor\nwebhooks.server.supervisor._MIN_RESTART_DELAY = 0.05\n"
    with serving(tmp_path, "--workers", 2, policies=delay + POLICIES + WHO) as server:
        first, second = find_workers(server)
        policies = (tmp_path / "policies.py").read_text()
        (tmp_path / "policies.py").write_text("oops(")
        os.kill(first, signal.SIGKILL)
        server.errors.await_line("a worker died with exit code 2")
        assert server.get("/readyz", ops=True).status == 503
        (tmp_path / "policies.py").write_text(policies)
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
        workers = find_workers(server)
        assert len(workers) == 2
        assert second in workers
        assert float(restarts(server)["died"]) >= 2


def test_open_reviews_are_answered_before_the_server_stops(tmp_path: Path) -> None:
    with serving_workers(tmp_path) as server, Gate() as gate, ExitStack() as stack:
        processes = find_workers(server)
        connections = [stack.enter_context(server.connect()) for _ in range(8)]
        for connection in connections:
            connection.request("POST", VALIDATE, gate.review("waits"))
            gate.await_policy()
        server.signal()
        await_true(lambda: not server.accepts(), "the port is closed")
        gate.open()
        for connection in connections:
            assert connection.reply().json()["response"]["allowed"] is True
            connection.close()
        assert server.wait() == 0
        assert server.errors.all() == []
        assert not any(is_alive(process) for process in processes)
        assert {file.name for file in tmp_path.iterdir()} <= {"certs", "policies.py", "__pycache__"}


def test_plugins_of_all_workers(tmp_path: Path) -> None:
    """The parent configures plugins too, only to check that workers can. It closes them at once."""
    options = (*denying(tmp_path), "--workers", 2)
    with serving(tmp_path, *options, policies="", PYTHONPATH=str(tmp_path)) as server:

        def samples() -> list[str]:
            lines = server.get("/metrics", ops=True).body.decode().splitlines()
            return [line for line in lines if line.startswith("webhooks_denying_")]

        parent = f"{server.process.pid}\n"
        assert (tmp_path / "ended").read_text() == parent
        replies = [server.post(VALIDATE, review(resource="gadgets")).json()["response"] for _ in range(CALLS)]
        messages = {reply["status"]["message"] for reply in replies}
        assert {message.partition(" ")[2] for message in messages} == {"of 2"}
        expected = [f'webhooks_denying_denied_total{{resource="gadgets"}} {CALLS}.0', "webhooks_denying_workers 2.0"]
        await_true(lambda: samples() == expected, "all are counted")
        first, second = (int(message.partition(" ")[0]) for message in messages)
        os.kill(first, signal.SIGKILL)
        server.errors.await_line("a worker died")
        expected[1] = "webhooks_denying_workers 1.0"
        await_true(lambda: samples() == expected, "the counts of the dead worker remain, its state does not")
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
        assert server.stop() == 0
    ended = (tmp_path / "ended").read_text().splitlines()
    assert len(ended) == 3
    assert {str(second), parent.strip()} < set(ended)


def test_an_interrupt_stops_all_workers_with_blocked_threads(tmp_path: Path) -> None:
    with serving_workers(tmp_path) as server, Gate() as gate:
        processes = find_workers(server)
        with server.connect() as connection:
            connection.request("POST", f"{VALIDATE}?timeout=1s", gate.review("hangs"))
            gate.await_policy()
            assert connection.reply().json()["response"]["status"]["code"] == 504
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.wait() == 0
        [record] = server.logs()
        assert "hangs" in record["message"]
        assert not any(is_alive(process) for process in processes)


def test_a_port_of_other_workers_is_in_use(server: Server, tmp_path: Path) -> None:
    """Workers share a port, servers do not: otherwise each would answer a part of the requests."""
    policies = server.folder / "policies.py"
    options = ("--host", "127.0.0.1", "--port", server.port, "--ops-port", 0, "--certs-dir", server.folder / "certs")
    second = subprocess.Popen(
        webhooks("serve", "--workers", 2, "--policies", policies, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with second:
        assert second.stdout is not None
        first_line = second.stdout.readline()
        second.terminate()
        errors = second.communicate(timeout=SECONDS)[1]
    assert first_line == ""
    assert (second.returncode, errors) == (
        2,
        f"webhooks: cannot listen on 127.0.0.1 port {server.port}: Address already in use: "
        "give another port by --port\n",
    )


def test_workers_stop_when_their_parent_dies(server: Server) -> None:
    """The last test of the shared server: it is killed."""
    processes = find_workers(server)
    server.signal(signal.SIGKILL)
    server.wait()
    await_true(lambda: not any(is_alive(process) for process in processes), "the workers have stopped")


def test_an_incomplete_report_is_ignored() -> None:
    async def receive() -> tuple[bool, MetricsSnapshot]:
        reader, writer = multiprocessing.Pipe(duplex=False)
        with socket.socket() as listener, reader:
            worker = Worker(Settings(policies=()), None, listener, Lifecycle())
            worker._pipe = reader
            os.write(writer.fileno(), struct.pack("!i", 1000) + b"half a message")
            writer.close()
            return worker._receive(), worker.snapshot

    assert asyncio.run(receive()) == (False, MetricsSnapshot())

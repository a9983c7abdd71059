"""Several processes that answer: they share a port, their counts add up, and the dead are replaced."""

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
CALLS = 32  # so many connections that each process gets some of them


def serving_two(folder: Path) -> AbstractContextManager[Server]:
    return serving(folder, "--workers", 2, policies=POLICIES + WHO)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving_two(tmp_path_factory.mktemp("server")) as server:
        yield server


def answerers(server: Server) -> Counter[int]:
    """The processes that answer, by their ids, each call on a connection of its own."""
    replies = [server.post(VALIDATE, review(resource="whos")).json()["response"] for _ in range(CALLS)]
    return Counter(int(reply["status"]["message"]) for reply in replies)


def counted(server: Server, kind: str) -> float:
    """How many reviews of a kind they have counted together."""
    page = server.get("/metrics", ops=True).body.decode()
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    reviews = [sample for sample in samples if sample.name == "webhooks_reviews_total"]
    return sum(sample.value for sample in reviews if sample.labels["kind"] == kind)


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_both_answer(server: Server) -> None:
    found = answerers(server)
    assert len(found) == 2
    assert server.process.pid not in found
    assert server.output.lines == [f"ready https://127.0.0.1:{server.port}"]


def test_their_counts_add_up(server: Server) -> None:
    for _ in range(CALLS):
        server.post("/images", encode_body(image_body("a@b")))
    await_true(lambda: counted(server, "ImageReview") >= CALLS, "all are counted")
    assert counted(server, "ImageReview") == CALLS


def test_processes_that_answer_are_counted(server: Server) -> None:
    def page() -> str:
        return server.get("/metrics", ops=True).body.decode()

    await_true(lambda: "\nwebhooks_workers 2.0\n" in page(), "both are counted")
    assert "\nwebhooks_log_records_dropped_total 0.0\n" in page()


def test_health(server: Server) -> None:
    page = server.get("/readyz?verbose", ops=True).body.decode()
    assert page.splitlines() == ["[+]ping ok", "[+]workers ok", "[+]shutdown ok", "readyz check passed"]
    assert server.get("/readyz").body == b"ok"


def test_the_dead_are_replaced(server: Server) -> None:
    first, second = answerers(server)
    await_true(lambda: counted(server, "AdmissionReview") >= CALLS, "those are counted")
    before = counted(server, "AdmissionReview")
    with server.connect() as connection:
        kept = int(connection.post(VALIDATE, review(resource="whos")).json()["response"]["status"]["message"])
        killed = second if kept == first else first
        os.kill(killed, signal.SIGKILL)
        server.errors.await_line("a worker died with exit code -9")
        assert connection.post(VALIDATE, review()).json()["response"]["allowed"] is True
    found = answerers(server)  # whoever came to the dead one's queue has waited for the one that took its place
    assert len(found) == 2
    assert killed not in found
    await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
    assert counted(server, "AdmissionReview") >= before
    assert [record["level"] for record in server.logs()] == ["error"]


IMPATIENT = """
import re

import webhooks.server.supervisor

webhooks.server.supervisor.DEAD_AFTER = 1.5


@validating("widgets", names=["backtracks"])
def backtracks(review):
    re.match("(a+)+$", "a" * 40 + "b")
    return Allow()
"""


def restarts(server: Server) -> dict[str, str]:
    """How often workers were replaced, by the reason."""
    page = server.get("/metrics", ops=True).body.decode()
    return dict(re.findall(r'^webhooks_worker_restarts_total\{reason="(\w+)"\} (\S+)$', page, re.MULTILINE))


def test_those_that_hang_are_killed_and_replaced(tmp_path: Path) -> None:
    """One that is stopped, and one in which a policy gives the interpreter to nobody, not even to other threads."""
    with serving(tmp_path, "--workers", 2, policies=POLICIES + WHO + IMPATIENT) as server:
        first, second = answerers(server)
        os.kill(first, signal.SIGSTOP)
        server.errors.await_line("a worker has told nothing for 1.5 s: it is killed")
        await_true(lambda: first not in answerers(server), "it is replaced")
        assert restarts(server) == {"died": "0.0", "hung": "1.0"}
        start = len(server.errors.lines)
        with server.connect() as connection:
            connection.request("POST", VALIDATE, review("backtracks"))
            server.errors.await_line("a worker has told nothing for 1.5 s: it is killed", start)
            assert connection.is_closed()
        await_true(lambda: restarts(server) == {"died": "0.0", "hung": "2.0"}, "it is replaced")
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
        found = answerers(server)
        assert len(found) == 2
        assert len({first, second} & set(found)) <= 1


def test_those_that_cannot_start_any_more_are_tried_again_and_again(tmp_path: Path) -> None:
    patience = "import webhooks.server.supervisor\nwebhooks.server.supervisor._PAUSE = 0.05\n"
    with serving(tmp_path, "--workers", 2, policies=patience + POLICIES + WHO) as server:
        first, second = answerers(server)
        policies = (tmp_path / "policies.py").read_text()
        (tmp_path / "policies.py").write_text("oops(")
        os.kill(first, signal.SIGKILL)
        server.errors.await_line("a worker died with exit code 2")
        assert server.get("/readyz", ops=True).status == 503
        (tmp_path / "policies.py").write_text(policies)
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
        found = answerers(server)
        assert len(found) == 2
        assert second in found
        assert float(restarts(server)["died"]) >= 2


def test_open_reviews_are_answered_before_the_end(tmp_path: Path) -> None:
    with serving_two(tmp_path) as server, Gate() as gate, ExitStack() as stack:
        processes = answerers(server)
        connections = [stack.enter_context(server.connect()) for _ in range(8)]
        for connection in connections:
            connection.request("POST", VALIDATE, gate.review("waits"))
            gate.await_policy()
        server.signal()
        await_true(lambda: not server.accepts(), "nobody is let in any more")
        gate.open()
        for connection in connections:
            assert connection.reply().json()["response"]["allowed"] is True
            connection.close()
        assert server.wait() == 0
        assert server.errors.all() == []
        assert not any(lives(process) for process in processes)
        assert {file.name for file in tmp_path.iterdir()} <= {"certs", "policies.py", "__pycache__"}


def test_plugins_of_all_workers(tmp_path: Path) -> None:
    """The parent configures them too, to see whether it can be done: it counts nothing, and ends its own at once."""
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
        counted = [f'webhooks_denying_denied_total{{resource="gadgets"}} {CALLS}.0', "webhooks_denying_workers 2.0"]
        await_true(lambda: samples() == counted, "all is counted")
        first, second = (int(message.partition(" ")[0]) for message in messages)
        os.kill(first, signal.SIGKILL)
        server.errors.await_line("a worker died")
        counted[1] = "webhooks_denying_workers 1.0"
        await_true(lambda: samples() == counted, "what it counted is kept, and not what it was")
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both are ready")
        assert server.stop() == 0
    ended = (tmp_path / "ended").read_text().splitlines()
    assert len(ended) == 3
    assert {str(second), parent.strip()} < set(ended)


def test_a_terminal_interrupts_all_at_once_whatever_their_policies_do(tmp_path: Path) -> None:
    with serving_two(tmp_path) as server, Gate() as gate:
        processes = answerers(server)
        with server.connect() as connection:
            connection.request("POST", f"{VALIDATE}?timeout=1s", gate.review("hangs"))
            gate.await_policy()
            assert connection.reply().json()["response"]["status"]["code"] == 504
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.wait() == 0
        [record] = server.logs()
        assert "hangs" in record["message"]
        assert not any(lives(process) for process in processes)


def test_a_port_of_other_workers_is_in_use(server: Server, tmp_path: Path) -> None:
    """The processes of one server share a port; two servers do not, or each would answer a part of the calls."""
    policies = server.folder / "policies.py"
    where = ("--host", "127.0.0.1", "--port", server.port, "--ops-port", 0, "--certs-dir", server.folder / "certs")
    second = subprocess.Popen(
        webhooks("serve", "--workers", 2, "--policies", policies, *where),
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
        f"webhooks: cannot listen on 127.0.0.1 port {server.port}: Address already in use\n",
    )


def test_workers_end_when_their_parent_dies(server: Server) -> None:
    """The last of these tests: it kills the server that the others share."""
    processes = answerers(server)
    server.signal(signal.SIGKILL)
    server.wait()
    await_true(lambda: not any(lives(process) for process in processes), "the workers have ended")


def test_a_worker_that_dies_in_the_middle_of_a_message_has_said_nothing_more() -> None:
    async def listen() -> tuple[bool, MetricsSnapshot]:
        told, tell = multiprocessing.Pipe(duplex=False)
        with socket.socket() as listener, told:
            worker = Worker(Settings(policies=()), listener, Lifecycle())
            worker._pipe = told
            os.write(tell.fileno(), struct.pack("!i", 1000) + b"half a message")
            tell.close()
            return worker._listen(), worker.tally

    assert asyncio.run(listen()) == (False, MetricsSnapshot())

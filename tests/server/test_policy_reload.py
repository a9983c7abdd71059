"""Policies are reloaded while the server runs: all of them or none, and no review is lost."""

import asyncio
import json
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from webhooks.app import review_routes
from webhooks.config import file
from webhooks.engine.executor import InlineState
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.loader import load
from webhooks.policy.registry import Registry
from webhooks.server import policy_reload
from webhooks.server.policy_reload import PolicyReloader

from ..support.builders import admission_body, encode_body
from ..support.mounts import Mount
from ..support.reviews import Reviews, build_reviews
from ..support.servers import Gate, Server, await_true, review, serving

POLICY = """\
from webhooks import *


@validating("widgets", "gadgets")
def {name}(review):
    return Deny("{version}")
"""
WAITING = """\
import asyncio
from webhooks import *


@validating("widgets")
async def waits(review):
    reader, writer = await asyncio.open_unix_connection(review.object["gate"])
    await reader.read()
    writer.close()
    return Deny("{version}")


@validating("widgets")
def answers(review):
    return Deny("{version}")
"""
CONFIGURATION = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\npolicies:\n"


def configuration(*entries: str) -> bytes:
    return (CONFIGURATION + "".join(f"- {entry}\n" for entry in entries)).encode()


def version(number: int, *names: str) -> dict[str, bytes]:
    return {f"{name}.py": POLICY.format(name=name, version=number).encode() for name in names}


def message(server: Server, body: bytes = review()) -> str:
    answer = server.post("/admission/validate", body).json()["response"]
    return str(answer.get("status", {}).get("message", "allowed"))


def metric(server: Server, name: str) -> float:
    [value] = re.findall(rf"^{re.escape(name)} (\S+)$", server.get("/metrics", ops=True).body.decode(), re.MULTILINE)
    return float(value)


@dataclass
class Stream:
    """Reviews that are sent continuously, with their responses."""

    server: Server
    messages: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator["Stream"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            with self.server.connect() as connection:
                while not self._stopped.is_set():
                    answer = connection.post("/admission/validate", review()).json()["response"]
                    self.messages.append(answer["status"]["message"])
        except BaseException as failure:
            self.failures.append(failure)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_two_mounted_files_are_reloaded_together_and_no_review_is_lost(workers: int, tmp_path: Path) -> None:
    entries = configuration("use: a.py", "use: b.py")
    contents = {"webhooks.yaml": entries, **version(0, "a", "b")}
    mount = Mount(tmp_path / "mounted", contents, contents)
    options = ("--config", mount.folder / "webhooks.yaml", "--workers", workers)
    with serving(tmp_path, *options, policies="") as server, Stream(server).running() as stream:
        for number in range(1, 4):
            mount.put({"webhooks.yaml": entries, **version(number, "a", "b")})
            await_true(lambda number=number: f"a: {number}; b: {number}" in stream.messages[-1:], f"version {number}")
    assert stream.failures == []
    assert set(stream.messages) == {f"a: {number}; b: {number}" for number in range(4)}


def test_invalid_policies_are_reported_until_they_are_fixed(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_bytes(configuration("use: a.py"))
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    with serving(tmp_path, "--config", file, policies="") as server:
        assert message(server) == "1"
        file.write_bytes(configuration("use: a.py", "usd: b.py"))
        error = server.errors.await_line("policies are not reloaded")
        assert (
            f"{file}:5:3: policies[1].usd: Forbidden: unknown field; did you mean use?" in json.loads(error)["message"]
        )
        assert message(server) == "1"
        health = server.get("/readyz?verbose", ops=True)
        assert health.status == 200
        assert "[!]the policies are older than their files" in health.body.decode()
        assert metric(server, 'webhooks_policy_reloads_total{result="failure"}') == 1
        assert metric(server, "webhooks_policy_reload_failing") == 1

        file.write_bytes(configuration("use: a.py", "{use: b.py, mode: warn}"))
        (tmp_path / "b.py").write_bytes(version(1, "b")["b.py"])
        server.errors.await_line("policies were reloaded: a, b")
        answer = server.post("/admission/validate", review()).json()["response"]
        assert (answer["status"]["message"], answer["warnings"]) == ("1", ["b: 1"])
        assert "[!]" not in server.get("/readyz?verbose", ops=True).body.decode()
        assert metric(server, "webhooks_policy_reload_failing") == 0
        assert metric(server, 'webhooks_policy_reloads_total{result="success"}') == 1


def test_a_configuration_without_policies_is_rejected(tmp_path: Path) -> None:
    """It would allow everything, and an incomplete file may look like this."""
    file = tmp_path / "webhooks.yaml"
    file.write_bytes(configuration("use: a.py"))
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    with serving(tmp_path, "--config", file, policies="") as server:
        file.write_text(CONFIGURATION)
        assert "no policies" in server.errors.await_line("policies are not reloaded")
        assert message(server) == "1"


def test_a_folder_of_policies_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, text in version(1, "a", "b").items():
        (folder / name).write_bytes(text)
    with serving(tmp_path, "--policies", folder, policies="") as server:
        assert message(server) == "a: 1; b: 1"
        assert server.post("/admission/validate/b", review()).status == 200
        (folder / "c.py").write_bytes(version(1, "c")["c.py"])
        server.errors.await_line("policies were reloaded: a, b, c")
        (folder / "b.py").unlink()
        server.errors.await_line("policies were reloaded: a, c")
        assert message(server) == "a: 1; c: 1"
        assert server.post("/admission/validate/b", review()).status == 404
        assert server.post("/admission/validate/c", review()).status == 200


def test_a_change_that_keeps_size_and_time_is_detected(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(version(1, "a")["a.py"])
    before = file.stat()
    with serving(tmp_path, "--policies", file, policies="") as server:
        file.write_bytes(version(2, "a")["a.py"])
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        server.errors.await_line("policies were reloaded")
        assert message(server) == "2"
    assert not (tmp_path / "__pycache__").exists()


def test_a_review_in_progress_keeps_its_policies(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(WAITING.format(version="old"))
    with Gate() as gate, serving(tmp_path, "--policies", file, policies="") as server, server.connect() as connection:
        connection.request("POST", "/admission/validate", gate.review("web"))
        gate.await_policy()
        file.write_text(POLICY.format(name="new", version="new"))
        server.errors.await_line("policies were reloaded: new")
        assert message(server) == "new"
        gate.open()
        answer = connection.reply().json()["response"]["status"]
        assert answer["message"] == "waits: old; answers: old"


def test_server_settings_require_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    file.write_bytes(configuration("use: a.py"))
    with serving(tmp_path, "--config", file, policies="") as server:
        file.write_bytes(configuration("use: a.py") + b"server: {grace: 1s}\n")
        record = json.loads(server.errors.await_line("a change of server settings requires a restart"))
        assert record["level"] == "warning"


def test_an_isolated_policy_with_parameters_is_reloaded(tmp_path: Path) -> None:
    text = (
        'from webhooks import *\n\n\n@validating("widgets")\ndef echo(review, *, text: str):\n    return Deny(text)\n'
    )
    (tmp_path / "echo.py").write_text(text)
    entry = "{{use: echo.py, name: {0}, isolation: true, parameters: {{text: {0}}}}}"
    file = tmp_path / "webhooks.yaml"
    file.write_bytes(configuration(entry.format("one")))
    with serving(tmp_path, "--config", file, policies="") as server:
        assert message(server) == "one"
        file.write_bytes(configuration(entry.format("two")))
        server.errors.await_line("policies were reloaded: two")
        assert message(server) == "two"


def test_the_policies_of_plugins_stay(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n"
        "  configuration:\n    apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n    kind: Configuration\n"
        "    limits: [{type: Server, qps: 1, burst: 1}]\n"
    )
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    options = ("--admission-config", tmp_path / "limits.yaml", "--policies", tmp_path / "a.py")
    event = encode_body(admission_body(obj={"kind": "Event", "metadata": {}}, resource="v1/events")).strip()
    with serving(tmp_path, *options, policies="") as server:
        assert message(server, event) == "allowed"
        assert message(server, event) != "allowed"
        (tmp_path / "a.py").write_bytes(version(2, "a")["a.py"])
        line = server.errors.await_line("policies were reloaded: a, ")
        assert "a, EventRateLimit" in line or "event" in line.lower()
        assert message(server) == "2"


# Removed policies.


def test_removed_policies_are_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_routes, "_MAX_REVIEW_DURATION", 0)
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    (tmp_path / "b.py").write_bytes(version(1, "b")["b.py"])
    before, after = load([str(tmp_path / "a.py")]), load([str(tmp_path / "b.py")])

    async def scenario() -> Reviews:
        reviews = build_reviews(before)
        await reviews.endpoint("/admission/validate").answer(review(), b"")
        reviews.metrics.on_mode_change("a", InlineState(is_inline=True))
        await reviews.routes.replace_policies(after)
        await asyncio.gather(*reviews.routes._cleanups)
        return reviews

    reviews = asyncio.run(scenario())
    [policy] = after
    assert set(reviews.executor.inline_states) == {policy}
    assert reviews.metrics._call_durations == {}
    assert reviews.metrics.snapshot.inline == {}
    assert reviews.metrics.snapshot.policies.keys() == {("a", "deny")}


def test_an_isolated_policy_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    """The file can be loaded here, but not in the process of the policy."""
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    (tmp_path / "b.py").write_text(
        'import os\nfrom webhooks import *\nassert "HOME" in os.environ\n\n\n'
        '@validating("widgets", isolation=True)\ndef b(review):\n    return Allow()\n'
    )
    before, after = load([str(tmp_path / "a.py")]), load([str(tmp_path / "b.py")])

    async def scenario() -> None:
        reviews = build_reviews(before)
        paths = set(reviews.routes.by_path)
        with pytest.raises(ConfigurationError, match="cannot be isolated"):
            await reviews.routes.replace_policies(after)
        assert set(reviews.routes.by_path) == paths
        assert set(reviews.executor.inline_states) == set(before)
        await reviews.executor.close()

    asyncio.run(scenario())


def create_reloader(sources: list[str], path: Path | None = None) -> PolicyReloader:
    return PolicyReloader(sources, None if path is None else file.read(path), list, MetricRegistry())


def test_invalid_policies_at_the_start_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        create_reloader([str(tmp_path / "nothing.py")])
    with pytest.raises(ConfigurationError, match="no policies"):
        create_reloader([])
    (tmp_path / "empty.yaml").write_text(CONFIGURATION)
    with pytest.raises(ConfigurationError, match=r"empty\.yaml: no policies"):
        create_reloader([], tmp_path / "empty.yaml")


# Reads of the configuration file.

COUNTING = """\
import os, sys

counts = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def count(event, arguments):
    frame = sys._getframe(1) if event == "open" and str(arguments[0]).endswith("webhooks.yaml") else None
    while frame is not None:
        if frame.f_globals.get("__name__") == "webhooks.config.strict_yaml":  # the file watcher opens the file too
            os.write(counts, b"%d\\n" % os.getpid())
            break
        frame = frame.f_back


sys.addaudithook(count)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_a_start_reads_the_configuration_once(workers: int, tmp_path: Path) -> None:
    path, counts = tmp_path / "webhooks.yaml", tmp_path / "counts"
    path.write_bytes(configuration("use: a.py"))
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    (tmp_path / "sitecustomize.py").write_text(COUNTING.format(path=str(counts)))
    options = ("--config", path, "--workers", workers)
    environment = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    with serving(tmp_path, *options, policies="", **environment) as server:
        assert message(server) == "1"
        assert counts.read_text() == f"{server.process.pid}\n"
        path.write_bytes(configuration("{use: a.py, mode: warn}"))
        await_true(
            lambda: metric(server, 'webhooks_policy_reloads_total{result="success"}') == workers, "all processes reload"
        )
        assert len(counts.read_text().splitlines()) == 1 + workers
        assert len(set(counts.read_text().splitlines())) == (1 if workers == 1 else 1 + workers)


def test_a_change_after_the_configuration_was_read_is_reloaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file may change before it is watched."""
    path = tmp_path / "webhooks.yaml"
    for name, text in version(1, "a", "b").items():
        (tmp_path / name).write_bytes(text)
    path.write_bytes(configuration("use: a.py"))
    content = file.read(path)
    path.write_bytes(configuration("use: b.py"))
    reloader = PolicyReloader([], content, list, MetricRegistry())
    assert [policy.name for policy in reloader.registry] == ["a"]

    async def reload() -> list[str]:
        names: list[str] = []

        async def replace(registry: Registry) -> None:
            names.extend(policy.name for policy in registry)

        with reloader.watching(replace):
            for _ in range(2):
                await asyncio.to_thread(reloader._watcher.poll)
        return names

    assert asyncio.run(reload()) == ["b"]
    assert caplog.records == []


def test_a_restarted_worker_reads_the_current_configuration(tmp_path: Path) -> None:
    path = tmp_path / "webhooks.yaml"
    path.write_bytes(configuration("use: a.py"))
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    with serving(tmp_path, "--config", path, "--workers", 2, policies="") as server:
        path.write_bytes(configuration("use: a.py", "{use: b.py, mode: warn}"))
        (tmp_path / "b.py").write_bytes(version(1, "b")["b.py"])
        await_true(
            lambda: metric(server, 'webhooks_policy_reloads_total{result="success"}') == 2, "both workers reload"
        )
        for worker in children(server.process.pid):
            os.kill(worker, signal.SIGKILL)
        await_true(lambda: restarts(server) == 2, "both workers are replaced")
        await_true(lambda: server.get("/readyz", ops=True).status == 200, "both workers are ready")
        for _ in range(8):
            assert server.post("/admission/validate", review()).json()["response"]["warnings"] == ["b: 1"]


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def restarts(server: Server) -> float:
    return metric(server, 'webhooks_worker_restarts_total{reason="died"}')


def test_a_configuration_that_lists_other_files_is_loaded_after_two_polls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(policy_reload, "_POLL_INTERVAL", 3600)
    for name, text in version(1, "a", "b").items():
        (tmp_path / name).write_bytes(text)
    path = tmp_path / "webhooks.yaml"
    path.write_bytes(configuration("use: a.py"))
    reloader = create_reloader([], path)
    loaded: list[list[str]] = []

    async def replace_policies(registry: Registry) -> None:
        loaded.append([policy.name for policy in registry])

    async def scenario() -> None:
        with reloader.watching(replace_policies):
            for entry in ("use: missing.py", "use: b.py"):
                path.write_bytes(configuration(entry))
                for _ in range(2):
                    await asyncio.to_thread(reloader._watcher.poll)

    asyncio.run(scenario())
    assert loaded == [["b"]]
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    assert "requires a restart" not in caplog.text

"""Policies are exchanged under a running server: whole or not at all, and no review is lost."""

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from webhooks.app import asgi
from webhooks.app.asgi import WebhookApp
from webhooks.engine.executor import InlineState
from webhooks.errors import ConfigurationError
from webhooks.plugins.loader import PluginContext
from webhooks.policy.loader import load
from webhooks.server.policy_reload import PolicyReloader
from webhooks.settings import Settings

from ..support.builders import admission_body, encode_body
from ..support.mounts import Mount
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
    """Reviews without end, and what came of them."""

    server: Server
    messages: list[str] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def flowing(self) -> Iterator["Stream"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            with self.server.connect() as connection:
                while not self._ended.is_set():
                    answer = connection.post("/admission/validate", review()).json()["response"]
                    self.messages.append(answer["status"]["message"])
        except BaseException as failure:
            self.failures.append(failure)


@pytest.mark.parametrize("workers", [1, 2])
def test_two_files_of_a_mounted_configuration_are_exchanged_together_and_no_review_is_lost(
    workers: int, tmp_path: Path
) -> None:
    entries = configuration("use: a.py", "use: b.py")
    contents = {"webhooks.yaml": entries, **version(0, "a", "b")}
    mount = Mount(tmp_path / "mounted", contents, contents)
    options = ("--config", mount.folder / "webhooks.yaml", "--workers", workers)
    with serving(tmp_path, *options, policies="") as server, Stream(server).flowing() as stream:
        for number in range(1, 4):
            mount.put({"webhooks.yaml": entries, **version(number, "a", "b")})
            await_true(lambda number=number: f"a: {number}; b: {number}" in stream.messages[-1:], f"version {number}")
    assert stream.failures == []
    assert set(stream.messages) == {f"a: {number}; b: {number}" for number in range(4)}


def test_what_is_broken_is_refused_and_told_until_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_bytes(configuration("use: a.py"))
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    with serving(tmp_path, "--config", file, policies="") as server:
        assert message(server) == "1"
        file.write_bytes(configuration("use: a.py", "usd: b.py"))
        refusal = server.errors.await_line("policies are not taken over")
        assert (
            f"{file}:5:3: policies[1].usd: Forbidden: unknown field; did you mean use?"
            in json.loads(refusal)["message"]
        )
        assert message(server) == "1"
        health = server.get("/readyz?verbose", ops=True)
        assert health.status == 200
        assert "[!]policies are older than their files" in health.body.decode()
        assert metric(server, 'webhooks_policy_reloads_total{result="refused"}') == 1
        assert metric(server, "webhooks_policy_reload_failing") == 1

        file.write_bytes(configuration("use: a.py", "{use: b.py, mode: warn}"))
        (tmp_path / "b.py").write_bytes(version(1, "b")["b.py"])
        server.errors.await_line("policies are taken over: a, b")
        answer = server.post("/admission/validate", review()).json()["response"]
        assert (answer["status"]["message"], answer["warnings"]) == ("1", ["b: 1"])
        assert "[!]" not in server.get("/readyz?verbose", ops=True).body.decode()
        assert metric(server, "webhooks_policy_reload_failing") == 0
        assert metric(server, 'webhooks_policy_reloads_total{result="taken"}') == 1


def test_a_configuration_that_asks_nobody_any_more_is_refused(tmp_path: Path) -> None:
    """It would let everything pass; a file that is being written is as empty."""
    file = tmp_path / "webhooks.yaml"
    file.write_bytes(configuration("use: a.py"))
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    with serving(tmp_path, "--config", file, policies="") as server:
        file.write_text(CONFIGURATION)
        assert "no policies" in server.errors.await_line("policies are not taken over")
        assert message(server) == "1"


def test_a_folder_of_policies_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    for name, text in version(1, "a", "b").items():
        (folder / name).write_bytes(text)
    with serving(tmp_path, "--policies", folder, policies="") as server:
        assert message(server) == "a: 1; b: 1"
        assert server.post("/admission/validate/b", review()).status == 200
        (folder / "c.py").write_bytes(version(1, "c")["c.py"])
        server.errors.await_line("policies are taken over: a, b, c")
        (folder / "b.py").unlink()
        server.errors.await_line("policies are taken over: a, c")
        assert message(server) == "a: 1; c: 1"
        assert server.post("/admission/validate/b", review()).status == 404
        assert server.post("/admission/validate/c", review()).status == 200


def test_a_change_within_a_second_that_keeps_the_size_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(version(1, "a")["a.py"])
    before = file.stat()
    with serving(tmp_path, "--policies", file, policies="") as server:
        file.write_bytes(version(2, "a")["a.py"])
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        server.errors.await_line("policies are taken over")
        assert message(server) == "2"
    assert not (tmp_path / "__pycache__").exists()


def test_a_review_ends_by_the_policies_that_it_began_with(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(WAITING.format(version="old"))
    with Gate() as gate, serving(tmp_path, "--policies", file, policies="") as server, server.connect() as connection:
        connection.request("POST", "/admission/validate", gate.review("web"))
        gate.await_policy()
        file.write_text(POLICY.format(name="new", version="new"))
        server.errors.await_line("policies are taken over: new")
        assert message(server) == "new"
        gate.open()
        answer = connection.reply().json()["response"]["status"]
        assert answer["message"] == "waits: old; answers: old"


def test_what_the_configuration_says_of_the_server_waits_for_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    file.write_bytes(configuration("use: a.py"))
    with serving(tmp_path, "--config", file, policies="") as server:
        file.write_bytes(configuration("use: a.py") + b"server: {grace: 1s}\n")
        told = json.loads(server.errors.await_line("holds from the next start on"))
        assert told["level"] == "warning"


def test_an_isolated_policy_is_told_its_parameters_and_exchanged(tmp_path: Path) -> None:
    text = (
        'from webhooks import *\n\n\n@validating("widgets")\ndef told(review, *, text: str):\n    return Deny(text)\n'
    )
    (tmp_path / "told.py").write_text(text)
    entry = "{{use: told.py, name: {0}, isolation: true, parameters: {{text: {0}}}}}"
    file = tmp_path / "webhooks.yaml"
    file.write_bytes(configuration(entry.format("one")))
    with serving(tmp_path, "--config", file, policies="") as server:
        assert message(server) == "one"
        file.write_bytes(configuration(entry.format("two")))
        server.errors.await_line("policies are taken over: two")
        assert message(server) == "two"


def test_plugins_stay(tmp_path: Path) -> None:
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
        taken = server.errors.await_line("policies are taken over: a, ")
        assert "a, EventRateLimit" in taken or "event" in taken.lower()
        assert message(server) == "2"


# What is kept of those that were.


def test_nothing_is_kept_of_policies_when_their_last_review_must_be_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "_LONGEST_REVIEW", 0)
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    (tmp_path / "b.py").write_bytes(version(1, "b")["b.py"])
    before, after = load([str(tmp_path / "a.py")]), load([str(tmp_path / "b.py")])

    async def scenario() -> WebhookApp:
        app = WebhookApp(before)
        answer: Any = app.endpoints["/admission/validate"].answer(review(), b"")
        await answer
        app.metrics.paced("a", InlineState(is_inline=True))
        await app.exchange(after)
        await asyncio.gather(*app._ending)
        return app

    app = asyncio.run(scenario())
    [policy] = after
    assert set(app.runner.inline_states) == {policy}
    assert app.metrics._observers == {}
    assert app.metrics.tally.in_place == {}
    assert app.metrics.tally.policies.keys() == {("a", "deny")}


def test_an_isolated_policy_that_cannot_be_loaded_changes_nothing(tmp_path: Path) -> None:
    """Its file loads here, and in its own process it does not."""
    (tmp_path / "a.py").write_bytes(version(1, "a")["a.py"])
    (tmp_path / "b.py").write_text(
        'import os\nfrom webhooks import *\nassert "HOME" in os.environ\n\n\n'
        '@validating("widgets", isolation=True)\ndef b(review):\n    return Allow()\n'
    )
    before, after = load([str(tmp_path / "a.py")]), load([str(tmp_path / "b.py")])

    async def scenario() -> None:
        app = WebhookApp(before)
        paths = set(app.endpoints)
        with pytest.raises(ConfigurationError, match="cannot be isolated"):
            await app.exchange(after)
        assert set(app.endpoints) == paths
        assert set(app.runner.inline_states) == set(before)
        await app.site.close()

    asyncio.run(scenario())


def test_a_bad_start_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        PolicyReloader(Settings(policies=(str(tmp_path / "nothing.py"),)), PluginContext())
    with pytest.raises(ConfigurationError, match="cannot be read"):
        PolicyReloader(Settings(config=tmp_path / "nothing.yaml"), PluginContext())
    (tmp_path / "nobody.yaml").write_text(CONFIGURATION)
    with pytest.raises(ConfigurationError, match=r"nobody\.yaml: no policies"):
        PolicyReloader(Settings(config=tmp_path / "nobody.yaml"), PluginContext())

"""Tests of plugins: how they are found, configured and shut down."""

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from webhooks import create_app
from webhooks.config.file import read
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins import loader
from webhooks.plugins.loader import PluginContext

from ..support.builders import admission_body, pod
from ..support.packages import install

HEAD = "apiVersion: apiserver.config.svc.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
GADGETS = """\
from webhooks import *
from webhooks.plugins import Model

from webhooks.errors import ConfigurationError

class Settings(Model):
    names: list[str]

def configure(document, context):
    settings = document.read(Settings)
    denied = context.metrics.counter("webhooks_gadget_denied", "Pods that were denied.", ("name",))

    @validating("pods", names=settings.names)
    def gadget(review):
        denied.add(review.name)
        return Deny(f"{review.name} of {context.workers}")

    async def close():
        print("closed", settings.names)

    context.on_shutdown(close)
    return [gadget]

def yields(document, context):
    for name in ("one", "two"):
        yield validating("pods", name=name)(lambda review: Allow())

def nothing(document, context):
    return None

def raises(document, context):
    raise ValueError("a\\nb")

def exits(document, context):
    raise SystemExit("bye")

def rejects(document, context):
    raise ConfigurationError("first\\nsecond")

no_function = 1
"""
PLUGINS = {
    "Gadget": "gadgets:configure",
    "Yields": "gadgets:yields",
    "Nothing": "gadgets:nothing",
    "Raises": "gadgets:raises",
    "Exits": "gadgets:exits",
    "Rejects": "gadgets:rejects",
    "NoFunction": "gadgets:no_function",
    "NoName": "gadgets:missing",
    "NoModule": "gadgets_missing:configure",
    "Broken": "gadgets_broken:configure",
}

Load = Callable[[str], list[str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    install(tmp_path, "gadgets", GADGETS, PLUGINS)
    (tmp_path / "gadgets_broken.py").write_text("oops(\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("gadgets", "gadgets_broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def load(folder: Path, text: str, context: PluginContext) -> list[loader.AnyPolicy]:
    file = folder / "admission.yaml"
    file.write_text(HEAD + text)
    return loader.load(file, context)


def errors(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(folder, text, PluginContext())
    return str(raised.value).replace(f"{folder}/", "").splitlines()


# Configuration.


def test_policies_of_plugins(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "gadget.yaml").write_text("names: [bad]")
    context = PluginContext(3)
    policies = load(folder, "- name: Yields\n- {name: Gadget, path: gadget.yaml}\n", context)
    assert [policy.name for policy in policies] == ["one", "two", "gadget"]
    with TestClient(create_app(policies, context)) as client:
        body = admission_body("CREATE", pod("bad"), name="bad")
        status = client.post("/admission/validate", json=body).json()["response"]["status"]
        assert status["message"] == "bad of 3"
        page = client.get("/metrics").text
        assert capsys.readouterr().out == ""
    assert "# HELP webhooks_gadget_denied_total Pods that were denied.\n" in page
    assert "# TYPE webhooks_gadget_denied_total counter\n" in page
    assert 'webhooks_gadget_denied_total{name="bad"} 1.0\n' in page
    assert capsys.readouterr().out == "closed ['bad']\n"


def test_errors_of_all_plugins_are_reported_at_once(folder: Path) -> None:
    (folder / "gadget.yaml").write_text("names: bad\nname: bad\nname: good\n")
    text = "- {name: Gadget, path: gadget.yaml}\n- name: Rejects\n- {name: Yields, path: nothing.yaml}\n"
    assert errors(folder, text) == [
        'gadget.yaml:1:8: names: Invalid value: "bad": must be a list',
        "gadget.yaml:2:1: name: Forbidden: unknown field; did you mean names?",
        'gadget.yaml:3:1: name: Duplicate value: "name": the key is in line 2 already',
        "first",
        "second",
        "nothing.yaml: cannot be read: No such file or directory",
    ]


def test_errors_in_embedded_configurations(folder: Path) -> None:
    assert errors(folder, "- name: Gadget\n  configuration:\n    names: [1]\n- name: Rejects\n") == [
        "admission.yaml:6:13: plugins[0].configuration.names[0]: Invalid value: 1: must be a string",
        "first",
        "second",
    ]
    assert errors(folder, "- name: Gadget\n") == ["admission.yaml:4:3: plugins[0].configuration.names: Required value"]


def test_an_unknown_plugin(folder: Path) -> None:
    [line] = errors(folder, "- name: Gadgets\n")
    known = ", ".join(f'"{name}"' for name in sorted({*PLUGINS, "EventRateLimit"}))
    assert line == f'admission.yaml:4:9: plugins[0].name: Unsupported value: "Gadgets": supported values: {known}'


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nothing", "(gadgets:nothing of gadgets 1.0): TypeError: 'NoneType' object is not iterable"),
        ("Raises", "(gadgets:raises of gadgets 1.0): ValueError: a b"),
        ("Exits", "(gadgets:exits of gadgets 1.0): SystemExit: bye"),
        ("NoFunction", "(gadgets:no_function of gadgets 1.0): TypeError: 'int' object is not callable"),
        ("NoName", "(gadgets:missing of gadgets 1.0): AttributeError: module 'gadgets' has no attribute 'missing'"),
        ("NoModule", "(gadgets_missing:configure of gadgets 1.0): ModuleNotFoundError: No module named"),
        ("Broken", "(gadgets_broken:configure of gadgets 1.0): SyntaxError: '(' was never closed"),
    ],
)
def test_plugins_that_cannot_be_loaded(name: str, message: str, folder: Path) -> None:
    [line] = errors(folder, f"- name: {name}\n")
    assert line.startswith(f"plugin '{name}' {message}")


def test_a_name_that_two_packages_register(folder: Path) -> None:
    install(folder, "widgets", GADGETS, {"Gadget": "widgets:configure", "Widget": "widgets:yields"})
    [line] = errors(folder, "- name: Gadget\n")
    assert line.startswith("plugin 'Gadget' is registered more than once, by ")
    assert "gadgets:configure of gadgets 1.0" in line
    assert "widgets:configure of widgets 1.0" in line
    assert len(load(folder, "- name: Widget\n", PluginContext())) == 2


def test_a_metric_with_a_name_of_the_server(folder: Path) -> None:
    context = PluginContext()
    context.metrics.counter("webhooks_reviews_total", "Mine.")
    with pytest.raises(ConfigurationError, match="webhooks_reviews: reserved: a plugin must use another metric name"):
        create_app([], context)


# Shutdown.


def test_functions_are_called_once_in_reverse_order(caplog: pytest.LogCaptureFixture) -> None:
    called = []

    def close_function(name: str) -> Callable[[], object]:
        async def close() -> None:
            asyncio.get_running_loop()
            called.append(name)

        return close

    async def raises() -> None:
        raise ValueError("a secret")

    context = PluginContext(1, MetricRegistry())
    context.on_shutdown(close_function("first"))
    context.on_shutdown(raises)
    context.on_shutdown(close_function("last"))
    asyncio.run(context.close())
    asyncio.run(context.close())
    assert called == ["last", "first"]
    [record] = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "a plugin failed to shut down")


def test_functions_have_a_time_limit(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(loader, "_CLOSE_TIMEOUT", 0.01)

    async def hangs() -> None:
        await asyncio.Event().wait()

    context = PluginContext()
    context.on_shutdown(hangs)
    asyncio.run(context.close())
    assert len(caplog.records) == 1


# All policies of a configuration.


def check(folder: Path, text: str) -> list[str]:
    (folder / "webhooks.yaml").write_text(f"apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n{text}")
    return [policy.name for policy in loader.load_checked(read(folder / "webhooks.yaml"))]


def test_policies_of_plugins_are_last(folder: Path) -> None:
    (folder / "admission.yaml").write_text(f"{HEAD}- name: Yields\n")
    server = "server: {admissionConfig: admission.yaml}\n"
    assert check(folder, f"{server}policies: [{{use: 'library:privileged'}}]\n") == ["privileged", "one", "two"]


def test_errors_of_settings_policies_and_plugins_are_reported_at_once(folder: Path) -> None:
    (folder / "admission.yaml").write_text(f"{HEAD}- name: Rejects\n")
    server = "server: {tlsCert: a.pem, context: production, admissionConfig: admission.yaml}\n"
    with pytest.raises(ConfigurationError) as raised:
        check(folder, f"{server}policies: [{{use: nothing.py}}]\n")
    assert str(raised.value).replace(f"{folder}/", "").splitlines() == [
        "webhooks.yaml:3:19: server.tlsCert and server.tlsKey must be given together",
        "webhooks.yaml:3:35: server.kubeconfig and server.context require server.syncCaBundle",
        "webhooks.yaml:4:18: policies[0].use: Invalid value: nothing.py: no such file or folder",
        "first",
        "second",
    ]


def test_policies_are_required(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"webhooks\.yaml: no policies: "):
        check(folder, "")

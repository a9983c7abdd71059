"""Tests of configuration files: settings, where policies are, and the location of every error."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.config import file as config_file
from webhooks.config import strict_yaml
from webhooks.config.models import WebhookConfiguration
from webhooks.errors import ConfigurationError
from webhooks.policy.registry import Registry
from webhooks.settings import Limits, Settings

from ..support.configurations import HEAD, POLICIES, errors, load, load_one, read

INVALID = Path(__file__).parents[1] / "data" / "configurations"


# Settings.


def test_without_fields_settings_have_their_defaults(folder: Path) -> None:
    configuration = read(folder, "")
    assert configuration.settings == Settings()
    assert configuration.load() == []


def test_every_setting(folder: Path) -> None:
    server = """\
server:
  admissionConfig: a.yaml
  host: "::1"
  port: 1
  opsPort: 2
  certsDir: c
  tlsCert: t.pem
  tlsKey: /k.pem
  clientCa: ca.pem
  allowClient: [a, b]
  tokenFile: tokens
  oidcIssuer: https://issuer
  oidcAudience: us
  oidcSubject: [s]
  oidcCa: o.pem
  workers: 3
  shutdownDelay: 1m
  grace: 1.5s
  logLevel: debug
  decisionLog: denials
  tracing: true
  syncCaBundle: ours
  kubeconfig: k.yaml
  context: production
  limits:
    maxConnections: 11
    maxConnectionsPerPeer: 12
    maxInFlight: 13
    maxQueue: 0
    maxBody: 2048
    maxHeaders: 14
    maxHeaderBytes: 4096
    tlsTimeout: 100ms
    headerTimeout: 2s
    bodyTimeout: 3s
"""
    settings = read(folder, server).settings
    assert settings == Settings(
        admission_config=folder / "a.yaml",
        host="::1",
        port=1,
        ops_port=2,
        certs_dir=folder / "c",
        tls_cert=folder / "t.pem",
        tls_key=Path("/k.pem"),
        client_ca=folder / "ca.pem",
        allow_client=("a", "b"),
        token_file=folder / "tokens",
        oidc_issuer="https://issuer",
        oidc_audience="us",
        oidc_subject=("s",),
        oidc_ca=folder / "o.pem",
        workers=3,
        shutdown_delay=60.0,
        grace=1.5,
        log_level="debug",
        decision_log="denials",
        tracing=True,
        sync_ca_bundle="ours",
        kubeconfig=folder / "k.yaml",
        context="production",
        limits=Limits(11, 12, 13, 0, 2048, 14, 4096, 0.1, 2.0, 3.0),
    )
    names = set(settings.__dict__) - {"config", "policies"}
    assert all(getattr(settings, name) != getattr(Settings(), name) for name in names), "a value is the default"


def test_no_ops_port(folder: Path) -> None:
    assert read(folder, "server: {opsPort: 0}").settings.ops_port is None


@pytest.mark.parametrize(
    "text", ["server:\npolicies:\n", "server: {port: null, limits: null}\n", "server: {}\npolicies: []\n"]
)
def test_null_is_the_same_as_an_absent_field(folder: Path, text: str) -> None:
    assert read(folder, text).settings == Settings()


@pytest.mark.parametrize(
    ("server", "lines"),
    [
        ("{port: 1, opsPort: 2}", []),
        ("{tlsKey: k}", ["3:18: server.tlsCert and server.tlsKey must be given together"]),
        ("{limits: {}, context: c}", ["3:31: server.kubeconfig and server.context require server.syncCaBundle"]),
        (
            "{port: 8080, allowClient: [a]}",
            [
                "3:16: server.port and server.opsPort are both 8080: use two different ports, or 0 for no ops port",
                "3:35: server.allowClient requires server.clientCa",
            ],
        ),
    ],
)
def test_inconsistent_settings(folder: Path, server: str, lines: list[str]) -> None:
    configuration = read(folder, f"server: {server}\n")
    found = []
    try:
        configuration.check_settings()
    except ConfigurationError as error:
        found = str(error).splitlines()
    assert found == [f"{folder}/webhooks.yaml:{line}" for line in lines]


def test_the_place_of_settings_that_are_not_in_the_file(folder: Path) -> None:
    configuration = read(folder, "")
    object.__setattr__(configuration, "settings", Settings(context="c"))
    with pytest.raises(ConfigurationError, match=r"webhooks\.yaml:1:1: server\.kubeconfig and server\.context require"):
        configuration.check_settings()


# Where policies are.


@pytest.mark.parametrize(
    ("use", "names"),
    [
        ("policies.py", ["labelled", "marked", "reads", "tokens", "images"]),
        (".", ["labelled", "marked", "reads", "tokens", "images"]),
        ("policies.py:marked", ["marked"]),
        ("./policies.py:reads", ["reads"]),
        ("library:privileged", ["privileged"]),
        ("{}/policies.py:images", ["images"]),
    ],
)
def test_uses(folder: Path, use: str, names: list[str]) -> None:
    (folder / "policies.py").write_text(POLICIES.replace("label: str,", 'label: str = "owner",'))
    assert list(load(folder, f"policies: [{{use: '{use.format(folder)}'}}]\n")) == names


def test_policies_of_installed_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "site" / "company_policies"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "pods.py").write_text(POLICIES)
    (package / "raising.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert load_one(folder, "company_policies.pods:reads").name == "reads"
    uses = ["pods:mark", "pods:Allow", "other:reads", "raising:reads"]
    lines = errors(folder, "policies:\n" + "".join(f"- use: company_policies.{use}\n" for use in uses))
    assert [line.partition(": company")[0] for line in lines] == [
        f"webhooks.yaml:{number + 4}:8: policies[{number}].use: Invalid value" for number in (1, 2, 3)
    ]


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert load_one(folder, "policies.py:reads").name == "reads"


def test_paths_of_policies(folder: Path) -> None:
    uses = ["policies.py", "nothing", "policies.py:reads", "library:privileged", "package.module:policy"]
    entries = "".join(f"- use: {use}\n" for use in uses)
    assert read(folder, f"policies:\n{entries}").policy_paths == [
        folder / "policies.py",
        folder / "nothing",
        folder / "policies.py",
    ]


# Errors.


@pytest.mark.parametrize("file", sorted(INVALID.glob("*.yaml")), ids=lambda file: file.stem)
def test_all_errors_are_reported_with_their_places(folder: Path, file: Path) -> None:
    """The file next to each of these has its errors."""
    (folder / "raises.py").write_text("import webhooks\nraise ValueError('no')\n")
    (folder / "imports.py").write_text("import absent\n")
    (folder / "syntax.py").write_text("def def\n")
    (folder / "empty.py").write_text("")
    (folder / "nothing").mkdir()
    found = errors(folder, file.read_text().removeprefix(HEAD))
    expected = file.with_suffix(".txt").read_text().splitlines()
    assert [line.removeprefix("webhooks.yaml:") for line in found] == expected


@pytest.mark.parametrize("use", ["a" * 5000, "a" * 500 + ".py", "a/" * 500, "pipe.py", "pipes"])
def test_paths_that_cannot_be_read(folder: Path, use: str) -> None:
    os.mkfifo(folder / "pipe.py")
    (folder / "pipes").mkdir()
    os.mkfifo(folder / "pipes" / "a.py")
    [line] = errors(folder, f"policies: [{{use: '{use}'}}]\n")
    assert line.startswith("webhooks.yaml:3:18: policies[0].use: Invalid value: ")


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n", "a: &a [*a]\n", "a: !!python/object:os.system {}\n", "[" * 200])
def test_files_that_are_not_configurations(folder: Path, text: str) -> None:
    file = folder / "webhooks.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"webhooks\.yaml:"):
        config_file.read(file)


def test_a_policy_file_is_not_a_configuration(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"policies\.py: a policy file, not a configuration: .*--policies"):
        config_file.read(folder / "policies.py")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("library: privileged", "policies[0].library: Forbidden: unknown field; use: library:NAME"),
        ("{use: policies.py, name: a b}", 'policies[0].name: Invalid value: "a b": use letters, digits, '),
        ("{use: policies.py:labelled, parameters: {exemptImages: a}}", '"a": must be a list, not a string: write [a]'),
    ],
)
def test_remedies(folder: Path, entry: str, message: str) -> None:
    assert message in "\n".join(errors(folder, f"policies:\n- {entry}\n"))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_KEYS = st.sampled_from(["use", "name", "parameters", "match", "mode", "onError", "timeout", "exemptions"])


@given(st.dictionaries(st.sampled_from(["server", "policies"]), _VALUES | st.lists(st.dictionaries(_KEYS, _VALUES))))
def test_any_values_are_accepted_or_rejected(tree: Any) -> None:
    head = {"apiVersion": "webhooks.svc.io/v1alpha1", "kind": "WebhookConfiguration"}
    message = "w.yaml:"
    try:
        document = strict_yaml.parse(json.dumps({**head, **tree}).encode(), Path("w.yaml"))
        document.read(WebhookConfiguration, Path())
    except ConfigurationError as error:
        message = str(error)
    assert message.startswith("w.yaml:")


def test_policies_are_required(folder: Path) -> None:
    empty, full = Registry([]), Registry([load_one(folder, "policies.py:reads")])
    assert config_file.require_policies(full, None) is full
    with pytest.raises(ConfigurationError, match="no policies: add at least one"):
        config_file.require_policies(empty, None)
    with pytest.raises(ConfigurationError, match=r"^a\.yaml: no policies: "):
        config_file.require_policies(empty, Path("a.yaml"))


def test_expired_exemptions(folder: Path) -> None:
    exemptions = (
        '  exemptions: [{names: [a], reason: moved, expires: "2020-01-31T12:00:00+02:00"}, {names: [b], reason: c}]'
    )
    policy = load_one(folder, "library:privileged", exemptions)
    [line] = config_file.expired_exemptions([policy])
    assert line == "policy privileged: an exemption expired 2020-01-31 10:00 UTC (moved): remove it"

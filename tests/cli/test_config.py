"""Tests of ``webhooks check`` and ``webhooks schema``."""

import json
from pathlib import Path

import pytest

from webhooks.settings import Limits, Settings, options

from .test_main import run

HEAD = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
POLICIES = """\
from webhooks import Replace, mutating

@mutating("pods")
def marked(review):
    return Replace(review.object)
"""
PLUGINS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 1, burst: 1}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "policies.py").write_text(POLICIES)
    return tmp_path / "webhooks.yaml"


def test_a_valid_file(file: Path) -> None:
    file.write_text(HEAD + "policies:\n- use: policies.py:marked\n- {use: 'library:privileged', mode: warn}\n")
    result = run("check", str(file))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "mutating        marked\nvalidating      privileged (warn)\n"


def test_the_output_of_policies_goes_to_standard_error(file: Path) -> None:
    file.with_name("policies.py").write_text(f"print('loaded')\n{POLICIES}")
    file.write_text(HEAD + "policies: [{use: policies.py:marked}]\n")
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (0, "mutating        marked\n")
    assert "loaded\n" in result.stderr


def test_expired_exemptions(file: Path) -> None:
    entry = "{use: 'library:privileged', exemptions: [{names: [a], reason: b, expires: 2020-01-01}]}"
    file.write_text(HEAD + f"policies: [{entry}]\n")
    result = run("check", str(file))
    assert result.exit_code == 0
    assert result.stderr.startswith("webhooks: policy privileged: an exemption expired 2020-01-01 00:00 UTC (b)")


def test_errors(file: Path) -> None:
    file.write_text(HEAD + "policies: [{use: a.py}]\n")
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"webhooks: {file}:3:18: policies[0].use: Invalid value: {file.parent}/a.py: ")
    assert run("check", str(file.with_name("nothing"))).exit_code == 2


@pytest.mark.parametrize("text", ["", "policies: []\n"])
def test_no_policies(file: Path, text: str) -> None:
    file.write_text(HEAD + text)
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr
        == f"webhooks: {file}: no policies: add at least one, because a server without policies allows everything\n"
    )


def test_policies_of_plugins(file: Path) -> None:
    file.with_name("limits.yaml").write_text(PLUGINS)
    file.write_text(HEAD + "server: {admissionConfig: limits.yaml}\n")
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (0, "validating      event_rate_limit\n")


def test_the_schema_has_every_setting() -> None:
    schema = json.loads(run("schema").stdout)
    definitions = schema["$defs"]
    assert set(schema["properties"]) == {"apiVersion", "kind", "server", "policies"}
    names = {field.name for field, _ in options(Settings)} - {"config", "policies"}
    assert {to_camel(name) for name in names} | {"limits"} == set(definitions["Server"]["properties"])
    assert {to_camel(field.name) for field, _ in options(Limits)} == set(definitions["Limits"]["properties"])
    for definition in definitions.values():
        for name, field in definition["properties"].items():
            assert field.get("description"), name


def to_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)

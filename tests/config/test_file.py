"""Configurations: what they say of a server and of its policies, and everything that can be wrong with them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks import Allow, Deny, NoOpinion
from webhooks.config import file as configured
from webhooks.config import strict_yaml
from webhooks.errors import ConfigurationError
from webhooks.policy.model import Policy
from webhooks.settings import Limits, Settings

from ..support.builders import access_review, admission_review, decide, image_review, pod

BAD = Path(__file__).parents[1] / "data" / "configurations"
HEAD = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
POLICIES = """\
from webhooks import *


@validating("pods", "apps/deployments", operations=["CREATE", "UPDATE"], timeout=3)
def labelled(review, *, label: str, exempt_images: list[str] = [], maxAge: int = 1):
    return Deny(f"no label {label}") if label not in review.labels else Allow()


@mutating("pods", name="marked", isolation=True)
def mark(review, *, text: str = "yes"):
    pod = review.object
    pod["metadata"]["labels"] = {"mark": text}
    return Replace(pod)


@authorizing("pods", "secrets", paths=["/metrics", "/healthz"])
def reads(access):
    return Deny("no")


@authenticating
def tokens(token):
    return NoOpinion()


@image_policy
def images(review):
    return Deny("no")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies.py").write_text(POLICIES)
    return tmp_path


def configuration(folder: Path, text: str) -> configured.Configuration:
    file = folder / "webhooks.yaml"
    file.write_text(HEAD + text)
    return configured.read(file)


def load(folder: Path, text: str) -> dict[str, Policy[Any, Any]]:
    return {policy.name: policy for policy in configuration(folder, text).load()}


def refusal(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(folder, text)
    return str(raised.value).replace(f"{folder}/", "").splitlines()


def one(folder: Path, use: str, more: str = "") -> Policy[Any, Any]:
    [policy] = load(folder, f"policies:\n- use: {use}\n{more}").values()
    return policy


# Settings.


def test_without_any_a_server_is_as_without_a_configuration(folder: Path) -> None:
    read = configuration(folder, "")
    assert read.settings == Settings()
    assert read.load() == []


def test_every_setting_can_be_said(folder: Path) -> None:
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
    read = configuration(folder, server).settings
    assert read == Settings(
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
    said = set(read.__dict__) - {"config", "policies"}
    assert all(getattr(read, name) != getattr(Settings(), name) for name in said), "one of them has its default"


def test_no_ops_port(folder: Path) -> None:
    assert configuration(folder, "server: {opsPort: 0}").settings.ops_port is None


@pytest.mark.parametrize(
    "text", ["server:\npolicies:\n", "server: {port: null, limits: null}\n", "server: {}\npolicies: []\n"]
)
def test_null_is_the_same_as_nothing(folder: Path, text: str) -> None:
    assert configuration(folder, text).settings == Settings()


# Policies: where they are.


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
def test_where_policies_are(folder: Path, use: str, names: list[str]) -> None:
    """One that lacks a parameter is left out of what this table says of itself."""
    if "labelled" in names:
        text = POLICIES.replace("label: str,", 'label: str = "owner",')
        (folder / "policies.py").write_text(text)
    assert list(load(folder, f"policies: [{{use: '{use.format(folder)}'}}]\n")) == names


def test_policies_of_installed_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = folder / "site" / "company_policies"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "pods.py").write_text(POLICIES)
    (package / "broken.py").write_text("import nothing_of_that_name\n")
    (package / "raising.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert one(folder, "company_policies.pods:reads").name == "reads"
    uses = ["pods:mark", "pods:Allow", "pods:other", "other:reads", "broken:reads", "raising:reads"]
    assert refusal(folder, "policies:\n" + "".join(f"- use: company_policies.{use}\n" for use in uses)) == [
        "webhooks.yaml:5:8: policies[1].use: Invalid value: company_policies.pods:Allow: expected a policy, not a "
        "StructMeta: decorate a function",
        "webhooks.yaml:6:8: policies[2].use: Invalid value: company_policies.pods:other: the module has "
        "no policy other",
        "webhooks.yaml:7:8: policies[3].use: Invalid value: company_policies.other:reads: no module "
        "company_policies.other: install its package beside webhooks",
        "webhooks.yaml:8:8: policies[4].use: Invalid value: company_policies.broken:reads: no module "
        "nothing_of_that_name: install its package beside webhooks",
        "webhooks.yaml:9:8: policies[5].use: Invalid value: company_policies.raising:reads: the module cannot be "
        "imported: ZeroDivisionError: division by zero",
    ]


def test_paths_begin_at_the_file_wherever_one_stands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert one(folder, "policies.py:reads").name == "reads"


def test_one_file_twice_under_two_names(folder: Path) -> None:
    entry = "{{use: 'policies.py:marked', isolation: false, name: {name}, parameters: {{text: {name}}}}}"
    found = load(folder, f"policies: [{entry.format(name='a')}, {entry.format(name='b')}]\n")
    verdict = decide(admission_review(obj=pod()), *found.values())
    assert verdict.patch == b'[{"op":"add","path":"/metadata/labels","value":{"mark":"b"}}]'


# Policies: what is said of them.


@pytest.mark.parametrize("name", ["exempt_images", "exemptImages", "exempt-images", "exemptimages"])
def test_parameters_in_any_spelling(folder: Path, name: str) -> None:
    policy = one(folder, "policies.py:labelled", f"  parameters: {{label: a, {name}: [b], maxAge: 3}}")
    assert policy.parameters == {"label": "a", "exempt_images": ["b"], "maxAge": 3}
    assert policy.operator_parameters == policy.parameters


def test_what_is_said_stands_over_what_the_author_said(folder: Path) -> None:
    said = "  parameters: {label: a}\n  timeout: 500ms\n  onError: allow\n  isolation: true\n"
    said += "  mode: audit\n  name: other\n"
    policy = one(folder, "policies.py:labelled", said)
    assert (policy.name, policy.timeout, policy.on_error, policy.isolation, policy.mode) == (
        "other",
        0.5,
        "allow",
        True,
        "audit",
    )
    assert policy.origin.name == "labelled"


def test_what_is_not_said_stays_as_the_author_said(folder: Path) -> None:
    policy = one(folder, "policies.py:labelled", "  parameters: {label: a}")
    assert (policy.timeout, policy.on_error, policy.isolation, policy.mode) == (3, None, False, "enforce")
    assert one(folder, "policies.py:marked").isolation is True
    assert one(folder, "policies.py:marked", "  isolation: false").isolation is False


WEB = pod(labels={"tier": "front"})


@pytest.mark.parametrize(
    ("match", "review", "asked"),
    [
        ("{}", admission_review(obj=WEB), True),
        ("{resources: [pods]}", admission_review(obj=WEB), True),
        ("{resources: [apps/deployments]}", admission_review(obj=WEB), False),
        ("{resources: ['apps/*']}", admission_review(obj=WEB), False),
        ("{resources: ['*/*']}", admission_review(obj=WEB, resource="v1/services"), False),
        ("{operations: [UPDATE]}", admission_review(obj=WEB), False),
        ("{operations: ['*']}", admission_review("DELETE", old=WEB), False),
        ("{operations: [UPDATE, DELETE]}", admission_review("DELETE", old=WEB), False),
        ("{namespaces: [team-*]}", admission_review(obj=WEB), True),
        ("{namespaces: [other]}", admission_review(obj=WEB), False),
        ("{namespaces: [team-*], excludeNamespaces: [team-a]}", admission_review(obj=WEB), False),
        ("{excludeNamespaces: [team-a]}", admission_review(obj=WEB), False),
        ("{excludeNamespaces: [team-?]}", admission_review(obj=WEB, namespace="team-aa"), True),
        ("{names: [web]}", admission_review(obj=WEB), True),
        ("{names: [w?b, other]}", admission_review(obj=WEB, name="wide"), False),
        ("{objectSelector: {matchLabels: {tier: front}}}", admission_review(obj=WEB), True),
        ("{objectSelector: {matchLabels: {tier: back}}}", admission_review(obj=WEB), False),
        ("{users: [jane]}", admission_review(obj=WEB), True),
        ("{users: [joe]}", admission_review(obj=WEB), False),
        ("{groups: [dev]}", admission_review(obj=WEB), True),
        ("{groups: [ops]}", admission_review(obj=WEB), False),
    ],
)
def test_admission_policies_are_narrowed(folder: Path, match: str, review: Any, asked: bool) -> None:
    policy = one(folder, "policies.py:labelled", f"  parameters: {{label: x}}\n  match: {match}")
    assert isinstance(decide(review, policy).outcome, Deny if asked else Allow)


READ = {"verb": "get", "resource": "pods", "namespace": "team-a"}


@pytest.mark.parametrize(
    ("match", "review", "asked"),
    [
        ("{}", access_review(**READ), True),
        ("{verbs: [get]}", access_review(**READ), True),
        ("{verbs: [list]}", access_review(**READ), False),
        ("{resources: [secrets]}", access_review(**READ), False),
        ("{excludeNamespaces: [team-a]}", access_review(**READ), False),
        ("{users: [jane], groups: [dev]}", access_review(**READ), True),
        ("{users: [joe]}", access_review(**READ), False),
        ("{names: [web]}", access_review(**READ, name="other"), False),
        ("{verbs: [get]}", access_review(nonResourceAttributes={"path": "/metrics", "verb": "get"}), True),
        ("{paths: [/metrics]}", access_review(nonResourceAttributes={"path": "/metrics", "verb": "get"}), True),
        ("{paths: [/metrics]}", access_review(nonResourceAttributes={"path": "/healthz", "verb": "get"}), False),
        ("{paths: [/metrics]}", access_review(**READ), False),
        ("{resources: [pods]}", access_review(nonResourceAttributes={"path": "/metrics", "verb": "get"}), False),
    ],
)
def test_authorizers_are_narrowed(folder: Path, match: str, review: Any, asked: bool) -> None:
    policy = one(folder, "policies.py:reads", f"  match: {match}")
    assert isinstance(decide(review, policy).outcome, Deny if asked else NoOpinion)


@pytest.mark.parametrize(
    ("match", "asked"), [("{namespaces: [team-a]}", True), ("{excludeNamespaces: [team-a]}", False)]
)
def test_image_policies_are_narrowed(folder: Path, match: str, asked: bool) -> None:
    policy = one(folder, "policies.py:images", f"  match: {match}")
    assert isinstance(decide(image_review("a"), policy).outcome, Deny if asked else Allow)


def test_exemptions(folder: Path) -> None:
    said = """\
  parameters: {label: x}
  exemptions:
  - namespaces: [team-a]
    names: [web]
    users: [jane]
    images: [registry.k8s.io/*]
    reason: moving
    expires: 9999-01-31
  - {names: [old], reason: was moved, expires: "2020-01-31T12:00:00+02:00"}
"""
    policy = one(folder, "policies.py:labelled", said)
    assert decide(admission_review(obj=pod()), policy).outcome == Allow(
        warnings=[], audit={"labelled.exempted": "moving"}
    )
    assert isinstance(decide(admission_review(obj=pod(), name="old"), policy).outcome, Deny)
    assert list(configured.expired_exemptions([policy])) == [
        "policy labelled: an exemption expired 2020-01-31 10:00 UTC (was moved): remove it"
    ]


# What can be wrong.


@pytest.mark.parametrize("bad", sorted(BAD.glob("*.yaml")), ids=lambda file: file.stem)
def test_everything_that_is_wrong_is_told_at_once_with_its_place(folder: Path, bad: Path) -> None:
    """What is told of each of these files stands beside it."""
    (folder / "raises.py").write_text("import webhooks\nraise ValueError('no')\n")
    (folder / "imports.py").write_text("import absent\n")
    (folder / "syntax.py").write_text("def def\n")
    (folder / "empty.py").write_text("")
    (folder / "nothing").mkdir()
    told = refusal(folder, bad.read_text().removeprefix(HEAD))
    assert [line.removeprefix("webhooks.yaml:") for line in told] == bad.with_suffix(".txt").read_text().splitlines()


@pytest.mark.parametrize("expires", ["0001-01-01T00:00:00+23:59", "2020W05T12", "2027-01-31T12:00:00", "31.1.2027"])
def test_moments_that_are_none(folder: Path, expires: str) -> None:
    entry = f'{{use: "library:privileged", exemptions: [{{names: [a], reason: b, expires: "{expires}"}}]}}'
    [line] = refusal(folder, f"policies: [{entry}]\n")
    assert "exemptions[0].expires: Invalid value" in line


@pytest.mark.parametrize("use", ["a" * 5000, "a" * 500 + ".py", "a/" * 500, "pipe.py", "pipes"])
def test_places_that_are_none(folder: Path, use: str) -> None:
    os.mkfifo(folder / "pipe.py")
    (folder / "pipes").mkdir()
    os.mkfifo(folder / "pipes" / "a.py")
    [line] = refusal(folder, f"policies: [{{use: '{use}'}}]\n")
    assert line.startswith("webhooks.yaml:3:18: policies[0].use: Invalid value: ")


def test_a_reason_is_a_line(folder: Path) -> None:
    entry = '{names: [a], reason: "two\\nlines \\e[31m", expires: 2020-01-01}'
    policy = one(folder, "library:privileged", f"  exemptions: [{entry}]")
    assert policy.exemptions[0].reason == "two lines [31m"


@pytest.mark.parametrize("text", ["", "a: [", "- 1\n", "a: &a [*a]\n", "a: !!python/object:os.system {}\n", "[" * 200])
def test_what_is_no_configuration_at_all(folder: Path, text: str) -> None:
    file = folder / "webhooks.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"webhooks\.yaml:"):
        configured.read(file)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_KEYS = st.sampled_from(["use", "name", "parameters", "match", "mode", "onError", "timeout", "exemptions"])


@given(st.dictionaries(st.sampled_from(["server", "policies"]), _VALUES | st.lists(st.dictionaries(_KEYS, _VALUES))))
def test_whatever_is_in_it_is_a_configuration_or_a_mistake(tree: Any) -> None:
    head = {"apiVersion": "webhooks.svc.io/v1alpha1", "kind": "WebhookConfiguration"}
    told = "w.yaml:"
    try:
        document = strict_yaml.parse(json.dumps({**head, **tree}).encode(), Path("w.yaml"))
        document.read(configured.WebhookConfiguration, Path())
    except ConfigurationError as error:
        told = str(error)
    assert told.startswith("w.yaml:")

"""Tests of policies as a configuration file configures them."""

from pathlib import Path
from typing import Any

import pytest

from webhooks import Allow, Deny, NoOpinion
from webhooks.config.policies import find_parameter, set_parameter

from ..support.builders import access_review, admission_review, decide, image_review, pod
from ..support.configurations import load, load_one

WEB = pod(labels={"tier": "front"})
READ = {"verb": "get", "resource": "pods", "namespace": "team-a"}


def test_a_policy_can_be_listed_twice(folder: Path) -> None:
    entry = "{{use: 'policies.py:marked', isolation: false, name: {name}, parameters: {{text: {name}}}}}"
    policies = load(folder, f"policies: [{entry.format(name='a')}, {entry.format(name='b')}]\n")
    verdict = decide(admission_review(obj=pod()), *policies.values())
    assert verdict.patch == b'[{"op":"add","path":"/metadata/labels","value":{"mark":"b"}}]'


@pytest.mark.parametrize("name", ["exempt_images", "exemptImages", "exempt-images", "exemptimages"])
def test_names_of_parameters(folder: Path, name: str) -> None:
    policy = load_one(folder, "policies.py:labelled", f"  parameters: {{label: a, {name}: [b], maxAge: 3}}")
    assert policy.parameters == {"label": "a", "exempt_images": ["b"], "maxAge": 3}
    assert policy.operator_parameters == policy.parameters
    assert find_parameter(policy, name) == "exempt_images"
    assert find_parameter(policy, "images") is None


def test_values_of_parameters_are_copies(folder: Path) -> None:
    policy, value = load_one(folder, "policies.py:labelled", "  parameters: {label: a}"), ["b"]
    configured = set_parameter(policy, "exempt_images", value)
    value.append("c")
    assert configured.parameters["exempt_images"] == configured.operator_parameters["exempt_images"] == ["b"]
    configured.parameters["exempt_images"].append("d")
    assert configured.operator_parameters["exempt_images"] == ["b"]
    with pytest.raises(ValueError, match="must be an integer"):
        set_parameter(policy, "maxAge", "old")


def test_the_operator_overrides_the_author(folder: Path) -> None:
    fields = "  parameters: {label: a}\n  timeout: 500ms\n  onError: allow\n  isolation: true\n"
    fields += "  mode: audit\n  name: other\n"
    policy = load_one(folder, "policies.py:labelled", fields)
    assert policy.name == "other"
    assert (policy.timeout, policy.on_error, policy.isolation, policy.mode) == (0.5, "allow", True, "audit")
    assert policy.origin.name == "labelled"


def test_other_values_of_the_author_are_kept(folder: Path) -> None:
    policy = load_one(folder, "policies.py:labelled", "  parameters: {label: a}")
    assert (policy.timeout, policy.on_error, policy.isolation, policy.mode) == (3, None, False, "enforce")
    assert load_one(folder, "policies.py:marked").isolation is True
    assert load_one(folder, "policies.py:marked", "  isolation: false").isolation is False


@pytest.mark.parametrize(
    ("match", "review", "runs"),
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
def test_match_of_admission_policies(folder: Path, match: str, review: Any, runs: bool) -> None:
    policy = load_one(folder, "policies.py:labelled", f"  parameters: {{label: x}}\n  match: {match}")
    assert isinstance(decide(review, policy).outcome, Deny if runs else Allow)


@pytest.mark.parametrize(
    ("match", "review", "runs"),
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
def test_match_of_authorizing_policies(folder: Path, match: str, review: Any, runs: bool) -> None:
    policy = load_one(folder, "policies.py:reads", f"  match: {match}")
    assert isinstance(decide(review, policy).outcome, Deny if runs else NoOpinion)


@pytest.mark.parametrize(
    ("match", "runs"), [("{namespaces: [team-a]}", True), ("{excludeNamespaces: [team-a]}", False)]
)
def test_match_of_image_policies(folder: Path, match: str, runs: bool) -> None:
    policy = load_one(folder, "policies.py:images", f"  match: {match}")
    assert isinstance(decide(image_review("a"), policy).outcome, Deny if runs else Allow)


def test_exemptions(folder: Path) -> None:
    fields = """\
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
    policy = load_one(folder, "policies.py:labelled", fields)
    exempt = Allow(warnings=[], audit={"labelled.exempted": "moving"})
    assert decide(admission_review(obj=pod()), policy).outcome == exempt
    assert isinstance(decide(admission_review(obj=pod(), name="old"), policy).outcome, Deny)

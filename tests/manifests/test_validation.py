"""Manifests that are rejected, and the messages."""

from dataclasses import replace
from typing import Any

import pytest

from webhooks import NoOpinion, TokenReview, authenticating, bundled
from webhooks.errors import ConfigurationError
from webhooks.manifests.render import admission_webhooks
from webhooks.manifests.target import Target, Version
from webhooks.manifests.validation import validate
from webhooks.policy.model import Policy

from ..support.manifest_policies import admission_policy

LOCALHOST = Target(reached_by="localhost", url="https://127.0.0.1:8443")
OLD = Target(version=Version(1, 27))
PODS = admission_policy("pods")


def test_bundled_policies_are_named_as_in_options() -> None:
    assert errors(Target(), bundled("protect_namespaces")).startswith("library:protect_namespaces: policy ")


@authenticating
def tokens(review: TokenReview) -> NoOpinion:
    return NoOpinion()


def errors(target: Target, *policies: Policy[Any, Any]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        validate(admission_webhooks(policies, target), policies, target)
    return str(raised.value)


@pytest.mark.parametrize(
    ("policies", "target"),
    [
        ([PODS], Target()),
        ([tokens], LOCALHOST),
        ([admission_policy()], Target()),
        ([admission_policy()], replace(OLD, failure_policy="Ignore")),
        ([admission_policy("nodes", operations=["DELETE"])], OLD),
        ([admission_policy(namespaces=["kube-system", "a"])], Target()),
        ([PODS], Target(included_namespaces=("kube-system",), failure_policy="Ignore")),
        ([PODS], replace(LOCALHOST, static=True, ca_bundle=b"PEM")),
    ],
)
def test_safe_manifests(policies: list[Policy[Any, Any]], target: Target) -> None:
    validate(admission_webhooks(policies, target), policies, target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target(version=Version(1, 15)), "--cluster-version 1.15: the oldest supported version is 1.19"),
        (
            replace(LOCALHOST, static=True, ca_bundle=b"PEM", version=Version(1, 35)),
            "requires Kubernetes 1.36 or later",
        ),
        (Target(static=True, ca_bundle=b"PEM"), "--static: webhook configurations in files cannot use a Service"),
        (replace(LOCALHOST, static=True), "--static: no program sets caBundle in files"),
        (Target(failure_policies={"two": "Ignore"}), "--failure-policy two=...: there is no policy with this name"),
        (Target(included_namespaces=("default",)), "--include-namespace default: not an exempt namespace"),
        (
            replace(LOCALHOST, included_namespaces=("webhooks",)),
            "--include-namespace webhooks: not an exempt namespace; these are: kube-node-lease, kube-",
        ),
        (Target(exempt_namespaces=("a",), included_namespaces=("a",)), "--exempt-namespace a are mutually exclusive"),
        (Target(exempt_namespaces=("Bad Name!",)), "--exempt-namespace 'Bad Name!': not a valid namespace"),
        (Target(namespace="a.b"), "--namespace 'a.b': not a valid namespace"),
        (Target(name="My_Name"), "--name 'My_Name': not a valid name"),
        (Target(name="a" * 64), "not a valid name"),
    ],
)
def test_invalid_targets(target: Target, message: str) -> None:
    assert message in errors(target, PODS)


@pytest.mark.parametrize(
    ("policy", "target", "message"),
    [
        (
            tokens,
            Target(),
            "policy 'tokens': API servers find authenticating policies by their flags, which cannot name a Service: "
            "give --url or --reached-by localhost, or only admission: --only webhook-configurations",
        ),
        (admission_policy("pods", side_effects="some"), Target(), "it has side effects on dry runs"),
        (
            PODS,
            Target(included_namespaces=("kube-system",)),
            "--include-namespace kube-system: with failurePolicy Fail no pod could start there while the server does "
            "not respond, and the cluster starts from there",
        ),
        (PODS, Target(included_namespaces=("webhooks",)), "and the server runs there"),
        (admission_policy(), OLD, "no node becomes ready, and the server never starts"),
        (admission_policy("nodes"), OLD, "no node becomes ready, and the server never starts"),
        (admission_policy("crd.projectcalico.org/*"), OLD, "no node becomes ready"),
        (
            admission_policy("pods", namespaces=["kube-system"]),
            Target(),
            "it matches only exempt namespaces, so it would never be called: kube-system",
        ),
        (
            admission_policy("pods", timeout=15),
            Target(timeout=10),
            "--timeout 10: validate.webhooks.svc.io: its policies may take 15 s (policy 15 s), but this leaves them "
            "9.5 s: give --timeout 16",
        ),
        (admission_policy("pods", timeout=30), Target(), "API servers wait for at most 30 s"),
        (PODS.with_name("_"), Target(per_policy=True), "its webhook would have the invalid name"),
    ],
)
def test_unsafe_and_invalid_policies(policy: Policy[Any, Any], target: Target, message: str) -> None:
    assert message in errors(target, policy)


def test_names_of_webhooks_are_unique() -> None:
    policies = PODS.with_name("a_b"), PODS.with_name("a-b")
    assert "would have the same name as that of policy 'a_b'" in errors(Target(per_policy=True), *policies)


def test_all_errors_are_reported_once() -> None:
    target = Target(name="My_Name", namespace="a.b", per_policy=True, included_namespaces=("kube-system",))
    policies = PODS, admission_policy("services").with_name("other")
    lines = errors(target, *policies).splitlines()
    assert len(lines) == len(set(lines)) == 3

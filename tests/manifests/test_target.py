"""Targets of manifests."""

import pytest

from webhooks.manifests.target import SYSTEM_NAMESPACES, Target, Version

from ..support.manifest_policies import admission_policy


@pytest.mark.parametrize(
    ("target", "exempt"),
    [
        (Target(), (*SYSTEM_NAMESPACES, "webhooks")),
        (Target(namespace="mine"), (*SYSTEM_NAMESPACES, "mine")),
        (Target(reached_by="localhost"), SYSTEM_NAMESPACES),
        (Target(exempt_namespaces=("calico-system",)), ("calico-system", *SYSTEM_NAMESPACES, "webhooks")),
        (Target(included_namespaces=("kube-public", "webhooks")), ("kube-node-lease", "kube-system")),
    ],
)
def test_exempt_namespaces(target: Target, exempt: tuple[str, ...]) -> None:
    assert target.all_exempt_namespaces == exempt


def test_service_accounts_of_exempt_namespaces_are_components() -> None:
    assert "system:serviceaccounts:calico-system" in Target(exempt_namespaces=("calico-system",)).component_groups
    assert "system:serviceaccounts:webhooks" not in Target().component_groups


@pytest.mark.parametrize(
    ("target", "options", "failure_policy"),
    [
        (Target(), {}, "Fail"),
        (Target(), {"on_error": "allow"}, "Ignore"),
        (Target(failure_policy="Ignore"), {}, "Ignore"),
        (Target(failure_policy="Fail"), {"on_error": "allow"}, "Fail"),
        (Target(failure_policy="Fail", failure_policies={"policy": "Ignore"}), {}, "Ignore"),
        (Target(failure_policies={"other": "Ignore"}), {}, "Fail"),
    ],
)
def test_failure_policies(target: Target, options: dict[str, str], failure_policy: str) -> None:
    assert target.failure_policy_for(admission_policy(**options)) == failure_policy


def test_versions() -> None:
    assert str(Version(1, 37)) == "1.37"
    assert Version(1, 9) < Version(1, 10)
    assert not Target(version=Version(1, 27)).has_match_conditions
    assert Target(version=Version(1, 28)).has_match_conditions

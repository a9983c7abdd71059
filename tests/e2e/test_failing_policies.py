"""Policies that fail, and several policies that deny."""

import pytest

from .cluster import Cluster
from .kubectl import Kubectl
from .objects import config_map
from .processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SECRET = "hunter2"


def test_a_policy_that_raises_denies_without_details(admin: Kubectl, cluster: Cluster) -> None:
    start = cluster.server.size()
    error = admin.create_error(config_map("raises", labels={"policy": "raises"}))
    assert 'admission webhook "validate.example.com" denied the request' in error
    assert not [word for word in (SECRET, "RuntimeError", "Traceback", "policies.py") if word in error]
    wait_for("the details are in the log", lambda: SECRET in cluster.server.text(start))
    assert "not found" in admin.error("get", "configmap", "raises")


def test_a_policy_that_raises_allows_with_on_error_allow(admin: Kubectl, cluster: Cluster) -> None:
    warnings = admin.create(config_map("raises-openly", labels={"policy": "raises-openly"})).err
    assert "Warning:" in warnings
    assert "raises_openly" in warnings
    assert SECRET not in warnings
    annotations = cluster.await_audit_event("create", "configmaps", "raises-openly")["annotations"]
    assert [key for key in annotations if key.startswith("validate.example.com/") and "raises_openly" in key]


@pytest.mark.parametrize("policy", ["forgets", "dawdles"])
def test_a_policy_without_an_outcome_denies(admin: Kubectl, policy: str) -> None:
    error = admin.create_error(config_map(policy, labels={"policy": policy}))
    assert 'admission webhook "validate.example.com" denied the request' in error


def test_two_denials_are_both_shown(admin: Kubectl) -> None:
    error = admin.create_error(config_map("two", labels={"policy": "two"}))
    assert "denied by the first" in error
    assert "denied by the second" in error

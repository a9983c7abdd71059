"""Policies that go wrong, and several that deny at once."""

import pytest

from .cluster import Cluster
from .kubectl import Kubectl
from .objects import config_map
from .processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SECRET = "hunter2"


def test_a_policy_that_raises_denies_and_tells_no_details(admin: Kubectl, cluster: Cluster) -> None:
    start = cluster.server.size()
    error = admin.create_refused(config_map("raises", labels={"policy": "raises"}))
    assert 'admission webhook "validate.example.com" denied the request' in error
    assert not [word for word in (SECRET, "RuntimeError", "Traceback", "policies.py") if word in error]
    wait_for("the log holds the details", lambda: SECRET in cluster.server.text(start))
    assert "not found" in admin.refused("get", "configmap", "raises")


def test_a_policy_that_raises_may_allow_openly(admin: Kubectl, cluster: Cluster) -> None:
    warned = admin.create(config_map("raises-openly", labels={"policy": "raises-openly"})).err
    assert "Warning:" in warned
    assert "raises_openly" in warned
    assert SECRET not in warned
    annotations = cluster.audited("create", "configmaps", "raises-openly")["annotations"]
    assert [key for key in annotations if key.startswith("validate.example.com/") and "raises_openly" in key]


@pytest.mark.parametrize("policy", ["forgets", "dawdles"])
def test_a_policy_without_an_answer_denies(admin: Kubectl, policy: str) -> None:
    error = admin.create_refused(config_map(policy, labels={"policy": policy}))
    assert 'admission webhook "validate.example.com" denied the request' in error


def test_two_denials_are_both_shown(admin: Kubectl) -> None:
    error = admin.create_refused(config_map("two", labels={"policy": "two"}))
    assert "the first says no" in error
    assert "the second says no" in error

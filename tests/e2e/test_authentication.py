"""Authentication of users by bearer tokens."""

import pytest

from .cluster import Cluster
from .kubectl import Kubectl
from .objects import config_map

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def jane(cluster: Cluster) -> Kubectl:
    return cluster.bearer("jane", "janes-token")


def test_a_token_makes_a_user(jane: Kubectl, cluster: Cluster) -> None:
    jane.create(config_map("janes"))
    user = cluster.await_audit_event("create", "configmaps", "janes")["user"]
    assert user == {
        "username": "jane",
        "uid": "42",
        "groups": ["developers", "system:authenticated"],
        "extra": {"team": ["blue", "green"]},
    }


def test_policies_see_the_user_of_a_token(jane: Kubectl) -> None:
    warned = jane.create(config_map("greets-jane", labels={"greet": "me"})).err
    assert "Warning: hello jane (42) of developers, system:authenticated; team=blue+green" in warned


def test_a_tokens_groups_give_rights(jane: Kubectl) -> None:
    assert jane("auth", "can-i", "create", "configmaps").out.strip() == "yes"
    assert jane.run("auth", "can-i", "create", "clusterroles").out.startswith("no")
    assert "the vault is sealed" in jane.error("get", "secrets", "-n", "vault")


@pytest.mark.parametrize("token", ["unknown-token", "revoked-token"])
def test_other_tokens_are_rejected(cluster: Cluster, token: str) -> None:
    error = cluster.bearer(token, token).error("get", "configmaps")
    assert "You must be logged in to the server (Unauthorized)" in error

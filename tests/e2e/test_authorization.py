"""The authorization webhook before RBAC: it denies or allows; without an opinion, RBAC decides."""

import pytest

from .cluster import Cluster
from .objects import config_map, make_object

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_denial_overrides_rbac(cluster: Cluster) -> None:
    error = cluster.alice.error("get", "secrets", "-n", "vault")
    assert "Error from server (Forbidden)" in error
    assert 'User "alice" cannot list resource "secrets"' in error
    assert "the vault is sealed" in error


def test_without_an_opinion_rbac_allows(cluster: Cluster) -> None:
    cluster.alice("get", "secrets", "-n", "shop")
    cluster.alice("get", "configmaps", "-n", "vault")


def test_a_request_that_neither_allows_is_forbidden(cluster: Cluster) -> None:
    error = cluster.bob.error("get", "secrets", "-n", "shop")
    assert 'secrets is forbidden: User "bob" cannot list resource "secrets"' in error
    assert "the vault is sealed" not in error


def test_an_approval_grants_what_rbac_does_not(cluster: Cluster) -> None:
    cluster.admin.create(config_map("read-by-bob", data={"a": "1"}))
    assert cluster.bob.get("configmap", "read-by-bob")["data"] == {"a": "1"}
    assert 'User "bob" cannot delete' in cluster.bob.error("delete", "configmap", "read-by-bob")


def test_policies_see_groups(cluster: Cluster) -> None:
    for name in ("kept-1", "kept-2"):
        cluster.admin.create(make_object("v1", "Namespace", name, None))
    assert "namespaces are kept" in cluster.alice.error("delete", "namespace", "kept-1", "--wait=false")
    cluster.carol("delete", "namespace", "kept-2", "--wait=false")
    assert cluster.admin.get("namespace", "kept-1")["status"]["phase"] == "Active"
    assert cluster.admin.get("namespace", "kept-2")["status"]["phase"] == "Terminating"


def test_paths_are_authorized_too(cluster: Cluster) -> None:
    assert "apiserver_request_total" in cluster.bob("get", "--raw=/metrics").out
    assert 'User "alice" cannot get path "/metrics"' in cluster.alice.error("get", "--raw=/metrics")


def test_access_reviews_are_answered(cluster: Cluster) -> None:
    assert cluster.alice("auth", "can-i", "list", "secrets", "-n", "shop").out.strip() == "yes"
    denied = cluster.alice.run("auth", "can-i", "list", "secrets", "-n", "vault")
    assert denied.code == 1
    assert denied.out.startswith("no")
    assert "the vault is sealed" in denied.out


def test_requests_of_administrators_are_not_reviewed(cluster: Cluster) -> None:
    cluster.admin("get", "secrets", "-n", "vault")

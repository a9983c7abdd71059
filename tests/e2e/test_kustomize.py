"""A real API server accepts the manifests of deploy/kustomize, and applying them again changes nothing."""

import copy
from collections.abc import Iterator

import pytest

from ..support.kustomize import FOLDERS, KUSTOMIZE, find_object, render
from .cluster import Cluster
from .kubectl import Json, Kubectl
from .objects import make_object, object_list

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Kubectl]:
    """The administrator of an API server with the resources of cert-manager."""
    with cluster.running_api_server() as port:
        admin = cluster.user("admin", "system:masters", port=port)
        for plural, kind in (("certificates", "Certificate"), ("issuers", "Issuer")):
            admin.create(cert_manager_resource(plural, kind))
            admin.retry_until(lambda output: output.code == 0, "get", f"{plural}.cert-manager.io", "--all-namespaces")
        yield admin


def cert_manager_resource(plural: str, kind: str) -> Json:
    """Return the CustomResourceDefinition of a resource of cert-manager, without a schema."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return make_object(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.cert-manager.io", None, spec=spec
    )


def downgrade(obj: Json) -> Json:
    """Return an object in a version of this old API server."""
    if obj["kind"] == "PodDisruptionBudget":
        return {**obj, "apiVersion": "policy/v1beta1"}
    return obj


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_manifests_are_accepted(admin: Kubectl, folder: str) -> None:
    objects = [downgrade(obj) for obj in render(KUSTOMIZE / folder)]
    admin("apply", "-f", "-", body=find_object(objects, "Namespace"))
    admin("apply", "--dry-run=server", "-f", "-", body=object_list(objects))
    admin("apply", "-f", "-", body=object_list(objects))
    lines = admin("apply", "-f", "-", body=object_list(objects)).out.splitlines()
    assert len(lines) == len(objects)
    assert [line for line in lines if not line.endswith(" unchanged")] == []


def test_an_unknown_field_is_rejected(admin: Kubectl) -> None:
    """Otherwise the test above would not prove anything."""
    objects = [copy.deepcopy(obj) for obj in render(KUSTOMIZE / "base")]
    admin("apply", "-f", "-", body=find_object(objects, "Namespace"))
    find_object(objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSecond"] = 65
    error = admin.error("apply", "--dry-run=server", "-f", "-", body=find_object(objects, "Deployment"))
    assert "terminationGracePeriodSecond" in error

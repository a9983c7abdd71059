"""The manifests of deploy/kustomize are taken by a real API server, and once more without a change."""

import copy
from collections.abc import Iterator

import pytest

from ..support.kustomize import FOLDERS, KUSTOMIZE, find_object, render
from .cluster import Cluster
from .kubectl import Json, Kubectl
from .objects import everything, thing

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Kubectl]:
    """Of an API server of their own, which knows what cert-manager brings along."""
    with cluster.beside() as port:
        admin = cluster.user("admin", "system:masters", port=port)
        for plural, kind in (("certificates", "Certificate"), ("issuers", "Issuer")):
            admin.create(certificates(plural, kind))
            admin.until(lambda output: output.code == 0, "get", f"{plural}.cert-manager.io", "--all-namespaces")
        yield admin


def certificates(plural: str, kind: str) -> Json:
    """One of the resources of cert-manager, whose fields are not looked at."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.cert-manager.io", None, spec=spec)


def known(given: Json) -> Json:
    """As this old API server knows it."""
    if given["kind"] == "PodDisruptionBudget":
        return {**given, "apiVersion": "policy/v1beta1"}
    return given


@pytest.mark.parametrize("folder", FOLDERS)
def test_they_are_taken(admin: Kubectl, folder: str) -> None:
    objects = [known(each) for each in render(KUSTOMIZE / folder)]
    admin("apply", "-f", "-", given=find_object(objects, "Namespace"))
    admin("apply", "--dry-run=server", "-f", "-", given=everything(objects))
    admin("apply", "-f", "-", given=everything(objects))
    again = admin("apply", "-f", "-", given=everything(objects)).out.splitlines()
    assert len(again) == len(objects)
    assert [line for line in again if not line.endswith(" unchanged")] == []


def test_what_is_misspelt_is_not_taken(admin: Kubectl) -> None:
    """So that what is taken says something."""
    objects = [copy.deepcopy(each) for each in render(KUSTOMIZE / "base")]
    admin("apply", "-f", "-", given=find_object(objects, "Namespace"))
    find_object(objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSecond"] = 65
    error = admin.refused("apply", "--dry-run=server", "-f", "-", given=find_object(objects, "Deployment"))
    assert "terminationGracePeriodSecond" in error

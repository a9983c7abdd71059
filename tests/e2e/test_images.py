"""The image policy: images that it allows and denies."""

import pytest

from .cluster import Cluster
from .kubectl import Kubectl
from .objects import pod, pod_spec

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FOREIGN = "docker.io/library/nginx:1"


def test_a_foreign_image_is_denied(admin: Kubectl) -> None:
    error = admin.create_error(pod("foreign", image=FOREIGN))
    assert "image policy webhook backend denied one or more images" in error
    assert f"not from our registry in shop: {FOREIGN}" in error
    assert "not found" in admin.error("get", "pod", "foreign")


def test_all_containers_are_checked(admin: Kubectl) -> None:
    body = pod("mixed")
    body["spec"] |= {"initContainers": pod_spec(FOREIGN)["containers"]}
    body["spec"]["initContainers"][0]["name"] = "init"
    assert f"not from our registry in shop: {FOREIGN}" in admin.create_error(body)


def test_an_image_of_the_registry_is_allowed(admin: Kubectl) -> None:
    admin.create(pod("own"))


def test_policies_see_annotations_and_audit_annotations_are_logged(admin: Kubectl, cluster: Cluster) -> None:
    admin.create(pod("ticket", image=FOREIGN, annotations={"e2e.image-policy.k8s.io/ticket": "1234"}))
    annotations = cluster.await_audit_event("create", "pods", "ticket")["annotations"]
    assert annotations["imagepolicywebhook.image-policy.k8s.io/ticket"] == "1234"

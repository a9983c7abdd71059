"""Images that may run, and those that may not."""

import pytest

from .cluster import Cluster
from .kubectl import Kubectl
from .objects import pod, pod_spec

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FOREIGN = "docker.io/library/nginx:1"


def test_a_foreign_image_is_refused(admin: Kubectl) -> None:
    error = admin.create_refused(pod("foreign", image=FOREIGN))
    assert "image policy webhook backend denied one or more images" in error
    assert f"not from our registry in shop: {FOREIGN}" in error
    assert "not found" in admin.refused("get", "pod", "foreign")


def test_every_container_is_looked_at(admin: Kubectl) -> None:
    given = pod("mixed")
    given["spec"] |= {"initContainers": pod_spec(FOREIGN)["containers"]}
    given["spec"]["initContainers"][0]["name"] = "init"
    assert f"not from our registry in shop: {FOREIGN}" in admin.create_refused(given)


def test_our_own_image_may_run(admin: Kubectl) -> None:
    admin.create(pod("own"))


def test_annotations_are_told_to_policies_and_audited(admin: Kubectl, cluster: Cluster) -> None:
    admin.create(pod("ticket", image=FOREIGN, annotations={"e2e.image-policy.k8s.io/ticket": "1234"}))
    annotations = cluster.audited("create", "pods", "ticket")["annotations"]
    assert annotations["imagepolicywebhook.image-policy.k8s.io/ticket"] == "1234"

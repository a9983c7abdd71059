"""Builders return reviews as a server decodes them."""

import pytest

from webhooks import AdmissionReview, Allow, Deny, validating
from webhooks.policy.model import Policy
from webhooks.testing import access, admission, images, pod, token


@validating("pods")
def owner_label(review: AdmissionReview, *, label: str = "owner") -> Allow | Deny:
    return Allow() if label in review.labels else Deny(f"no {label}")


def test_a_policy_can_be_called() -> None:
    assert isinstance(owner_label, Policy)
    assert owner_label(admission("CREATE", pod(labels={"owner": "a"}))) == Allow()
    assert owner_label(admission("CREATE", pod())) == Deny("no owner")
    assert owner_label(admission("CREATE", pod()), label="team") == Deny("no team")


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("v1", "Pod", ("", "v1", "pods")),
        ("apps/v1", "Deployment", ("apps", "v1", "deployments")),
        ("networking.k8s.io/v1", "Ingress", ("networking.k8s.io", "v1", "ingresses")),
        ("networking.k8s.io/v1", "NetworkPolicy", ("networking.k8s.io", "v1", "networkpolicies")),
    ],
)
def test_the_resource_is_derived_from_the_object(api_version: str, kind: str, expected: tuple[str, str, str]) -> None:
    review = admission("CREATE", {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})
    assert (review.resource.group, review.resource.version, review.resource.resource) == expected
    assert review.kind.kind == kind


def test_an_admission_review_has_the_given_fields() -> None:
    old = pod("old", namespace="shop", labels={"a": "b"})
    review = admission("DELETE", old_object=old, user="joe", groups=["ops"], dry_run=True, options={"kind": "X"})
    assert (review.operation, review.object, review.old_object, review.target) == ("DELETE", None, old, old)
    assert (review.name, review.namespace, review.labels) == ("old", "shop", {"a": "b"})
    assert (review.user.username, review.groups, review.dry_run, review.options) == (
        "joe",
        ("ops",),
        True,
        {"kind": "X"},
    )
    assert admission("CONNECT", {}, resource="pods", subresource="exec").subresource == "exec"


def test_other_reviews_have_the_given_fields() -> None:
    access_review = access("delete", "namespaces", name="a", user="joe", groups=["ops"])
    assert (
        access_review.verb,
        access_review.resource,
        access_review.name,
        access_review.user,
        access_review.groups,
    ) == (
        "delete",
        "namespaces",
        "a",
        "joe",
        ("ops",),
    )
    assert (access("get", path="/metrics").is_resource, access("get", path="/metrics").path) == (False, "/metrics")
    assert (token("t", audiences=["a"]).token, token("t", audiences=["a"]).audiences) == ("t", ("a",))
    review = images("nginx", "busybox:1", namespace="shop", annotations={"k": "v"})
    assert (review.images, review.namespace, review.annotations) == (["nginx", "busybox:1"], "shop", {"k": "v"})

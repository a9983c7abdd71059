"""The AdmissionReviews that an API server would send for manifests."""

from typing import Any

import pytest

from webhooks.offline.requests import NotReviewable, RequestBuilder, encode, remove_default_namespace
from webhooks.offline.sources import Manifest

from ..support.builders import admission_body, pod

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
TEAM_POD = {**pod(), "metadata": {"name": "web", "namespace": "team-a"}}


def manifest(tree: Any) -> Manifest:
    return Manifest("f.yaml", 3, tree)


def build(tree: Any, **options: Any) -> dict[str, Any]:
    body: dict[str, Any] = RequestBuilder(**options).build(manifest(tree))["request"]
    return body


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (pod(), {}, {"operation": "CREATE", "namespace": "default", "name": "web", "dryRun": True, "oldObject": None}),
        (pod(), {}, {"userInfo": {"username": "reviewer", "groups": ["system:authenticated"]}}),
        (
            pod(),
            {"user": "jane", "groups": ["dev"]},
            {"userInfo": {"username": "jane", "groups": ["dev", "system:authenticated"]}},
        ),
        (TEAM_POD, {}, {"namespace": "team-a", "resource": {"group": "", "version": "v1", "resource": "pods"}}),
        (NAMESPACE, {}, {"namespace": "x", "name": "x"}),
        (NODE, {}, {"namespace": ""}),
        (DEPLOYMENT, {}, {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "name": ""}),
        (pod(), {"operation": "DELETE"}, {"operation": "DELETE", "object": None}),
    ],
)
def test_requests(tree: Any, options: Any, expected: Any) -> None:
    request = build(tree, **options)
    assert {key: request[key] for key in expected} == expected


def test_stored_objects_are_updated() -> None:
    old = pod(labels={"a": "b"})
    stored = [manifest({**old, "metadata": {**old["metadata"], "namespace": "default"}})]
    updated, created = build(pod(), stored=stored), build(CONFIG_MAP, stored=stored)
    assert (updated["operation"], created["operation"]) == ("UPDATE", "CREATE")
    assert updated["oldObject"]["metadata"]["labels"] == {"a": "b"}
    assert build(pod(), stored=stored, operation="DELETE")["oldObject"] == updated["oldObject"]
    with pytest.raises(NotReviewable, match="not one of the stored objects"):
        build(CONFIG_MAP, stored=stored, operation="UPDATE")


def test_definitions_apply_to_the_manifests_after_them() -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "mice.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Mouse", "plural": "mice"}},
    }
    mouse = {"apiVersion": "example.com/v1", "kind": "Mouse", "metadata": {"name": "a"}}
    requests = RequestBuilder()
    before, _, after = (requests.build(manifest(tree))["request"] for tree in (mouse, definition, mouse))
    assert (before["resource"]["resource"], before["namespace"]) == ("mouses", "default")
    assert (after["resource"]["resource"], after["namespace"]) == ("mice", "")


def test_a_recorded_review_is_not_changed() -> None:
    body = admission_body("CONNECT", {"command": ["sh"]}, subResource="exec", userInfo={"username": "eve"})
    assert RequestBuilder("CREATE", "jane").build(manifest(body)) is body


@pytest.mark.parametrize("value", [2**70, "\ud800"])
def test_values_that_json_does_not_support(value: Any) -> None:
    with pytest.raises(NotReviewable, match="cannot be encoded as JSON"):
        encode({"a": value})


def test_the_default_namespace_is_removed_only_if_it_was_added() -> None:
    added = build(pod())["object"]
    assert added["metadata"]["namespace"] == "default"
    assert remove_default_namespace(manifest(pod()), added) == pod()
    assert remove_default_namespace(manifest(added), added) == added
    assert remove_default_namespace(manifest(TEAM_POD), TEAM_POD) == TEAM_POD
    assert remove_default_namespace(manifest(admission_body(obj=added)), added) == added

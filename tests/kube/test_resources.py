"""Plural names and scopes of kinds."""

import pytest

from webhooks.kube.resources import is_cluster_scoped, plural_name

from ..support.builders import recorded_bodies


@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        ("Pod", "pods"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("StorageClass", "storageclasses"),
        ("Endpoints", "endpoints"),
        ("EndpointSlice", "endpointslices"),
        ("Gateway", "gateways"),
        ("Monkey", "monkeys"),
        ("Mailbox", "mailboxes"),
        ("Batch", "batches"),
        ("Y", "ies"),
    ],
)
def test_plural_names(kind: str, resource: str) -> None:
    assert plural_name(kind) == resource


def test_recorded_requests() -> None:
    """The resource and the scope of every recorded request are those that the kind implies."""
    bodies = recorded_bodies("/mutate", "/validate").values()
    requests = [body["request"] for body in bodies if not body["request"].get("subResource")]
    assert len(requests) > 10
    for request in requests:
        kind = request["kind"]
        assert plural_name(kind["kind"]) == request["resource"]["resource"]
        namespaced = "namespace" in request and kind["kind"] != "Namespace"
        assert is_cluster_scoped(kind["group"], kind["kind"]) != namespaced, kind

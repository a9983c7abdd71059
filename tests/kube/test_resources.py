"""The resources of kinds."""

import pytest

from webhooks.kube.resources import cluster_scoped, plural

from ..support.builders import recorded


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
def test_plural(kind: str, resource: str) -> None:
    assert plural(kind) == resource


def test_what_a_real_server_sent() -> None:
    """Of all that was recorded, the resource and the namespace are those that are made here."""
    bodies = recorded("/mutate", "/validate").values()
    requests = [body["request"] for body in bodies if not body["request"].get("subResource")]
    assert len(requests) > 10
    for request in requests:
        kind = request["kind"]
        assert plural(kind["kind"]) == request["resource"]["resource"]
        namespaced = "namespace" in request and kind["kind"] != "Namespace"
        assert cluster_scoped(kind["group"], kind["kind"]) != namespaced, kind

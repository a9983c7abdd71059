from typing import Any

import pytest

from webhooks.policy.loader import load

from .kinds import check_requests, check_shapes, message, service

[block_node_port] = load(["library:block_node_port"])


@pytest.mark.parametrize("type_", ["ClusterIP", "LoadBalancer", "ExternalName", "", None, "nodeport"])
def test_other_services_are_allowed(type_: Any) -> None:
    assert message(block_node_port, service(type=type_)) is None
    assert message(block_node_port, service()) is None


def test_node_ports_are_denied() -> None:
    bad = service(type="NodePort")
    assert message(block_node_port, bad) == "spec.type: NodePort is not allowed, use ClusterIP"
    check_requests(block_node_port, service(type="ClusterIP"), bad)
    check_shapes(block_node_port, service(), "spec", "type", allowed=("", "x"))
    check_shapes(block_node_port, service(), "spec", allowed=({}, {"x": "y"}))

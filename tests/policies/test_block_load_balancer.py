from typing import Any

import pytest

from webhooks.policy.loader import load

from .kinds import check_requests, check_shapes, message, service

[block_load_balancer] = load(["library:block_load_balancer"])


@pytest.mark.parametrize("type_", ["ClusterIP", "NodePort", "ExternalName", "", None, "loadbalancer"])
def test_other_services_are_allowed(type_: Any) -> None:
    assert message(block_load_balancer, service(type=type_)) is None
    assert message(block_load_balancer, service()) is None


def test_load_balancers_are_denied() -> None:
    bad = service(type="LoadBalancer")
    assert message(block_load_balancer, bad) == "spec.type: LoadBalancer is not allowed, use ClusterIP"
    check_requests(block_load_balancer, service(type="ClusterIP"), bad)
    check_shapes(block_load_balancer, service(), "spec", "type", allowed=("", "x"))
    check_shapes(block_load_balancer, service(), "spec", allowed=({}, {"x": "y"}))

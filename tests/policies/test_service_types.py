from typing import Any

import pytest

from webhooks.policy.loader import load

from .other_objects import check_requests, check_shapes, message, service

[service_types] = load(["library:service_types"])


@pytest.mark.parametrize("type_", ["ClusterIP", "ExternalName", "", None])
def test_internal_services_are_allowed_by_default(type_: Any) -> None:
    assert message(service_types, service(type=type_)) is None
    assert message(service_types, service()) is None


@pytest.mark.parametrize("type_", ["NodePort", "LoadBalancer", "nodeport"])
def test_other_services_are_denied(type_: str) -> None:
    bad = service(type=type_)
    assert message(service_types, bad) == f"spec.type must be ClusterIP or ExternalName, not {type_}"
    check_requests(service_types, service(type="ClusterIP"), bad)


def test_the_allowed_types_are_a_parameter() -> None:
    without_node_ports = service_types.bind(allowed_types=["ClusterIP", "ExternalName", "LoadBalancer"])
    assert message(without_node_ports, service(type="LoadBalancer")) is None
    assert message(without_node_ports, service(type="NodePort"))
    assert (
        message(service_types.bind(allowed_types=[]), service()) == "spec.type must be an allowed type, not ClusterIP"
    )


def test_shapes() -> None:
    check_shapes(service_types, service(), "spec", "type", allowed=("",))
    check_shapes(service_types, service(), "spec", allowed=({}, {"x": "y"}))

from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import (
    check_all_kinds,
    check_containers,
    check_exemptions,
    check_shapes,
    container,
    message,
    pod_spec,
)

[host_network_ports] = load(["library:host_network_ports"])

NETWORK = "hostNetwork must not be true"
PORT = "container app: ports.hostPort must be"


def listening(*ports: Any) -> Json:
    return container(ports=[{"containerPort": 80, "hostPort": port} for port in ports])


CASES: list[tuple[Json, Json, str | None]] = [
    ({}, pod_spec(), None),
    ({}, pod_spec(container(ports=None)), None),
    ({}, pod_spec(container(ports=[])), None),
    ({}, pod_spec(container(ports=[{"containerPort": 80}])), None),
    ({}, pod_spec(listening(0)), None),
    ({}, pod_spec(listening(None)), None),
    ({}, pod_spec(listening(80)), f"{PORT} absent, not 80"),
    (
        {},
        pod_spec(listening(0, 80, 443)),
        f"{PORT} absent, not 80; {PORT} absent, not 443",
    ),
    ({}, pod_spec(hostNetwork=False), None),
    ({}, pod_spec(hostNetwork=None), None),
    ({}, pod_spec(hostNetwork=True), NETWORK),
    ({}, pod_spec(listening(80), hostNetwork=True), f"{NETWORK}; {PORT} absent, not 80"),
    ({"host_network": True}, pod_spec(hostNetwork=True), None),
    (
        {"host_network": True},
        pod_spec(listening(80), hostNetwork=True),
        f"{PORT} absent, not 80",
    ),
    ({"host_network": True, "min": 80, "max": 80}, pod_spec(listening(80), hostNetwork=True), None),
    ({"min": 80, "max": 90}, pod_spec(hostNetwork=True), NETWORK),
    ({"min": 80, "max": 90}, pod_spec(listening(80, 85, 90, 0)), None),
    ({"min": 80, "max": 90}, pod_spec(listening(79)), f"{PORT} in 80-90, not 79"),
    ({"min": 80, "max": 90}, pod_spec(listening(85, 91)), f"{PORT} in 80-90, not 91"),
    ({"min": 80}, pod_spec(listening(65535)), None),
    ({"min": 80}, pod_spec(listening(79)), f"{PORT} in 80-65535, not 79"),
    ({"max": 90}, pod_spec(listening(1)), None),
    ({"max": 90}, pod_spec(listening(91)), f"{PORT} in 0-90, not 91"),
    ({"min": 90, "max": 80}, pod_spec(listening(85)), f"{PORT} absent, not 85"),
    ({"min": 0, "max": 0}, pod_spec(listening(80)), f"{PORT} in 0-0, not 80"),
    ({"min": 0}, pod_spec(listening(-1)), f"{PORT} in 0-65535, not -1"),
]


@pytest.mark.parametrize(("parameters", "spec", "problem"), CASES, ids=repr)
def test_the_network_and_ports_of_the_node(parameters: Json, spec: Json, problem: str | None) -> None:
    assert message(host_network_ports.bind(**parameters), spec) == problem


def test_the_network_is_never_exempt() -> None:
    policy = host_network_ports.bind(exempt_images=["*"])
    assert message(policy, pod_spec(listening(80), hostNetwork=True)) == NETWORK


def test_all_objects_and_containers() -> None:
    check_all_kinds(host_network_ports, pod_spec(), pod_spec(listening(80)))
    check_all_kinds(host_network_ports, pod_spec(), pod_spec(hostNetwork=True))
    check_containers(host_network_ports, container(), listening(80))
    check_exemptions(host_network_ports, listening(80))


def test_another_port_is_another_violation() -> None:
    assert message(host_network_ports, pod_spec(listening(81)), "Deployment", old=pod_spec(listening(80)))


def test_malformed_objects_are_denied() -> None:
    check_shapes(host_network_ports, pod_spec(), "hostNetwork", False)
    check_shapes(host_network_ports, pod_spec(listening(80)), "containers/0/ports", [])
    check_shapes(host_network_ports, pod_spec(listening(80)), "containers/0/ports/0", {}, {"x": "y"})
    check_shapes(host_network_ports, pod_spec(listening(80)), "containers/0/ports/0/hostPort", 0)


@pytest.mark.parametrize("parameters", [{"host_network": 1}, {"min": "80"}, {"max": 80.5}, {"min": True}], ids=repr)
def test_parameters_are_checked(parameters: Json) -> None:
    with pytest.raises(ConfigurationError):
        host_network_ports.bind(**parameters)

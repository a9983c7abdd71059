from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .objects import (
    check_containers,
    check_everywhere,
    check_exemptions,
    check_shapes,
    container,
    message,
    spec_of,
)

[host_network_ports] = load(["library:host_network_ports"])

NETWORK = "hostNetwork must not be true"
PORT = "container app: ports.hostPort must be"


def listening(*ports: Any) -> Json:
    return container(ports=[{"containerPort": 80, "hostPort": port} for port in ports])


CASES: list[tuple[Json, Json, str | None]] = [
    ({}, spec_of(), None),
    ({}, spec_of(container(ports=None)), None),
    ({}, spec_of(container(ports=[])), None),
    ({}, spec_of(container(ports=[{"containerPort": 80}])), None),
    ({}, spec_of(listening(0)), None),
    ({}, spec_of(listening(None)), None),
    ({}, spec_of(listening(80)), f"{PORT} absent, not 80"),
    (
        {},
        spec_of(listening(0, 80, 443)),
        f"{PORT} absent, not 80; {PORT} absent, not 443",
    ),
    ({}, spec_of(hostNetwork=False), None),
    ({}, spec_of(hostNetwork=None), None),
    ({}, spec_of(hostNetwork=True), NETWORK),
    ({}, spec_of(listening(80), hostNetwork=True), f"{NETWORK}; {PORT} absent, not 80"),
    ({"host_network": True}, spec_of(hostNetwork=True), None),
    (
        {"host_network": True},
        spec_of(listening(80), hostNetwork=True),
        f"{PORT} absent, not 80",
    ),
    ({"host_network": True, "min": 80, "max": 80}, spec_of(listening(80), hostNetwork=True), None),
    ({"min": 80, "max": 90}, spec_of(hostNetwork=True), NETWORK),
    ({"min": 80, "max": 90}, spec_of(listening(80, 85, 90, 0)), None),
    ({"min": 80, "max": 90}, spec_of(listening(79)), f"{PORT} in 80-90, not 79"),
    ({"min": 80, "max": 90}, spec_of(listening(85, 91)), f"{PORT} in 80-90, not 91"),
    ({"min": 80}, spec_of(listening(65535)), None),
    ({"min": 80}, spec_of(listening(79)), f"{PORT} in 80-65535, not 79"),
    ({"max": 90}, spec_of(listening(1)), None),
    ({"max": 90}, spec_of(listening(91)), f"{PORT} in 0-90, not 91"),
    ({"min": 90, "max": 80}, spec_of(listening(85)), f"{PORT} absent, not 85"),
    ({"min": 0, "max": 0}, spec_of(listening(80)), f"{PORT} in 0-0, not 80"),
    ({"min": 0}, spec_of(listening(-1)), f"{PORT} in 0-65535, not -1"),
]


@pytest.mark.parametrize(("parameters", "spec", "problem"), CASES, ids=repr)
def test_pods_stay_off_the_network_and_ports_of_their_node(parameters: Json, spec: Json, problem: str | None) -> None:
    assert message(host_network_ports.bind(**parameters), spec) == problem


def test_images_make_no_exception_for_the_network() -> None:
    policy = host_network_ports.bind(exempt_images=["*"])
    assert message(policy, spec_of(listening(80), hostNetwork=True)) == NETWORK


def test_it_holds_for_every_object_and_container() -> None:
    check_everywhere(host_network_ports, spec_of(), spec_of(listening(80)))
    check_everywhere(host_network_ports, spec_of(), spec_of(hostNetwork=True))
    check_containers(host_network_ports, container(), listening(80))
    check_exemptions(host_network_ports, listening(80))


def test_another_port_is_another_violation() -> None:
    assert message(host_network_ports, spec_of(listening(81)), "Deployment", old=spec_of(listening(80)))


def test_misshapen_objects_are_denied() -> None:
    check_shapes(host_network_ports, spec_of(), "hostNetwork", False)
    check_shapes(host_network_ports, spec_of(listening(80)), "containers/0/ports", [])
    check_shapes(host_network_ports, spec_of(listening(80)), "containers/0/ports/0", {}, {"x": "y"})
    check_shapes(host_network_ports, spec_of(listening(80)), "containers/0/ports/0/hostPort", 0)


@pytest.mark.parametrize("parameters", [{"host_network": 1}, {"min": "80"}, {"max": 80.5}, {"min": True}], ids=repr)
def test_its_parameters_are_checked(parameters: Json) -> None:
    with pytest.raises(ConfigurationError):
        host_network_ports.bind(**parameters)

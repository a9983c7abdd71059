from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import RESOURCES, check_all_kinds, check_shapes, container, decide_on_pod, message, pod_spec, review_of

[required_probes] = load(["library:required_probes"])

HTTP = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5}
READY = {"probes": ["readinessProbe"]}
BY = "with exec or grpc or httpGet or tcpSocket"
READINESS = "container app must have a readinessProbe"
CASES: list[tuple[Json, Json, str | None]] = [
    ({}, container(readinessProbe=HTTP, livenessProbe=HTTP), None),
    ({}, container(readinessProbe=HTTP), f"container app must have a livenessProbe {BY}"),
    ({}, container(), f"{READINESS} {BY}; container app must have a livenessProbe {BY}"),
    (READY, container(readinessProbe=HTTP), None),
    (READY, container(readinessProbe={"grpc": {"port": 80}}), None),
    (READY, container(readinessProbe={"exec": {}}), None),
    (READY, container(readinessProbe={"tcpSocket": {"port": 80}}), None),
    (READY, container(readinessProbe={"periodSeconds": 5}), f"{READINESS} {BY}"),
    (READY, container(readinessProbe={"httpGet": None}), f"{READINESS} {BY}"),
    (READY, container(readinessProbe={}), f"{READINESS} {BY}"),
    (READY, container(readinessProbe=None), f"{READINESS} {BY}"),
    (READY, container(livenessProbe=HTTP), f"{READINESS} {BY}"),
    ({"probes": ["startupProbe"]}, container(startupProbe=HTTP), None),
    ({"probes": []}, container(), None),
    ({**READY, "probe_types": ["httpGet"]}, container(readinessProbe=HTTP), None),
    (
        {**READY, "probe_types": ["exec"]},
        container(readinessProbe=HTTP),
        f"{READINESS} with exec",
    ),
    ({**READY, "probe_types": []}, container(readinessProbe={"someday": {}}), None),
    ({**READY, "probe_types": []}, container(), READINESS),
    (
        {**READY, "probe_types": [], "custom_violation_message": "See the handbook."},
        container(),
        f"{READINESS} See the handbook.",
    ),
]


@pytest.mark.parametrize(("parameters", "of", "problem"), CASES, ids=repr)
def test_probes_are_required(parameters: Json, of: Json, problem: str | None) -> None:
    assert message(required_probes.bind(**parameters), pod_spec(of)) == problem


def test_all_objects() -> None:
    policy = required_probes.bind(probes=["readinessProbe"])
    good, bad = container(readinessProbe=HTTP), container("bad", livenessProbe=HTTP)
    check_all_kinds(policy, pod_spec(good), pod_spec(bad))
    for kind in RESOURCES:
        assert policy.match.matches_resource(review_of(kind, pod_spec(bad), old=pod_spec(good)))
        others = {"initContainers": [container("init")], "ephemeralContainers": [container("debug")]}
        assert message(policy, pod_spec(good, **others), kind) is None
        assert "bad" in (message(policy, pod_spec(good, bad, **others), kind) or "")
    check_shapes(policy, pod_spec(good), "containers/0/readinessProbe")
    check_shapes(policy, pod_spec(good), "containers/0/readinessProbe/httpGet", {}, {"x": "y"})
    assert isinstance(decide_on_pod(policy, {"containers": {}}), Deny)


def test_a_second_violation_is_new() -> None:
    old, now = pod_spec(container(readinessProbe=HTTP)), pod_spec(container())
    assert message(required_probes, now, old=old) == f"{READINESS} {BY}"


@pytest.mark.parametrize("name", ["probes", "probe_types", "custom_violation_message", "only_services"])
@pytest.mark.parametrize("value", [["readiness"], [5], 5, None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        required_probes.bind(**{name: value})

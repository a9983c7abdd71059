from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .other_objects import check_requests, check_shapes, message

[horizontal_pod_autoscaler] = load(["library:horizontal_pod_autoscaler"])

SOME = {"ranges": [{"min_replicas": 2, "max_replicas": 5}, {"min_replicas": 10, "max_replicas": 20}]}
KINDS = {**SOME, "enforce_scale_target_ref": True}
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def autoscaler(least: Any, most: Any, target: Any = WEB, version: str = "v2") -> Json:
    spec = {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": target}
    metadata = {"name": "web"}
    kind = "HorizontalPodAutoscaler"
    return {"apiVersion": f"autoscaling/{version}", "kind": kind, "metadata": metadata, "spec": spec}


def outside(numbers: str) -> str:
    return f"spec: the replicas must be in 2-5 or 10-20, not {numbers}"


def too_low(maximum: int, expected: int) -> str:
    return f"spec.maxReplicas must be at least {expected}, not {maximum}"


CASES: list[tuple[Json, Json, str | None]] = [
    (SOME, autoscaler(2, 5), None),
    (SOME, autoscaler(3, 4), None),
    (SOME, autoscaler(10, 20, version="v1"), None),
    (SOME, autoscaler(1, 5), outside("1-5")),
    (SOME, autoscaler(2, 6), outside("2-6")),
    (SOME, autoscaler(2, 20), outside("2-20")),
    (SOME, autoscaler(6, 9), outside("6-9")),
    (SOME, autoscaler(None, 5), outside("1-5")),
    (SOME, autoscaler(0, 21), outside("0-21")),
    (SOME, autoscaler(3, 3), too_low(3, 4)),
    (SOME, autoscaler(7, 7), f"{outside('7-7')}; {too_low(7, 8)}"),
    (SOME, autoscaler(30, 20), too_low(20, 31)),
    (SOME, autoscaler(2, None), "spec.maxReplicas is missing"),
    ({**SOME, "minimum_replica_spread": 3}, autoscaler(2, 5), None),
    ({**SOME, "minimum_replica_spread": 4}, autoscaler(2, 5), too_low(5, 6)),
    ({**SOME, "minimum_replica_spread": 0}, autoscaler(3, 3), None),
    ({"ranges": []}, autoscaler(1, 5), "spec: the replicas must be in an allowed range, not 1-5"),
    ({}, autoscaler(1, 50), None),
    ({}, autoscaler(None, 50), None),
    ({}, autoscaler(1, 51), "spec: the replicas must be in 1-50, not 1-51"),
    (SOME, autoscaler(2, 5, {"apiVersion": "example.org/v1", "kind": "Thing"}), None),
    (KINDS, autoscaler(2, 5), None),
    (KINDS, autoscaler(2, 5, {"apiVersion": "apps/v1", "kind": "StatefulSet"}), None),
    (KINDS, autoscaler(2, 5, {"apiVersion": "apps/v1beta2", "kind": "ReplicaSet"}), None),
    (KINDS, autoscaler(2, 5, {"apiVersion": "v1", "kind": "ReplicationController"}), None),
]
TARGETS = "apps Deployment or apps ReplicaSet or apps StatefulSet or ReplicationController"


@pytest.mark.parametrize(("parameters", "obj", "problem"), CASES, ids=repr)
def test_ranges(parameters: Json, obj: Json, problem: str | None) -> None:
    assert message(horizontal_pod_autoscaler.bind(**parameters), obj) == problem


@pytest.mark.parametrize(
    "target",
    [
        {"apiVersion": "apps/v1", "kind": "DaemonSet"},
        {"apiVersion": "v1", "kind": "Deployment"},
        {"apiVersion": "apps.example.org/v1", "kind": "Deployment"},
        {"apiVersion": "example.org/v1", "kind": "Thing"},
        {"kind": "Deployment"},
        {"apiVersion": "apps/v1"},
        {},
        None,
    ],
    ids=repr,
)
def test_other_targets_are_denied(target: Json | None) -> None:
    kind = f"{(target or {}).get('apiVersion', '')} {(target or {}).get('kind', '')}"
    problem = f"spec.scaleTargetRef must be {TARGETS}, not {kind}"
    assert message(horizontal_pod_autoscaler.bind(**KINDS), autoscaler(2, 5, target)) == problem


def test_requests() -> None:
    policy = horizontal_pod_autoscaler.bind(**KINDS)
    check_requests(policy, autoscaler(2, 5), autoscaler(2, 6))
    check_requests(policy, autoscaler(2, 5), autoscaler(2, 5, {"apiVersion": "apps/v1", "kind": "DaemonSet"}))
    assert message(policy, autoscaler(2, 7), autoscaler(2, 6)) == outside("2-7")


def test_shapes() -> None:
    policy = horizontal_pod_autoscaler.bind(**KINDS)
    check_shapes(policy, autoscaler(2, 5), "spec")
    check_shapes(policy, autoscaler(2, 5), "spec", "minReplicas")
    check_shapes(policy, autoscaler(2, 5), "spec", "maxReplicas")
    check_shapes(policy, autoscaler(2, 5), "spec", "scaleTargetRef")


@pytest.mark.parametrize(
    "parameters",
    [
        {"ranges": {"min_replicas": 1, "max_replicas": 2}},
        {"ranges": [{"min_replicas": 1}]},
        {"ranges": [{"min_replicas": "1", "max_replicas": 2}]},
        {"minimum_replica_spread": "1"},
        {"enforce_scale_target_ref": "yes"},
    ],
    ids=repr,
)
def test_parameters_are_checked(parameters: Json) -> None:
    with pytest.raises(ConfigurationError):
        horizontal_pod_autoscaler.bind(**parameters)

from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review
from .other_objects import check_requests, check_shapes, message

[replica_limits] = load(["library:replica_limits"])
some = replica_limits.bind(ranges=[{"min_replicas": 2, "max_replicas": 5}, {"min_replicas": 10, "max_replicas": 20}])

WORKLOADS = {
    "Deployment": "apps/v1/deployments",
    "StatefulSet": "apps/v1/statefulsets",
    "ReplicaSet": "apps/v1/replicasets",
    "ReplicationController": "v1/replicationcontrollers",
}


def workload(replicas: Any, kind: str = "Deployment", *owners: Json) -> Json:
    spec = {} if replicas is None else {"replicas": replicas}
    metadata = {"name": "web", "ownerReferences": list(owners)} if owners else {"name": "web"}
    version = WORKLOADS[kind].rpartition("/")[0]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def scaling(replicas: int | None, resource: str, old: int | None = None) -> Any:
    spec, before = ({} if number is None else {"replicas": number} for number in (replicas, old))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
    kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    obj, was = {**scale, "spec": spec}, {**scale, "spec": before}
    return admission_review("UPDATE", obj, old=was, resource=resource, subResource="scale", kind=kind)


def outside(replicas: int) -> str:
    return f"spec.replicas must be in 2-5 or 10-20, not {replicas}"


@pytest.mark.parametrize("kind", WORKLOADS)
@pytest.mark.parametrize(
    ("replicas", "allowed"),
    [(2, True), (5, True), (10, True), (20, True), (0, False), (1, False), (6, False), (9, False), (21, False)],
)
def test_ranges(replicas: int, allowed: bool, kind: str) -> None:
    assert message(some, workload(replicas, kind)) == (None if allowed else outside(replicas))
    review = scaling(replicas or None, WORKLOADS[kind], old=3)
    assert some.match.matches_resource(review)
    assert some(review) == (Allow() if allowed else Deny(outside(replicas)))


def test_the_default_of_a_workload_is_1() -> None:
    assert message(some, workload(None)) == outside(1)
    assert message(replica_limits, workload(None)) is None


def test_the_default_of_a_scale_is_0() -> None:
    assert some(scaling(None, "apps/v1/deployments", old=2)) == Deny(outside(0))
    assert some(scaling(None, "apps/v1/deployments")) == Allow(), "the violation is not new"


def test_the_default_range() -> None:
    assert message(replica_limits, workload(0)) is None
    assert message(replica_limits, workload(50)) is None
    assert message(replica_limits, workload(51)) == "spec.replicas must be in 0-50, not 51"


def test_without_ranges_everything_is_denied() -> None:
    policy = replica_limits.bind(ranges=[])
    assert message(policy, workload(1)) == "spec.replicas must be in an allowed range, not 1"


def test_replica_sets_of_deployments_are_exempt() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": True}
    assert message(some, workload(1, "ReplicaSet", owner)) is None
    assert message(some, workload(1, "ReplicaSet", {**owner, "controller": False}))
    assert message(some, workload(1, "ReplicaSet", {**owner, "kind": "Rollout"}))
    assert message(some, workload(1, "Deployment", owner))


@pytest.mark.parametrize("kind", WORKLOADS)
def test_requests(kind: str) -> None:
    check_requests(some, workload(2, kind), workload(9, kind))
    assert message(some, workload(8, kind), workload(9, kind)) == outside(8)
    assert not some.match.matches_resource(admission_review(resource="apps/v1/daemonsets"))
    assert not some.match.matches_resource(admission_review(resource="batch/v1/jobs"))


def test_shapes() -> None:
    check_shapes(some, workload(2), "spec", "replicas")
    check_shapes(some, workload(2), "spec")
    owned = workload(2, "ReplicaSet", {"kind": "Deployment"})
    check_shapes(some, owned, "metadata", "ownerReferences", allowed=([],))


@pytest.mark.parametrize(
    "ranges",
    [
        {"min_replicas": 1, "max_replicas": 2},
        [{"min_replicas": 1}],
        [{"min_replicas": "1", "max_replicas": 2}],
        [5],
        None,
    ],
    ids=repr,
)
def test_parameters_are_checked(ranges: Any) -> None:
    with pytest.raises(ConfigurationError):
        replica_limits.bind(ranges=ranges)

"""Workloads have as many replicas as are good for them: enough to survive a node, not so many as to fill a cluster.

Scaling counts too, by hand or by an autoscaler. Where nothing is said there is one replica. ReplicaSets that a
Deployment controls are not asked: while it rolls out they have any number, and the Deployment was asked.

Parameters:
    ranges: each a mapping with ``min_replicas`` and ``max_replicas``, both inclusive; the number must be in one of
        them.

Allowed, with ``ranges=[{"min_replicas": 2, "max_replicas": 20}]``::

    apiVersion: apps/v1
    kind: Deployment
    spec: {replicas: 2}

Denied::

    apiVersion: apps/v1
    kind: Deployment
    spec: {replicas: 21}
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating


class Range(TypedDict):
    """From so many replicas to so many, inclusive."""

    min_replicas: int
    max_replicas: int


@validating(
    "apps/deployments",
    "apps/deployments/scale",
    "apps/statefulsets",
    "apps/statefulsets/scale",
    "apps/replicasets",
    "apps/replicasets/scale",
    "core/replicationcontrollers",
    "core/replicationcontrollers/scale",
    operations=["CREATE", "UPDATE"],
)
def replica_limits(
    review: AdmissionReview, *, ranges: Sequence[Range] = ({"min_replicas": 0, "max_replicas": 50},)
) -> Decision:
    """Deny workloads with a number of replicas that is in none of the ranges."""
    found = introduced(review, lambda each: _violations(each, ranges))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, ranges: Sequence[Range]) -> Iterator[str]:
    if review.resource.resource == "replicasets" and _is_controlled(review.target):
        return
    replicas = field(review.target, "spec.replicas", int)
    if replicas is None:
        replicas = 0 if review.subresource == "scale" else 1  # a Scale leaves out its zero
    if not any(each["min_replicas"] <= replicas <= each["max_replicas"] for each in ranges):
        allowed = " or ".join(f"{each['min_replicas']} to {each['max_replicas']}" for each in ranges)
        yield f"spec.replicas: {replicas} is not allowed, but {allowed or 'nothing'}"


def _is_controlled(workload: dict[str, Any]) -> bool:
    owners = items(workload, "metadata.ownerReferences", dict)
    return any(owner.get("controller") is True and owner.get("kind") == "Deployment" for owner in owners)

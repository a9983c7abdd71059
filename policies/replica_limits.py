"""Limits the number of replicas of workloads.

The number is also checked when a workload is scaled, by users or autoscalers. The default is 1. ReplicaSets of
Deployments are exempt: their numbers vary during a rollout, and the Deployment is checked.

Parameters:
    ranges: mappings with ``min_replicas`` and ``max_replicas``, both inclusive; the number must be in one of them.

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

from webhooks import AdmissionReview, Decision, deny_new, field, items, validating


class Range(TypedDict):
    """A range of replica counts, inclusive."""

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
    """Deny workloads with a number of replicas outside of the ranges."""
    return deny_new(review, _violations, ranges)


def _violations(review: AdmissionReview, ranges: Sequence[Range]) -> Iterator[str]:
    if review.resource.resource == "replicasets" and _is_of_deployment(review.target):
        return
    replicas = field(review.target, "spec.replicas", int)
    if replicas is None:
        replicas = 0 if review.subresource == "scale" else 1  # a Scale omits the field if it is 0
    if not any(range_["min_replicas"] <= replicas <= range_["max_replicas"] for range_ in ranges):
        allowed = " or ".join(f"{range_['min_replicas']}-{range_['max_replicas']}" for range_ in ranges)
        yield f"spec.replicas must be in {allowed or 'an allowed range'}, not {replicas}"


def _is_of_deployment(replica_set: dict[str, Any]) -> bool:
    owners = items(replica_set, "metadata.ownerReferences", dict)
    return any(owner.get("controller") is True and owner.get("kind") == "Deployment" for owner in owners)

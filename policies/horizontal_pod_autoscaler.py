"""Autoscalers stay within limits, and have room to scale.

Where ``minReplicas`` is not said it is 1. Whether the target exists is not checked, for that is no matter of the
autoscaler alone; its kind can be.

Parameters:
    ranges: each a mapping with ``min_replicas`` and ``max_replicas``, both inclusive; the autoscaler must stay within
        one of them.
    minimum_replica_spread: by how much ``maxReplicas`` must be more than ``minReplicas``, at least.
    enforce_scale_target_ref: whether the target must be a Deployment, a ReplicaSet or a StatefulSet of the group
        ``apps``, or a ReplicationController.

Allowed, with ``ranges=[{"min_replicas": 2, "max_replicas": 20}], minimum_replica_spread=2``::

    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    spec: {minReplicas: 2, maxReplicas: 4, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}

Denied::

    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    spec: {minReplicas: 20, maxReplicas: 21, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating

TARGETS = (
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
)


class Range(TypedDict):
    """From so many replicas to so many, inclusive."""

    min_replicas: int
    max_replicas: int


@validating("autoscaling/horizontalpodautoscalers", operations=["CREATE", "UPDATE"])
def horizontal_pod_autoscaler(
    review: AdmissionReview,
    *,
    ranges: Sequence[Range] = ({"min_replicas": 1, "max_replicas": 50},),
    minimum_replica_spread: int = 1,
    enforce_scale_target_ref: bool = False,
) -> Decision:
    """Deny autoscalers that leave the ranges, cannot scale, or scale something else than a workload."""

    def find(each: AdmissionReview) -> Iterator[str]:
        yield from _bounds(each.target, ranges, minimum_replica_spread)
        if enforce_scale_target_ref:
            yield from _target(each.target)

    found = introduced(review, find)
    return Deny("; ".join(found)) if found else Allow()


def _bounds(autoscaler: dict[str, Any], ranges: Sequence[Range], spread: int) -> Iterator[str]:
    least, most = field(autoscaler, "spec.minReplicas", int), field(autoscaler, "spec.maxReplicas", int)
    least = 1 if least is None else least
    if most is None:
        yield "spec.maxReplicas is missing"
        return
    if not any(each["min_replicas"] <= least and most <= each["max_replicas"] for each in ranges):
        allowed = " or ".join(f"{each['min_replicas']} to {each['max_replicas']}" for each in ranges)
        yield f"spec: {least} to {most} replicas are not allowed, but {allowed or 'none'}"
    if most - least < spread:
        yield f"spec: {least} to {most} replicas are too close together, there must be {spread} between them"


def _target(autoscaler: dict[str, Any]) -> Iterator[str]:
    version, kind = (field(autoscaler, f"spec.scaleTargetRef.{name}", str) or "" for name in ("apiVersion", "kind"))
    if (version.rpartition("/")[0], kind) not in TARGETS:
        targets = ", ".join(" ".join(filter(None, target)) for target in TARGETS)
        yield f"spec.scaleTargetRef: {version} {kind} is none of {targets}"

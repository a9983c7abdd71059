"""Limits the replicas of HorizontalPodAutoscalers, and requires room to scale.

The default of ``minReplicas`` is 1. The policy does not check whether the target exists, only its kind.

Parameters:
    ranges: mappings with ``min_replicas`` and ``max_replicas``, both inclusive; one of them must include the range of
        the autoscaler.
    minimum_replica_spread: the minimum difference of ``maxReplicas`` and ``minReplicas``.
    enforce_scale_target_ref: whether the target must be a Deployment, ReplicaSet or StatefulSet in ``apps``, or a
        ReplicationController.

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

from webhooks import AdmissionReview, Decision, deny_new, field, validating

TARGETS = (
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
)


class Range(TypedDict):
    """A range of replica counts, inclusive."""

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
    """Deny autoscalers that leave the ranges, cannot scale, or have a target of another kind."""
    return deny_new(review, _violations, ranges, minimum_replica_spread, enforce_scale_target_ref)


def _violations(
    review: AdmissionReview, ranges: Sequence[Range], minimum_spread: int, check_target: bool
) -> Iterator[str]:
    minimum, maximum = (field(review.target, f"spec.{name}", int) for name in ("minReplicas", "maxReplicas"))
    minimum = 1 if minimum is None else minimum
    if maximum is None:
        yield "spec.maxReplicas is missing"
    else:
        if not any(range_["min_replicas"] <= minimum and maximum <= range_["max_replicas"] for range_ in ranges):
            allowed = " or ".join(f"{range_['min_replicas']}-{range_['max_replicas']}" for range_ in ranges)
            yield f"spec: the replicas must be in {allowed or 'an allowed range'}, not {minimum}-{maximum}"
        if maximum - minimum < minimum_spread:
            yield f"spec.maxReplicas must be at least {minimum + minimum_spread}, not {maximum}"
    if check_target:
        yield from _target_violations(review.target)


def _target_violations(autoscaler: dict[str, Any]) -> Iterator[str]:
    version, kind = (field(autoscaler, f"spec.scaleTargetRef.{name}", str) or "" for name in ("apiVersion", "kind"))
    if (version.rpartition("/")[0], kind) not in TARGETS:
        targets = " or ".join(" ".join(filter(None, target)) for target in TARGETS)
        yield f"spec.scaleTargetRef must be {targets}, not {version} {kind}"

"""Restricts the group that owns the volumes of a pod (``fsGroup``).

A pod with the group of another pod's files can read them on a shared volume. By default, every group except root's is
allowed. Pods for Windows have no such group and are exempt.

Parameters:
    rule: ``MustRunAs`` (a group in the ranges), ``MayRunAs`` (a group in the ranges, or none), or ``RunAsAny``.
    ranges: ranges of group IDs, each as a mapping with ``min`` and ``max``, both inclusive.

Allowed, with ``rule="MustRunAs", ranges=[{"min": 2000, "max": 2999}]``::

    spec: {containers: [{name: web, image: web}], securityContext: {fsGroup: 2500}}

Denied::

    spec: {containers: [{name: web, image: web}], securityContext: {fsGroup: 0}}
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

from webhooks import WORKLOADS, AdmissionReview, Allow, Decision, deny_new, field, validating


class Range(TypedDict):
    """A range of group IDs, inclusive."""

    min: int
    max: int


@validating("pods", *WORKLOADS, operations=["CREATE", "UPDATE"])
def fs_group(
    review: AdmissionReview,
    *,
    rule: Literal["MustRunAs", "MayRunAs", "RunAsAny"] = "MayRunAs",
    ranges: Sequence[Range] = ({"min": 1, "max": 2**31 - 1},),
) -> Decision:
    """Deny pods with another group for their volumes."""
    if rule == "RunAsAny":
        return Allow()
    return deny_new(review, _violations, rule, ranges)


def _violations(review: AdmissionReview, rule: str, ranges: Sequence[Range]) -> Iterator[str]:
    pod = review.pod()
    if pod is None or field(pod, "spec.os.name", str) == "windows":
        return
    group = field(pod, "spec.securityContext.fsGroup", int)
    if rule == "MayRunAs" if group is None else any(range_["min"] <= group <= range_["max"] for range_ in ranges):
        return
    expected = " or ".join(f"{range_['min']}-{range_['max']}" for range_ in ranges) or "an allowed range"
    yield f"securityContext.fsGroup must be in {expected}, not {'absent' if group is None else group}"

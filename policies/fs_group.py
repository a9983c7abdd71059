"""The group that owns a pod's volumes is one of those that it may have.

Whoever names a group of another pod's files can read them where both see the same volume. Unless told otherwise a pod
may have any group but root's, or none. Pods for Windows cannot have one and need none.

Parameters:
    rule: ``MustRunAs`` (one from the ranges), ``MayRunAs`` (one from the ranges, or none), ``RunAsAny``.
    ranges: each a mapping with the first group, ``min``, and the last, ``max``.

Allowed, with ``rule="MustRunAs", ranges=[{"min": 2000, "max": 2999}]``::

    spec: {containers: [{name: web, image: web}], securityContext: {fsGroup: 2500}}

Denied::

    spec: {containers: [{name: web, image: web}], securityContext: {fsGroup: 0}}
"""

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, validating


class Range(TypedDict):
    """The first and the last of some groups."""

    min: int
    max: int


@validating("pods", "replicationcontrollers", "podtemplates", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def fs_group(
    review: AdmissionReview,
    *,
    rule: Literal["MustRunAs", "MayRunAs", "RunAsAny"] = "MayRunAs",
    ranges: Sequence[Range] = ({"min": 1, "max": 2**31 - 1},),
) -> Decision:
    """Deny pods whose volumes would be of another group."""
    if rule == "RunAsAny":
        return Allow()
    found = introduced(review, lambda each: _violations(each, rule, ranges))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, rule: str, ranges: Sequence[Range]) -> Iterator[str]:
    pod = review.pod()
    if pod is None or field(pod, "spec.os.name", str) == "windows":
        return
    group = field(pod, "spec.securityContext.fsGroup", int)
    if rule == "MayRunAs" if group is None else any(each["min"] <= group <= each["max"] for each in ranges):
        return
    told = ", ".join(f"{each['min']}-{each['max']}" for each in ranges)
    yield f"securityContext.fsGroup must be in {told or 'no range'}, not {'absent' if group is None else group}"

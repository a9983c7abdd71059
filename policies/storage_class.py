"""Requires PersistentVolumeClaims to set a storage class, optionally one of certain classes.

The ``volumeClaimTemplates`` of StatefulSets are checked too. Claims of ``ephemeral`` volumes are checked when they are
created. The policy does not check whether a class exists.

Parameters:
    allowed_storage_classes: the names of allowed classes; ``*`` for all.
    include_storage_classes_in_message: whether the message of a denial lists the allowed classes.

Allowed, with ``allowed_storage_classes=["fast"]``::

    apiVersion: v1
    kind: PersistentVolumeClaim
    spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}

Denied::

    apiVersion: v1
    kind: PersistentVolumeClaim
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""

from collections.abc import Iterator, Sequence
from typing import Any

from webhooks import AdmissionReview, Decision, deny_new, field, items, validating

ANNOTATION = "volume.beta.kubernetes.io/storage-class"


@validating("core/persistentvolumeclaims", "apps/statefulsets", operations=["CREATE", "UPDATE"])
def storage_class(
    review: AdmissionReview,
    *,
    allowed_storage_classes: Sequence[str] = ("*",),
    include_storage_classes_in_message: bool = True,
) -> Decision:
    """Deny claims without a class, or with another class."""
    is_listed = include_storage_classes_in_message and allowed_storage_classes and "*" not in allowed_storage_classes
    remedy = f"use {' or '.join(allowed_storage_classes)}" if is_listed else "use an allowed class"
    return deny_new(review, _violations, allowed_storage_classes, remedy)


def _violations(review: AdmissionReview, allowed: Sequence[str], remedy: str) -> Iterator[str]:
    if review.resource.resource == "persistentvolumeclaims":
        claims = [("", review.target)]
    else:
        templates = items(review.target, "spec.volumeClaimTemplates", dict)
        claims = [(f"claim {field(claim, 'metadata.name', str)}: ", claim) for claim in templates]
    for where, claim in claims:
        names = _names(claim)
        if not names:
            yield f"{where}spec.storageClassName is missing: {remedy}"
        for name in names:
            if name not in allowed and not (name and isinstance(name, str) and "*" in allowed):
                yield f"{where}storage class {name!r} is not allowed: {remedy}"


def _names(claim: dict[str, Any]) -> list[Any]:
    """Return the class in the field, and that in the deprecated annotation, which takes precedence in API servers."""
    annotations = field(claim, "metadata.annotations", dict) or {}
    names = (annotations.get(ANNOTATION), field(claim, "spec.storageClassName", str))
    return [name for name in names if name is not None]

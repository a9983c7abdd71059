"""Claims of storage name their class, and one that is allowed.

The claims of a StatefulSet's ``volumeClaimTemplates`` count too. Those that are made for the ``ephemeral`` volumes of
pods are asked when they are made. Whether a class of the name exists is not checked, for that is no matter of the claim
alone.

Parameters:
    allowed_storage_classes: names of classes; ``*`` for whichever.
    include_storage_classes_in_message: whether a denial says which are allowed.

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

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating

ANNOTATION = "volume.beta.kubernetes.io/storage-class"


@validating("core/persistentvolumeclaims", "apps/statefulsets", operations=["CREATE", "UPDATE"])
def storage_class(
    review: AdmissionReview,
    *,
    allowed_storage_classes: Sequence[str] = ("*",),
    include_storage_classes_in_message: bool = True,
) -> Decision:
    """Deny claims without a class, or of a class that is not allowed."""
    found = introduced(review, lambda each: _violations(each, allowed_storage_classes))
    if not found:
        return Allow()
    listed = include_storage_classes_in_message and "*" not in allowed_storage_classes
    return Deny("; ".join(found) + (f"; allowed: {', '.join(allowed_storage_classes)}" if listed else ""))


def _violations(review: AdmissionReview, allowed: Sequence[str]) -> Iterator[str]:
    if review.resource.resource == "persistentvolumeclaims":
        claims = [("", review.target)]
    else:
        templates = items(review.target, "spec.volumeClaimTemplates", dict)
        claims = [(f"claim {field(each, 'metadata.name', str)}: ", each) for each in templates]
    for where, claim in claims:
        names = _names(claim)
        if not names:
            yield f"{where}spec.storageClassName is missing"
        for name in names:
            if name not in allowed and not (name and isinstance(name, str) and "*" in allowed):
                yield f"{where}the storage class {name!r} is not allowed"


def _names(claim: dict[str, Any]) -> list[Any]:
    """Of the field, and of the annotation that came before it and goes before it still."""
    annotations = field(claim, "metadata.annotations", dict) or {}
    names = (annotations.get(ANNOTATION), field(claim, "spec.storageClassName", str))
    return [name for name in names if name is not None]

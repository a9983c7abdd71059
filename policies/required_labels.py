"""Objects carry the labels that everybody relies on: an owner to ask, an environment to filter by.

Parameters:
    labels: each a mapping with ``key``, and with ``allowedRegex`` where the value must match as a whole.
    message: shown instead of the usual one.

Allowed, with ``labels=[{"key": "owner"}]``::

    metadata: {name: web, labels: {owner: team-a}}

Denied::

    metadata: {name: web, labels: {app: web}}
"""

import re
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, validating


class Label(TypedDict):
    """A label that must be there, and what its value must match."""

    key: str
    allowedRegex: NotRequired[str]


@validating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def required_labels(
    review: AdmissionReview, *, labels: Sequence[Label] = ({"key": "owner"},), message: str = ""
) -> Decision:
    """Deny objects without the labels, or with other values than are allowed."""
    have = review.labels
    missing = [label["key"] for label in labels if label["key"] not in have]
    if missing:
        return Deny(message or f"missing labels: {', '.join(missing)}")
    for label in labels:
        pattern = label.get("allowedRegex")
        if pattern and not re.fullmatch(pattern, have[label["key"]]):
            return Deny(message or f"label {label['key']}: {have[label['key']]!r} does not match {pattern!r}")
    return Allow()

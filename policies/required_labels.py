"""Requires labels, such as an owner or an environment, optionally with certain values.

Parameters:
    labels: mappings with ``key``, and optionally ``allowedRegex``, which the whole value must match.
    message: a message for denials instead of the default one.

Allowed, with ``labels=[{"key": "owner"}]``::

    metadata: {name: web, labels: {owner: team-a}}

Denied::

    metadata: {name: web, labels: {app: web}}
"""

import re
from collections.abc import Iterator, Sequence
from typing import NotRequired, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, introduced, validating


class Label(TypedDict):
    """A required label."""

    key: str
    allowedRegex: NotRequired[str]


@validating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def required_labels(
    review: AdmissionReview, *, labels: Sequence[Label] = ({"key": "owner"},), message: str = ""
) -> Decision:
    """Deny objects without the labels, or with other values."""
    violations = introduced(review, _violations, labels)
    return Deny(message or "; ".join(violations)) if violations else Allow()


def _violations(review: AdmissionReview, labels: Sequence[Label]) -> Iterator[str]:
    existing = review.labels
    for label in labels:
        key, pattern = label["key"], label.get("allowedRegex")
        value = existing.get(key)
        if value is None:
            yield f"label {key} is missing"
        elif pattern and not re.fullmatch(pattern, value):
            yield f"label {key} must match {pattern!r}, not be {value!r}"

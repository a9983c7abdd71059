"""Requires annotations, such as a description or the address of a runbook, optionally with certain values.

Parameters:
    annotations: mappings with ``key``, and optionally ``allowedRegex``, which the whole value must match.
    message: a message for denials instead of the default one.

Allowed, with ``annotations=[{"key": "example.com/page", "allowedRegex": "https://.+"}]``::

    metadata: {name: web, annotations: {example.com/page: "https://example.com/web"}}

Denied::

    metadata: {name: web, annotations: {example.com/page: ask Jane}}
"""

import re
from collections.abc import Iterator, Sequence
from typing import NotRequired, TypedDict

from webhooks import AdmissionReview, Allow, Decision, Deny, introduced, validating


class Annotation(TypedDict):
    """A required annotation."""

    key: str
    allowedRegex: NotRequired[str]


@validating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def required_annotations(
    review: AdmissionReview,
    *,
    annotations: Sequence[Annotation] = ({"key": "kubernetes.io/description"},),
    message: str = "",
) -> Decision:
    """Deny objects without the annotations, or with other values."""
    violations = introduced(review, _violations, annotations)
    return Deny(message or "; ".join(violations)) if violations else Allow()


def _violations(review: AdmissionReview, annotations: Sequence[Annotation]) -> Iterator[str]:
    existing = review.annotations
    for annotation in annotations:
        key, pattern = annotation["key"], annotation.get("allowedRegex")
        value = existing.get(key)
        if value is None:
            yield f"annotation {key} is missing"
        elif pattern and not re.fullmatch(pattern, value):
            shown = value if len(value) <= 60 else f"{value[:60]}..."
            yield f"annotation {key} must match {pattern!r}, not be {shown!r}"

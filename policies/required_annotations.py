"""Objects carry the annotations that everybody relies on: what they are for, a page to read when they fail.

A value must match its expression as a whole: ``https://example.com/.*`` is not to be found somewhere in it.

Parameters:
    annotations: each a mapping with ``key``, and with ``allowedRegex`` where the value must match as a whole.
    message: shown instead of the usual one.

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
    """An annotation that must be there, and what its value must match."""

    key: str
    allowedRegex: NotRequired[str]


@validating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def required_annotations(
    review: AdmissionReview,
    *,
    annotations: Sequence[Annotation] = ({"key": "kubernetes.io/description"},),
    message: str = "",
) -> Decision:
    """Deny objects without the annotations, or with other values than are allowed."""
    found = introduced(review, lambda each: _violations(each.annotations, annotations))
    return Deny(message or "; ".join(found)) if found else Allow()


def _violations(have: dict[str, str], annotations: Sequence[Annotation]) -> Iterator[str]:
    for annotation in annotations:
        value, pattern = have.get(annotation["key"]), annotation.get("allowedRegex")
        if value is None:
            yield f"annotation {annotation['key']} is missing"
        elif pattern and not re.fullmatch(pattern, value):
            shown = value if len(value) <= 60 else f"{value[:60]}..."
            yield f"annotation {annotation['key']}: {shown!r} does not match {pattern!r}"

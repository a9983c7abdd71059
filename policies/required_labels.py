"""Objects carry the labels that everybody relies on: an owner to ask, an environment to filter by.

A value must match its expression as a whole: ``prod`` does not let ``production`` pass.

Parameters:
    labels: each a mapping with ``key``, and with ``allowedRegex`` where the value must match as a whole.
    message: shown instead of the usual one.

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
    """A label that must be there, and what its value must match."""

    key: str
    allowedRegex: NotRequired[str]


@validating("namespaces", "pods", "apps/*", "batch/*", operations=["CREATE", "UPDATE"])
def required_labels(
    review: AdmissionReview, *, labels: Sequence[Label] = ({"key": "owner"},), message: str = ""
) -> Decision:
    """Deny objects without the labels, or with other values than are allowed."""
    found = introduced(review, lambda each: _violations(each.labels, labels))
    return Deny(message or "; ".join(found)) if found else Allow()


def _violations(have: dict[str, str], labels: Sequence[Label]) -> Iterator[str]:
    for label in labels:
        value, pattern = have.get(label["key"]), label.get("allowedRegex")
        if value is None:
            yield f"label {label['key']} is missing"
        elif pattern and not re.fullmatch(pattern, value):
            yield f"label {label['key']}: {value!r} does not match {pattern!r}"

"""The keys of buckets: events with the same key share a bucket.

A part of an event that is absent or has the wrong type counts as an empty string.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from webhooks.plugins.event_rate_limit.token_bucket import LimitType
from webhooks.reviews.admission import AdmissionReview, shared_object

MAX_LENGTH = 256  # characters; a longer key is shortened to a prefix and its digest
_DIGEST_LENGTH = 64

_SOURCE = ("component", "host")
_REPORTER = ("reportingController", "reportingInstance")
_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion")


def compute_key(type_: LimitType, review: AdmissionReview) -> str:
    """Return the key of an event for a type of limit.

    Raises:
        MalformedReview: a field that is part of the key cannot be read.
    """
    key = _KEYS[type_](review)
    if len(key) <= MAX_LENGTH:
        return key
    # One character longer than any unshortened key, so that no such key can collide with it.
    return key[: MAX_LENGTH + 1 - _DIGEST_LENGTH] + sha256(key.encode()).hexdigest()


def _source_and_object(review: AdmissionReview) -> str:
    """Return the source and the object of an event as a JSON list, which delimits its items unambiguously."""
    event = shared_object(review).tree or {}
    if review.resource.group:
        source = _strings(event, _REPORTER)
        if source == ["", ""]:
            source = _strings(event.get("deprecatedSource"), _SOURCE)
        regarding = event.get("regarding")
    else:
        source = _strings(event.get("source"), _SOURCE)
        regarding = event.get("involvedObject")
    return orjson.dumps(source + _strings(regarding, _OBJECT)).decode()


def _strings(tree: Any, names: Sequence[str]) -> list[str]:
    if type(tree) is not dict:
        return [""] * len(names)
    return [value if type(value := tree.get(name)) is str else "" for name in names]


_KEYS: Mapping[LimitType, Callable[[AdmissionReview], str]] = {
    "Server": lambda _: "",
    "Namespace": lambda review: review.namespace,
    "User": lambda review: review.user.username,
    "SourceAndObject": _source_and_object,
}

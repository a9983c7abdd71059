"""What an event is counted under: the key of each type of limit.

A part that is absent, or not of the type that it should be, counts as an empty text: all such events share a bucket.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from webhooks.plugins.event_rate_limit.token_bucket import LimitType
from webhooks.reviews.admission import AdmissionReview, object_of

MAX_KEY = 256  # characters; of a longer one its beginning and its digest are kept
_DIGEST = 64

_SOURCE = ("component", "host")
_REPORTER = ("reportingController", "reportingInstance")
_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion")


def _source_and_object(review: AdmissionReview) -> str:
    """The parts as a JSON list, in which they do not run into one another."""
    event = object_of(review).tree or {}
    if review.resource.group:
        source = _texts(event, _REPORTER)
        if source == ["", ""]:
            source = _texts(event.get("deprecatedSource"), _SOURCE)
        about = event.get("regarding")
    else:
        source = _texts(event.get("source"), _SOURCE)
        about = event.get("involvedObject")
    return orjson.dumps(source + _texts(about, _OBJECT)).decode()


def _texts(tree: Any, names: Sequence[str]) -> list[str]:
    if type(tree) is not dict:
        return [""] * len(names)
    return [value if type(value := tree.get(name)) is str else "" for name in names]


_PARTS: Mapping[LimitType, Callable[[AdmissionReview], str]] = {
    "Server": lambda _: "",
    "Namespace": lambda review: review.namespace,
    "User": lambda review: review.user.username,
    "SourceAndObject": _source_and_object,
}


def key(type_: LimitType, review: AdmissionReview) -> str:
    """What an event is counted under, for a type of limit: the same text for those that share a bucket, and bounded.

    Raises:
        MalformedReview: what has to be asked cannot be read.
    """
    whole = _PARTS[type_](review)
    if len(whole) <= MAX_KEY:
        return whole
    # One character more than any that is kept whole, so that none can be made up to look like it.
    return whole[: MAX_KEY + 1 - _DIGEST] + sha256(whole.encode()).hexdigest()

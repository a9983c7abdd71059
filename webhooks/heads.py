"""What stands before a request's body: how long the caller waits, and what it says of the body."""

from collections.abc import Iterable

import msgspec

from webhooks.answers import Answer, error
from webhooks.durations import parse_duration
from webhooks.errors import MalformedReview
from webhooks.wire.envelopes import HEAD, MAX_BODY


class Head(msgspec.Struct):
    """What the headers of a request say of its body.

    Attributes:
        refusal: the answer to a body in a form that is not taken; None where it is JSON as it stands.
        limit: how many bytes to read before it is refused: few of a body that is announced as too large, just enough to
            tell whom to answer; none where the caller waits to be asked for it.
        waits: whether the caller waits to be asked for the body.
    """

    refusal: Answer | None
    limit: int
    waits: bool = False


_PLAIN = Head(None, MAX_BODY)


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read what a request's headers, with lower-case names, say of its body."""
    said = dict(headers)
    waits = said.get(b"expect", b"").lower() == b"100-continue"
    limit = MAX_BODY
    if int(said.get(b"content-length", 0)) > MAX_BODY:
        limit = 0 if waits else HEAD
    encoding = said.get(b"content-encoding")
    if encoding is not None and encoding.lower() not in (b"", b"identity"):
        return Head(error(415, "the body must come without content encoding", close=True), limit, waits)
    media_type = said.get(b"content-type", b"")
    if media_type != b"application/json" and media_type.split(b";")[0].strip().lower() != b"application/json":
        return Head(error(415, "the body must be application/json", close=True), limit, waits)
    return Head(None, limit, waits) if waits or limit != MAX_BODY else _PLAIN


def too_large() -> MalformedReview:
    """The error of a body over the limit."""
    return MalformedReview(f"the body is larger than {MAX_BODY} bytes", code=413)


def timeout(query: bytes) -> float | None:
    """The seconds of ``timeout=`` in a query, or None; a value that is no duration says nothing."""
    found = _timeouts.get(query)
    if found is None:
        found = _parse_timeout(query)
        if len(_timeouts) < _MAX_TIMEOUTS and len(query) <= _MAX_QUERY:
            _timeouts[query] = found
    return found or None


_MAX_TIMEOUTS = 256
_MAX_QUERY = 64  # bytes
_MAX_TIMEOUT = 30.0  # seconds, the longest that a registration may set
_timeouts: dict[bytes, float] = {}


def _parse_timeout(query: bytes) -> float:
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name == b"timeout":
            try:
                return min(max(0, parse_duration(value.decode())) / 1e9, _MAX_TIMEOUT)
            except (ValueError, UnicodeDecodeError):
                return 0
    return 0

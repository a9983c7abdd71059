"""What stands before a request's body: how long the caller waits, what it says of the body, and where that ends."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import msgspec

from webhooks.errors import MalformedReview
from webhooks.http.responses import JsonResponse, error
from webhooks.kube.durations import parse_duration
from webhooks.kube.registered import MAX_TIMEOUT
from webhooks.reviews.envelope import HEAD
from webhooks.settings import Limits

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

NO_HEADERS: Mapping[bytes, bytes] = {}


class Head(msgspec.Struct):
    """What the headers of a request say of its body.

    Attributes:
        refusal: the answer to a body in a form that is not taken; None where it is JSON as it stands.
        limit: how many bytes to read before it is refused: few of a body that is announced as too large, just enough to
            tell whom to answer; none where the caller waits to be asked for it.
        waits: whether the caller waits to be asked for the body.
    """

    refusal: JsonResponse | None
    limit: int
    waits: bool = False


class HeadReader:
    """Reads what requests' headers say of their bodies.

    Args:
        max_body: bytes that a body may have.

    Attributes:
        max_body: as above.
    """

    def __init__(self, max_body: int) -> None:
        self.max_body = max_body
        self._plain = Head(None, max_body)

    def read(self, said: Mapping[bytes, bytes]) -> Head:
        """Read the headers, by their names in lower case."""
        waits = said.get(b"expect", b"").lower() == b"100-continue"
        limit = self.max_body
        if int(said.get(b"content-length", 0)) > limit:
            limit = 0 if waits else min(HEAD, limit)
        encoding = said.get(b"content-encoding")
        if encoding is not None and encoding.lower() not in (b"", b"identity"):
            return Head(error(415, "the body must come without content encoding", close=True), limit, waits)
        media_type = said.get(b"content-type", b"")
        if media_type != b"application/json" and media_type.split(b";")[0].strip().lower() != b"application/json":
            return Head(error(415, "the body must be application/json", close=True), limit, waits)
        return Head(None, limit, waits) if waits or limit != self.max_body else self._plain

    def too_large(self) -> MalformedReview:
        """The error of a body over the limit."""
        return MalformedReview(f"the body is larger than {self.max_body} bytes", code=413)


class BadRequest(Exception):
    """A request whose head is malformed, ambiguous or beyond the limits: it is answered, and the connection closed.

    Attributes:
        code: the HTTP code of the answer.
    """

    def __init__(self, message: str, *, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


def check_size(url: bytes, headers: Headers, limits: Limits) -> None:
    """Make sure that a head is not too large.

    Raises:
        BadHead: it is.
    """
    if len(headers) > limits.max_headers:
        raise BadRequest(f"there are more than {limits.max_headers} headers", code=431)
    separators = len(b": \r\n") * len(headers)
    if len(url) + separators + sum(map(len, chain.from_iterable(headers))) > limits.max_header_bytes:
        raise BadRequest(f"the headers have more than {limits.max_header_bytes} bytes", code=431)


def check_framing(said: Mapping[bytes, bytes], headers: Headers, version: str) -> None:
    """Make sure that everybody who reads this head sees the same request end at the same byte (RFC 9112, 3.2 and 6).

    The parser has refused the rest: a length together with a transfer encoding, two lengths, and whatever is misspelt.

    Args:
        said: the headers by their names in lower case.
        headers: all of them, as they came.
        version: of the protocol.

    Raises:
        BadHead: it is not sure.
    """
    if version != "1.1":
        if version != "1.0" or b"transfer-encoding" in said:
            raise BadRequest("the request must be one of HTTP/1.1, or one of HTTP/1.0 without transfer encoding")
    elif b"host" not in said:
        raise BadRequest("a request of HTTP/1.1 must have a Host header")
    if len(said) != len(headers) and [name for name, _ in headers].count(b"host") > 1:
        raise BadRequest("a request must not have two Host headers")
    if b"transfer-encoding" in said and said[b"transfer-encoding"].lower() != b"chunked":
        raise BadRequest("the only transfer encoding is chunked")


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
_timeouts: dict[bytes, float] = {}


def _parse_timeout(query: bytes) -> float:
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name == b"timeout":
            try:
                return min(max(0, parse_duration(value.decode())) / 1e9, MAX_TIMEOUT)
            except (ValueError, UnicodeDecodeError):
                return 0
    return 0

"""Request headers: limits, framing, the properties of the body, and the timeout of the client."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import msgspec

from webhooks.errors import MalformedReview
from webhooks.http.responses import JsonResponse, error_response
from webhooks.kube.api_groups import MAX_TIMEOUT
from webhooks.kube.durations import parse_duration
from webhooks.settings import Limits

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

NO_HEADERS: Mapping[bytes, bytes] = {}


class RequestHead(msgspec.Struct):
    """The request line and the headers of a request.

    Attributes:
        method: the HTTP method.
        path: the path, undecoded.
        query: the query, undecoded.
        headers: by their names in lower case.
        keep_alive: whether the client keeps the connection open.
        is_direct: whether the request may be answered without ASGI: it does not request an upgrade, and all earlier
            requests on the connection have their responses.
    """

    method: bytes
    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]
    keep_alive: bool
    is_direct: bool


class BodyHeaders(msgspec.Struct):
    """The properties of a body, as the headers of its request state them.

    Attributes:
        error: the response to a body in an unsupported format; None for plain JSON.
        limit: how many bytes of the body are read before it is rejected as too large; 0 if the client waits for
            ``100 Continue`` with a body that is too large.
        expects_continue: whether the client waits for ``100 Continue``.
    """

    error: JsonResponse | None
    limit: int
    expects_continue: bool = False


class HeaderReader:
    """Reads the headers that describe a body.

    Args:
        max_body: the size limit of a body in bytes.
        prefix: how many bytes of a body are read whose Content-Length exceeds the limit, to find the uid of the review
            for the response.

    Attributes:
        max_body: as above.
    """

    def __init__(self, max_body: int, prefix: int) -> None:
        self.max_body = max_body
        self._prefix = min(prefix, max_body)
        self._plain = BodyHeaders(None, max_body)

    def read(self, headers: Mapping[bytes, bytes]) -> BodyHeaders:
        """Read the headers, by their names in lower case."""
        expects_continue = headers.get(b"expect", b"").lower() == b"100-continue"
        limit = self.max_body
        if int(headers.get(b"content-length", 0)) > limit:
            limit = 0 if expects_continue else self._prefix
        is_plain = headers.get(b"content-type") == b"application/json" and b"content-encoding" not in headers
        if is_plain and not expects_continue and limit == self.max_body:
            return self._plain
        return BodyHeaders(_check_format(headers), limit, expects_continue)

    def too_large(self) -> MalformedReview:
        """Return the error for a body over the limit."""
        return MalformedReview(f"the body is larger than {self.max_body} bytes", code=413)


def _check_format(headers: Mapping[bytes, bytes]) -> JsonResponse | None:
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.lower() not in (b"", b"identity"):
        return error_response(415, "the body must have no content encoding", close=True)
    media_type = headers.get(b"content-type", b"")
    if media_type != b"application/json" and media_type.split(b";")[0].strip().lower() != b"application/json":
        return error_response(415, "the body must be application/json", close=True)
    return None


class BadRequest(Exception):
    """A request with malformed, ambiguous or too large headers. After the response, the connection is closed.

    Attributes:
        code: the HTTP status code of the response.
    """

    def __init__(self, message: str, *, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


def check_size(url: bytes, headers: Headers, limits: Limits) -> None:
    """Check the number and the size of headers.

    Raises:
        BadRequest: they exceed the limits.
    """
    if len(headers) > limits.max_headers:
        raise BadRequest(f"the request has more than {limits.max_headers} headers", code=431)
    separators = len(b": \r\n") * len(headers)
    if len(url) + separators + sum(map(len, chain.from_iterable(headers))) > limits.max_header_bytes:
        raise BadRequest(f"the headers are larger than {limits.max_header_bytes} bytes", code=431)


def check_framing(by_name: Mapping[bytes, bytes], headers: Headers, version: str) -> None:
    """Check that every HTTP implementation finds the end of the request at the same byte (RFC 9112, 3.2 and 6).

    The parser has rejected the other ambiguities: Content-Length together with Transfer-Encoding, two Content-Length
    headers, and malformed headers.

    Args:
        by_name: the headers by their names in lower case.
        headers: all headers, in order.
        version: the HTTP version.

    Raises:
        BadRequest: the request is ambiguous, or of another HTTP version.
    """
    if version != "1.1":
        if version != "1.0" or b"transfer-encoding" in by_name:
            raise BadRequest("the request must use HTTP/1.1, or HTTP/1.0 without a transfer encoding")
    elif b"host" not in by_name:
        raise BadRequest("an HTTP/1.1 request must have a Host header")
    if len(by_name) != len(headers) and [name for name, _ in headers].count(b"host") > 1:
        raise BadRequest("a request must not have two Host headers")
    if b"transfer-encoding" in by_name and by_name[b"transfer-encoding"].lower() != b"chunked":
        raise BadRequest("the transfer encoding must be chunked")


_MAX_CACHED_TIMEOUTS = 256
_MAX_CACHED_QUERY = 64  # bytes
_timeouts: dict[bytes, float] = {}


def parse_timeout(query: bytes) -> float | None:
    """Return the seconds of ``timeout=`` in a query; None if there is none, or it is not a duration."""
    seconds = _timeouts.get(query)
    if seconds is None:
        seconds = _parse_query(query)
        if len(_timeouts) < _MAX_CACHED_TIMEOUTS and len(query) <= _MAX_CACHED_QUERY:
            _timeouts[query] = seconds
    return seconds or None


def _parse_query(query: bytes) -> float:
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name == b"timeout":
            try:
                return min(max(0, parse_duration(value.decode())) / 1e9, MAX_TIMEOUT)
            except (ValueError, UnicodeDecodeError):
                return 0
    return 0

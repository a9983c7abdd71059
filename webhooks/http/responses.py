"""HTTP answers: a code and a JSON document."""

import msgspec

from webhooks.errors import REASONS

# What goes with an answer, by its code. Callers of ours heed the seconds, within their timeout.
HEADERS = {401: (b"www-authenticate", b"Bearer"), 429: (b"retry-after", b"1"), 503: (b"retry-after", b"1")}


class JsonResponse(msgspec.Struct):
    """An HTTP answer: always JSON.

    Attributes:
        code: the HTTP code.
        body: the JSON document.
        close: whether the connection cannot be used again.
    """

    code: int
    body: bytes
    close: bool = False


class _Status(msgspec.Struct):
    message: str
    reason: str
    code: int
    kind: str = "Status"
    apiVersion: str = "v1"  # noqa: N815
    metadata: dict[str, str] = {}
    status: str = "Failure"


_encode = msgspec.json.Encoder().encode


def error(code: int, message: str, *, close: bool = False) -> JsonResponse:
    """An HTTP error, as a Status that the caller's client understands."""
    return JsonResponse(code, _encode(_Status(message, REASONS.get(code, "Unknown"), code)), close)

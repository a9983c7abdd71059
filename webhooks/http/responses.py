"""HTTP responses: a status code and a JSON document."""

import msgspec

from webhooks.errors import REASONS

# Headers that are added by status code. API servers obey Retry-After within their timeout.
EXTRA_HEADERS = {401: (b"www-authenticate", b"Bearer"), 429: (b"retry-after", b"1"), 503: (b"retry-after", b"1")}


class JsonResponse(msgspec.Struct):
    """An HTTP response with a JSON document.

    Attributes:
        code: the HTTP status code.
        body: the JSON document.
        close: whether the connection is closed after the response.
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


def error_response(code: int, message: str, *, close: bool = False) -> JsonResponse:
    """Return an HTTP error with a Status, which Kubernetes clients understand."""
    return JsonResponse(code, _encode(_Status(message, REASONS.get(code, "Unknown"), code)), close)

"""HTTP over ASGI: the path and the body of a request, and responses."""

from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from webhooks.http.responses import EXTRA_HEADERS, JsonResponse, error_response

_JSON = b"application/json"


def request_path(scope: Scope) -> str:
    """Return the path below the path where the application is mounted."""
    path: str = scope["path"]
    root = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Read a body, or as much of it as exceeds the limit.

    Returns:
        None if the client disconnected.
    """
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def send_response(
    send: Send, code: int, body: bytes, media_type: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a response."""
    headers = [(b"content-type", media_type), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, response: JsonResponse, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Send a JSON response."""
    headers = list(headers)
    if response.close:
        headers.append((b"connection", b"close"))
    if response.code in EXTRA_HEADERS:
        headers.append(EXTRA_HEADERS[response.code])
    await send_response(send, response.code, response.body, _JSON, headers)


async def send_not_found(send: Send) -> None:
    """Send the response to a request for an unknown path."""
    await send_json(send, error_response(404, "not found"))


async def send_method_not_allowed(send: Send, message: str, allowed: bytes) -> None:
    """Send the response to a request with an unsupported method."""
    await send_json(send, error_response(405, message), [(b"allow", allowed)])

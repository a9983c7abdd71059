"""HTTP over ASGI."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message

from webhooks.app.asgi_http import (
    read_body,
    request_path,
    send_json,
    send_method_not_allowed,
    send_not_found,
    send_response,
)
from webhooks.http.responses import JsonResponse, error_response


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/livez", "", "/livez"),
        ("/hooks/livez", "/hooks", "/livez"),
        ("/livez", "/hooks", "/livez"),  # the server has removed the root path
        ("/hooksandmore", "/hooks", "/hooksandmore"),
    ],
)
def test_the_path_below_the_root_path(path: str, root: str, expected: str) -> None:
    assert request_path({"path": path, "root_path": root}) == expected
    assert root or request_path({"path": path}) == expected


@pytest.mark.parametrize(
    ("parts", "limit", "body"),
    [
        ([b""], 10, b""),
        ([b"abc"], 3, b"abc"),
        ([b"a", b"b", b"c"], 3, b"abc"),
        ([b"ab", b"cd", b"ef"], 3, b"abcd"),  # no more than shows that it is too large
        ([b"ab", None], 3, None),
    ],
)
def test_bodies(parts: list[bytes | None], limit: int, body: bytes | None) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": part, "more_body": part is not parts[-1]}
        if part is not None
        else {"type": "http.disconnect"}
        for part in parts
    ]

    async def receive() -> Message:
        return messages.pop(0)

    assert asyncio.run(read_body(receive, limit)) == body


def sent_by(function: Any, *arguments: Any) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return the status code, the headers and the body that a function sends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(function(send, *arguments))
    start, body = sent
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    return start["status"], dict(start["headers"]), body["body"]


def test_responses() -> None:
    headers = {b"content-type": b"text/plain", b"content-length": b"2", b"a": b"b"}
    assert sent_by(send_response, 200, b"ok", b"text/plain", [(b"a", b"b")]) == (200, headers, b"ok")


def test_json_responses() -> None:
    code, headers, body = sent_by(send_json, JsonResponse(200, b"{}"))
    assert (code, headers, body) == (200, {b"content-type": b"application/json", b"content-length": b"2"}, b"{}")
    _, headers, _ = sent_by(send_json, error_response(429, "later", close=True))
    assert (headers[b"connection"], headers[b"retry-after"]) == (b"close", b"1")


def test_errors() -> None:
    assert sent_by(send_not_found)[0] == 404
    code, headers, _ = sent_by(send_method_not_allowed, "use GET", b"GET, HEAD")
    assert (code, headers[b"allow"]) == (405, b"GET, HEAD")

"""The bare ceiling: FastAPI under uvicorn with everything bypassed that can be.

One path is served before FastAPI's router. The envelope is decoded to a struct; of the objects only the new one
is decoded, and the patch is a constant. There is no matching, no timeout, no metric and no error handling.
Arguments: port, certificate, key.
"""

import base64
import sys
from typing import Any

import msgspec
import orjson
import uvicorn
from fastapi import FastAPI
from rules import mutate, validate


class Kind(msgspec.Struct):
    group: str
    version: str
    kind: str


class Request(msgspec.Struct):
    uid: str
    kind: Kind
    operation: str
    namespace: str | None = None
    name: str | None = None
    userInfo: msgspec.Raw = msgspec.Raw(b"{}")  # noqa: N815
    object: msgspec.Raw = msgspec.Raw(b"null")
    oldObject: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815


class Review(msgspec.Struct):
    apiVersion: str  # noqa: N815
    kind: str
    request: Request


decode = msgspec.json.Decoder(Review).decode


def review(body: bytes) -> bytes:
    """Return the response to a review."""
    envelope = decode(body)
    request = envelope.request
    kind, obj = request.kind.kind, orjson.loads(memoryview(request.object))
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if message := validate(kind, obj):
        response |= {"allowed": False, "status": {"code": 403, "message": message}}
    elif operations := mutate(obj):
        patch = base64.b64encode(orjson.dumps(operations)).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": envelope.apiVersion, "response": response})


async def admit(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    body = message.get("body", b"")
    if message.get("more_body"):
        parts = [body]
        while message.get("more_body"):
            message = await receive()
            parts.append(message.get("body", b""))
        body = b"".join(parts)
    out = review(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(out)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": out})


class Bypass(FastAPI):
    """FastAPI with one path that is served before its router."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == "/admit":
            return await admit(scope, receive, send)
        return await super().__call__(scope, receive, send)


if __name__ == "__main__":
    port, certificate, key = sys.argv[1:4]
    uvicorn.run(
        Bypass(),
        host="127.0.0.1",
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=120,
    )

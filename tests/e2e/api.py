"""A client of the Kubernetes API: faster than kubectl, and without its retries and validation."""

import json
import ssl
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Self

from .certificates import Pair
from .kubectl import Json


@dataclass(frozen=True)
class Reply:
    """A response of the API server."""

    code: int
    headers: dict[str, str]
    object: Json


class Api:
    """A connection of one user to an API server."""

    def __init__(self, port: int, ca: Path, user: Pair) -> None:
        tls = ssl.create_default_context(cafile=ca)
        tls.load_cert_chain(user.certificate, user.key)
        self._connection = HTTPSConnection("127.0.0.1", port, context=tls, timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def request(self, method: str, path: str, body: Json | None = None, *, user: str = "") -> Reply:
        """Send a request, optionally as another user with all rights."""
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        if user:
            headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        self._connection.request(method, path, json.dumps(body), headers)
        response = self._connection.getresponse()
        return Reply(response.status, dict(response.headers), json.loads(response.read()))

    def create(self, path: str, body: Json) -> Json:
        """Create an object; fail if the API server rejects it."""
        reply = self.request("POST", path, body)
        assert reply.code == 201, reply
        return reply.object

    def is_ready(self) -> bool:
        """Whether the API server is ready."""
        try:
            self._connection.request("GET", "/readyz")
            return self._connection.getresponse().read() == b"ok"
        except (OSError, HTTPException):
            self._connection.close()
            return False

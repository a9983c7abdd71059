"""The API server's own protocol, for what kubectl is too slow for, or too helpful."""

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
    """What the API server answered."""

    code: int
    headers: dict[str, str]
    object: Json


class Api:
    """One user of an API server, on one connection."""

    def __init__(self, port: int, authority: Path, user: Pair) -> None:
        tls = ssl.create_default_context(cafile=authority)
        tls.load_cert_chain(user.certificate, user.key)
        self._connection = HTTPSConnection("127.0.0.1", port, context=tls, timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, given: Json | None = None, *, user: str = "") -> Reply:
        """Ask for something, in the place of another user perhaps, who may do everything."""
        headers = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        if user:
            headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        self._connection.request(method, path, json.dumps(given), headers)
        response = self._connection.getresponse()
        return Reply(response.status, dict(response.headers), json.loads(response.read()))

    def create(self, path: str, given: Json) -> Json:
        """Create something that is not refused."""
        reply = self.ask("POST", path, given)
        assert reply.code == 201, reply
        return reply.object

    def is_ready(self) -> bool:
        """Whether the API server says so."""
        try:
            self._connection.request("GET", "/readyz")
            return self._connection.getresponse().read() == b"ok"
        except (OSError, HTTPException):
            self._connection.close()
            return False

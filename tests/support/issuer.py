"""An OpenID Connect issuer: real HTTPS on this machine, with its own CA."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from joserfc import jwk, jwt

from webhooks import certificates

Key = jwk.RSAKey | jwk.ECKey


class Issuer:
    """An issuer whose published documents the tests change.

    Attributes:
        url: its URL.
        ca: the CA of its certificate.
        keys: the keys that it publishes, by key ID.
        documents: documents that it publishes instead of the usual ones, by path.
        unavailable: whether every response is an error.
        requests: the paths of all requests.
        gate: requests wait for this event.
    """

    def __init__(self, url: str, ca: Path) -> None:
        self.url = url
        self.ca = ca
        self.keys: dict[str, Key] = {}
        self.documents: dict[str, Any] = {}
        self.unavailable = False
        self.requests: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    @property
    def fetches(self) -> int:
        """The number of attempts to fetch the keys."""
        return self.requests.count("/realm/.well-known/openid-configuration")

    def published(self, path: str) -> Any:
        """Return the document at a path; None if there is none."""
        if path in self.documents:
            return self.documents[path]
        if path == "/realm/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/realm/keys":
            return {"keys": [key.as_dict(private=False, kid=kid, use="sig") for kid, key in self.keys.items()]}
        return None

    def token(self, kid: str | None = "first", key: Key | None = None, algorithm: str = "ES256", **claims: Any) -> str:
        """Return a good token with the given claims; ``...`` removes a claim."""
        now = int(time.time())
        default = {"iss": self.url, "aud": ["webhooks"], "sub": "jane", "iat": now, "nbf": now, "exp": now + 600}
        merged = {name: value for name, value in {**default, **claims}.items() if value is not ...}
        header = {"alg": algorithm} | ({} if kid is None else {"kid": kid})
        return jwt.encode(header, merged, key or self.keys[kid or "first"], algorithms=[algorithm])


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests.append(self.path)
            issuer.gate.wait()
            document = None if issuer.unavailable else issuer.published(self.path)
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(200 if document is not None else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect."""


@contextmanager
def issuing(folder: Path) -> Iterator[Issuer]:
    """Run an issuer on a free port within the block. It has one key with the ID ``first``."""
    pair = certificates.issue(folder, names=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    issuer = Issuer("", pair.ca)
    server = _Server(("127.0.0.1", 0), _handler(issuer))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer.url = f"https://127.0.0.1:{server.server_port}/realm"
    issuer.keys["first"] = jwk.ECKey.generate_key("P-256")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield issuer
    finally:
        issuer.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()

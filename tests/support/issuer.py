"""An OpenID Connect issuer: real HTTPS on this machine, with an authority of its own."""

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
    """What it publishes, which tests change, and how often it was asked.

    Attributes:
        url: its own.
        ca: who signs its certificate.
        keys: those that it signs with and publishes, by their names.
        documents: what it publishes instead, by path.
        away: whether it answers with an error alone.
        asked: the paths that were asked for.
        gate: what is asked waits for this.
    """

    def __init__(self, url: str, ca: Path) -> None:
        self.url = url
        self.ca = ca
        self.keys: dict[str, Key] = {}
        self.documents: dict[str, Any] = {}
        self.away = False
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    @property
    def fetches(self) -> int:
        """How often the keys were asked for, or the way to them in vain."""
        return self.asked.count("/realm/.well-known/openid-configuration")

    def published(self, path: str) -> Any:
        """The document at a path; None for none."""
        if path in self.documents:
            return self.documents[path]
        if path == "/realm/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/realm/keys":
            return {"keys": [key.as_dict(private=False, kid=kid, use="sig") for kid, key in self.keys.items()]}
        return None

    def token(self, kid: str | None = "first", key: Key | None = None, algorithm: str = "ES256", **claims: Any) -> str:
        """A good token, but for what is given."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": ["webhooks"], "sub": "jane", "iat": now, "nbf": now, "exp": now + 600}
        said = {name: value for name, value in {**usual, **claims}.items() if value is not ...}
        header = {"alg": algorithm} | ({} if kid is None else {"kid": kid})
        return jwt.encode(header, said, key or self.keys[kid or "first"], algorithms=[algorithm])


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            issuer.gate.wait()
            document = None if issuer.away else issuer.published(self.path)
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
        """A caller that goes away is no matter."""


@contextmanager
def issuing(folder: Path) -> Iterator[Issuer]:
    """An issuer at a port that was free, for as long as the block lasts; it has one key, `first`."""
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

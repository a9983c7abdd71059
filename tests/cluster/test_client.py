"""Asking a cluster's API: what is sent, and what becomes of answers that no API server gives."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from webhooks.certificates import issue
from webhooks.cluster import Access, ClusterClient
from webhooks.cluster.kubeconfig import User
from webhooks.errors import ClusterError

ANSWERS = {
    "/object": (200, b'{"kind": "Thing"}'),
    "/page": (200, b"<html>"),
    "/refused": (403, b'{"kind": "Status", "message": "things is\\nforbidden"}'),
    "/broken": (502, b"bad gateway"),
    "/elsewhere": (302, b""),
    "/none": (404, b"{}"),
}


class Handler(BaseHTTPRequestHandler):
    """Answers by path, and remembers what was sent."""

    seen: ClassVar[list[tuple[str, str | None, str | None, bytes]]] = []

    def do_GET(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], body))
        code, content = ANSWERS[self.path]
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Location", "/object")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    pair = issue(tmp_path, names=["api.example.com"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Handler.seen = []
        url = f"https://127.0.0.1:{server.server_port}"
        yield Access(url, pair.ca.read_bytes(), "api.example.com", None, User(token="secret"))
        server.shutdown()
        thread.join()


def test_what_is_sent(access: Access) -> None:
    with ClusterClient(access) as api:
        assert api.get("/object") == {"kind": "Thing"}
        assert api.get("/none") is None
        assert api.patch("/object", {"a": 1}, "application/merge-patch+json") == {"kind": "Thing"}
    assert Handler.seen[0] == ("/object", "Bearer secret", None, b"")
    path, _, media_type, body = Handler.seen[2]
    assert (path, media_type, json.loads(body)) == ("/object", "application/merge-patch+json", {"a": 1})


@pytest.mark.parametrize(
    ("path", "code", "says"),
    [
        ("/page", 0, "the answer is no JSON: is this an API server?"),
        ("/refused", 403, "GET /refused: 403: things is forbidden"),
        ("/broken", 502, "GET /broken: 502: Bad Gateway"),
        ("/elsewhere", 302, "GET /elsewhere: 302: Found"),
    ],
)
def test_answers_that_are_none(access: Access, path: str, code: int, says: str) -> None:
    with ClusterClient(access) as api, pytest.raises(ClusterError) as raised:
        api.get(path)
    assert says in str(raised.value)
    assert raised.value.code == code
    assert len(Handler.seen) == 1


@pytest.mark.parametrize("name", [None, "other.example.com"])
def test_a_server_with_another_name_is_not_asked(access: Access, name: str | None) -> None:
    wrong = Access(access.server, access.ca, name, None, access.user)
    with ClusterClient(wrong) as api, pytest.raises(ClusterError, match="does not answer"):
        api.get("/object")
    assert Handler.seen == []


def test_a_token_that_cannot_be_sent_is_not_shown(access: Access) -> None:
    wrong = Access(access.server, access.ca, access.server_name, None, User(token="secret\n"))
    with (
        ClusterClient(wrong) as api,
        pytest.raises(ClusterError, match="cannot be asked: LocalProtocolError") as raised,
    ):
        api.get("/object")
    assert "secret" not in str(raised.value)


def test_a_proxy_of_the_environment_that_is_none(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "junk://secret")
    with pytest.raises(ClusterError, match="cannot be used: ") as raised:
        ClusterClient(access)
    assert "secret" not in str(raised.value)


def test_certificates_that_are_none(access: Access) -> None:
    with pytest.raises(ClusterError, match="the certificates for the cluster are not usable"):
        ClusterClient(Access(access.server, b"no certificate", None, None, access.user))

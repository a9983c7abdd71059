"""Requests to a cluster's API, and responses that no API server sends."""

import json
import ssl
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from webhooks.certificates import issue
from webhooks.cluster import connect
from webhooks.cluster.access import Access
from webhooks.cluster.client import _MAX_RESPONSE_SIZE, ClusterClient
from webhooks.cluster.credentials import Credentials, ExecPlugin
from webhooks.errors import ClusterError, ConfigurationError

RESPONSES = {
    "/object": (200, b'{"kind": "Thing"}'),
    "/page": (200, b"<html>"),
    "/refused": (403, b'{"kind": "Status", "message": "things is\\nforbidden"}'),
    "/broken": (502, b"bad gateway"),
    "/elsewhere": (302, b""),
    "/none": (404, b"{}"),
    "/large": (200, b" " * (_MAX_RESPONSE_SIZE + 1)),
}


class Handler(BaseHTTPRequestHandler):
    """Responds by path, and records the requests."""

    requests: ClassVar[list[tuple[str, str | None, str | None, bytes]]] = []

    def do_GET(self) -> None:
        self._respond()

    def do_PATCH(self) -> None:
        self._respond()

    def _respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], body))
        code, content = RESPONSES[self.path]
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Location", "/object")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


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
        Handler.requests = []
        url = f"https://127.0.0.1:{server.server_port}"
        yield Access(url, pair.ca.read_bytes(), "api.example.com", None, Credentials(token="secret"))
        server.shutdown()
        thread.join()


def test_requests(access: Access) -> None:
    with ClusterClient(access) as client:
        assert client.get("/object") == {"kind": "Thing"}
        assert client.get("/none") is None
        assert client.patch("/object", {"a": 1}, "application/merge-patch+json") == {"kind": "Thing"}
    assert Handler.requests[0] == ("/object", "Bearer secret", None, b"")
    path, _, media_type, body = Handler.requests[2]
    assert (path, media_type, json.loads(body)) == ("/object", "application/merge-patch+json", {"a": 1})


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/page", 0, "the response is not JSON: is this an API server?"),
        ("/refused", 403, "GET /refused: 403: things is forbidden"),
        ("/broken", 502, "GET /broken: 502: Bad Gateway"),
        ("/large", 0, "/large: the response has more than 16777216 bytes"),
        ("/elsewhere", 302, "GET /elsewhere: 302: Found"),
    ],
)
def test_error_responses(access: Access, path: str, code: int, message: str) -> None:
    with ClusterClient(access) as client, pytest.raises(ClusterError) as raised:
        client.get(path)
    assert message in str(raised.value)
    assert raised.value.code == code
    assert len(Handler.requests) == 1


@pytest.mark.parametrize("name", [None, "other.example.com"])
def test_a_server_with_another_name_gets_no_request(access: Access, name: str | None) -> None:
    wrong = Access(access.server, access.ca, name, None, access.credentials)
    with ClusterClient(wrong) as client, pytest.raises(ClusterError, match="no response"):
        client.get("/object")
    assert Handler.requests == []


def test_an_invalid_token_is_not_shown(access: Access) -> None:
    wrong = Access(access.server, access.ca, access.tls_server_name, None, Credentials(token="secret\n"))
    with (
        ClusterClient(wrong) as client,
        pytest.raises(ClusterError, match="the request cannot be sent: LocalProtocolError") as raised,
    ):
        client.get("/object")
    assert "secret" not in str(raised.value)


def test_an_invalid_proxy_of_the_environment(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "junk://secret")
    with pytest.raises(ClusterError, match="is invalid: ") as raised:
        ClusterClient(access)
    assert "secret" not in str(raised.value)


def test_invalid_certificates(access: Access) -> None:
    with pytest.raises(ClusterError, match="the certificates for the cluster are invalid"):
        ClusterClient(Access(access.server, b"no certificate", None, None, access.credentials))


def test_expired_credentials_of_a_plugin_are_replaced(access: Access, tmp_path: Path) -> None:
    program = """
import json, os, sys
status = {"token": str(os.getpid()), "expirationTimestamp": "2020-01-01T00:00:00Z"}
print(json.dumps({"status": status}))
"""
    plugin = ExecPlugin((sys.executable, "-c", program), {}, "client.authentication.k8s.io/v1", tmp_path)
    with ClusterClient(replace(access, credentials=Credentials(plugin=plugin))) as client:
        for _ in range(2):
            client.get("/object")
    tokens = {token for _, token, *_ in Handler.requests}
    assert len(tokens) == 2


def test_a_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "webhooks.cluster.client")
    monkeypatch.setitem(sys.modules, "httpx2", None)
    message = r"access to a cluster requires the module httpx2: install the extra cluster: pip install"
    with pytest.raises(ConfigurationError, match=message):
        connect(tmp_path / "kubeconfig", None)

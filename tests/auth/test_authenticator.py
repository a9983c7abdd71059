"""Authentication by certificates and tokens, as a unit and on a real server."""

import asyncio
import json
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from webhooks import certificates
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import ANONYMOUS, Authentication, Client, Rejection
from webhooks.auth.token_file import TokenFile, TokenHash, hash_token
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings

from ..support.clients import (
    ALLOWED_NAMES,
    ALLOWED_REVIEW,
    LISTED,
    TLS_ERRORS,
    UNLISTED,
    VALIDATE,
    client_tls,
    metric_samples,
    post_review,
)
from ..support.identities import Identity, identity
from ..support.servers import (
    REVIEWS,
    SECONDS,
    Connection,
    Gate,
    Server,
    await_true,
    client_context,
    request,
    review,
    serving,
)

# In the form of `ssl.SSLSocket.getpeercert`.
APISERVER = {
    "subject": ((("organizationName", "system:masters"),), (("commonName", "apiserver"),)),
    "subjectAltName": (
        ("DNS", "apiserver.svc"),
        ("URI", "spiffe://cluster/apiserver"),
        ("email", "apiserver@example.org"),
        ("IP Address", "10.0.0.1"),
        ("IP Address", "2001:DB8:0:0:0:0:0:1"),
        ("DirName", ((("commonName", "root"),),)),
        ("Registered ID", "1.2.3"),
    ),
    "serialNumber": "0A",
}


def authenticator(*names: str, **more: Any) -> Authenticator:
    return Authenticator(MetricRegistry(), allowed_names=names, **more)


# Certificates.


@pytest.mark.parametrize(
    ("allowed", "name"),
    [
        ((), "apiserver"),
        (("apiserver",), "apiserver"),
        (("other", "apiserver.svc"), "apiserver.svc"),
        (("spiffe://cluster/apiserver",), "spiffe://cluster/apiserver"),
        (("apiserver@example.org",), "apiserver@example.org"),
        (("10.0.0.1",), "10.0.0.1"),
        (("2001:db8::1",), "2001:db8::1"),
        (("2001:DB8:0::1",), "2001:db8::1"),
    ],
)
def test_allowed_names(allowed: tuple[str, ...], name: str) -> None:
    assert authenticator(*allowed).authenticate_connection(APISERVER) == Client(name)


@pytest.mark.parametrize(
    "allowed",
    [
        "apiserver.",
        "Apiserver",
        "apiserver.svc.cluster.local",
        "svc",
        "*",
        "*.svc",
        "spiffe://cluster",
        "10.0.0.0/8",
        "10.0.0.10",
        "root",
        "system:masters",
        "1.2.3",
        "serial 0A",
        "CN=apiserver",
    ],
)
def test_names_must_be_equal(allowed: str) -> None:
    rejection = authenticator(allowed).authenticate_connection(APISERVER)
    assert isinstance(rejection, Rejection)
    assert (rejection.code, rejection.reason) == (403, "unlisted_certificate")
    assert "apiserver, apiserver.svc, spiffe://cluster/apiserver" in rejection.message


@pytest.mark.parametrize("certificate", [None, {}])
def test_no_certificate(certificate: Mapping[str, Any] | None) -> None:
    rejection = authenticator().authenticate_connection(certificate)
    assert isinstance(rejection, Rejection)
    assert rejection.reason == "no_certificate"
    assert Authenticator(MetricRegistry()).authenticate_connection(certificate) is ANONYMOUS


def test_a_certificate_without_names_has_its_serial_number() -> None:
    for subject in ((), ((("commonName", ""),),)):
        client = authenticator().authenticate_connection({"subject": subject, "serialNumber": "0A"})
        assert client == Client("serial 0A")


def test_a_certificate_that_is_not_required_is_ignored() -> None:
    assert Authenticator(MetricRegistry()).authenticate_connection(APISERVER) is ANONYMOUS


# Tokens.


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    path = tmp_path / "tokens.csv"
    path.write_text("good-token,jane\nother-token,joe\n")
    return TokenFile(path, MetricRegistry())


class FakeIssuer:
    """Knows one token as soon as its keys have been fetched."""

    def __init__(self) -> None:
        self.fetches = 0

    def verify(self, token_hash: TokenHash, token: bytes) -> str | Rejection | None:
        if not self.fetches:
            return None
        return "issued" if token_hash == hash_token(b"issued-token") else Rejection(401, "bad_token", token.decode())

    async def refresh(self) -> None:
        self.fetches += 1


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (b"Bearer good-token", "jane"),
        (b"bearer other-token", "joe"),
        (None, "no_token"),
        (b"", "no_token"),
        (b"Bearer", "no_token"),
        (b"Bearer ", "no_token"),
        (b"good-token", "no_token"),
        (b"Basic good-token", "no_token"),
        (b"Bearer  good-token", "bad_token"),
        (b"Bearer good-token ", "bad_token"),
        (b"Bearer good-toke", "bad_token"),
        (b"Bearer Good-token", "bad_token"),
        (b"Bearer good-token,other-token", "bad_token"),
        (b"Bearer jane", "bad_token"),
        (b"Bearer \xff", "bad_token"),
    ],
)
def test_a_token_of_the_file(authorization: bytes | None, expected: str, tokens: TokenFile) -> None:
    result = Authenticator(MetricRegistry(), token_file=tokens).authenticate_request(ANONYMOUS, authorization)
    assert result is not None
    if isinstance(result, Rejection):
        assert (result.code, result.reason) == (401, expected)
        assert "token," not in result.message
    else:
        assert result == Client(user=expected)


def test_a_certificate_and_a_token(tokens: TokenFile) -> None:
    both, good = authenticator("apiserver", token_file=tokens), b"Bearer good-token"
    connection = both.authenticate_connection(APISERVER)
    assert both.authenticate_request(connection, good) == Client("apiserver", "jane")
    without_certificate = both.authenticate_connection(None)
    wrong_certificate = authenticator("other").authenticate_connection(APISERVER)
    for rejected in (
        both.authenticate_request(connection, None),
        both.authenticate_request(without_certificate, good),
        both.authenticate_request(wrong_certificate, good),
    ):
        assert isinstance(rejected, Rejection)


def test_a_file_and_an_issuer(tokens: TokenFile) -> None:
    issuer = FakeIssuer()
    either = Authenticator(MetricRegistry(), token_file=tokens, issuer=issuer)

    def authenticate(authorization: bytes) -> Authentication:
        return asyncio.run(either.authenticate_request_async(ANONYMOUS, authorization))

    assert authenticate(b"Bearer good-token") == Client(user="jane")
    assert issuer.fetches == 0
    assert either.authenticate_request(ANONYMOUS, b"Bearer issued-token") is None
    assert authenticate(b"Bearer issued-token") == Client(user="issued")
    assert issuer.fetches == 1
    assert isinstance(authenticate(b"Bearer another-token"), Rejection)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ConnectionResetError(), None),
        (ssl.SSLError(1, "no shared cipher"), None),
        (ssl.SSLCertVerificationError(1, "it has expired"), "bad_certificate"),
    ],
)
def test_failed_handshakes(failure: OSError, reason: str | None) -> None:
    if isinstance(failure, ssl.SSLCertVerificationError):
        failure.verify_message = "certificate has expired"
    metrics = MetricRegistry()
    Authenticator(metrics, allowed_names=()).record_failed_handshake(failure, "127.0.0.1")
    values = metrics.by_name["webhooks_clients_rejected"].values
    assert values == ({(reason,): 1.0} if reason else {})


# Settings.

OIDC = {"oidc_issuer": "https://issuer.example.org", "oidc_audience": "webhooks", "oidc_subject": ("jane",)}


def test_by_default_every_client_is_accepted() -> None:
    default = Authenticator.from_settings(Settings(), MetricRegistry())
    assert default.authenticate_request(default.authenticate_connection(None), None) is ANONYMOUS


def test_settings_require_a_certificate_a_token_or_both(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("good,jane\n")
    certificate: dict[str, Any] = {"client_ca": tmp_path / "ca.pem", "allow_client": ("apiserver",)}
    for settings, requires_token in (
        (certificate, False),
        ({"token_file": tmp_path / "tokens"}, True),
        (OIDC, True),
        ({**certificate, "token_file": tmp_path / "tokens", **OIDC}, True),
    ):
        created = Authenticator.from_settings(Settings(**settings), MetricRegistry())
        assert created.requires_token is requires_token
        assert isinstance(created.authenticate_connection(None), Rejection) is ("client_ca" in settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token_file": Path("/nowhere")}, "/nowhere: cannot be read"),
        ({**OIDC, "oidc_ca": Path("/nowhere")}, "/nowhere: cannot be read: No such file"),
        ({**OIDC, "oidc_ca": Path(__file__)}, "must contain CA certificates"),
        ({**OIDC, "oidc_audience": ""}, "requires --oidc-audience"),
        ({**OIDC, "oidc_audience": None}, "requires --oidc-audience"),
        *(
            ({**OIDC, "oidc_issuer": url}, "must be https:// with a host and an optional path")
            for url in (
                "",
                "http://issuer.example.org",
                "issuer.example.org",
                "https://",
                "https://[",
                "https://issuer.example.org:port",
                "https://jane:secret@issuer.example.org",
                "https://issuer.example.org?a=b",
                "https://issuer.example.org#a",
            )
        ),
    ],
)
def test_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Authenticator.from_settings(Settings(**settings), MetricRegistry())
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_ca_of_the_issuer(tmp_path: Path) -> None:
    certificates.issue(tmp_path, names=["localhost"])
    settings = Settings(**OIDC, oidc_ca=tmp_path / "ca.pem")
    assert Authenticator.from_settings(settings, MetricRegistry()).requires_token


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "webhooks.auth.oidc", raising=False)
    monkeypatch.setitem(sys.modules, "joserfc", None)
    message = (
        r"--oidc-issuer requires the module joserfc: install the extra oidc: pip install 'cluster-webhooks\[oidc\]'"
    )
    with pytest.raises(ConfigurationError, match=message):
        Authenticator.from_settings(Settings(**OIDC), MetricRegistry())


# Certificates on a real server.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def ca(folder: Path) -> Identity:
    return identity(folder, "clients", is_ca=True)


@pytest.fixture(scope="module")
def server(folder: Path, ca: Identity, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--client-ca", ca.files[0], *(part for name in ALLOWED_NAMES for part in ("--allow-client", name)))
    with serving(tmp_path_factory.mktemp("server"), *options) as server:
        yield server


@pytest.mark.parametrize("name", LISTED)
def test_listed_clients_are_accepted(name: str, server: Server, folder: Path, ca: Identity) -> None:
    reply = post_review(server, client_tls(server, identity(folder, signer=ca, **LISTED[name])))
    assert reply is not None
    assert reply.json()["response"] == {"uid": "uid-1", "allowed": True}


@pytest.mark.parametrize("path", [VALIDATE, "/authorize", "/audit", "/docs", "/metrics", "/nothing"])
@pytest.mark.parametrize("name", UNLISTED)
def test_unlisted_clients_reach_no_policy(name: str, path: str, server: Server, folder: Path, ca: Identity) -> None:
    arguments, reason = UNLISTED[name]
    signers = {
        "other": identity(folder, "clients", is_ca=True),
        "listed": identity(folder, "listed", ca),
        None: None,
    }
    signer = signers[arguments["signer"]] if "signer" in arguments else ca
    client = identity(folder, **{**arguments, "signer": signer})
    rejections = metric_samples(server, "webhooks_clients_rejected_total")
    reviews = metric_samples(server, "webhooks_reviews_total")
    reply = post_review(server, client_tls(server, client), path)
    if reason == "unlisted_certificate":
        assert reply is not None
        assert (reply.status, reply.closes, reply.json()["reason"]) == (403, True, "Forbidden")
    else:
        assert reply is None
    labels = f'{{reason="{reason}"}}'
    after = metric_samples(server, "webhooks_clients_rejected_total")
    assert after == rejections | {labels: rejections.get(labels, 0) + 1}
    assert metric_samples(server, "webhooks_reviews_total") == reviews


def test_a_client_without_a_certificate_is_rejected(server: Server) -> None:
    before = metric_samples(server, "webhooks_clients_rejected_total")
    assert post_review(server, client_context(server.folder / "certs" / "ca.pem")) is None
    labels = '{reason="no_certificate"}'
    assert metric_samples(server, "webhooks_clients_rejected_total")[labels] == before.get(labels, 0) + 1


def test_the_log_shows_who_was_rejected_and_why(server: Server, folder: Path, ca: Identity) -> None:
    start = len(server.errors.lines)
    post_review(server, client_tls(server, identity(folder, "unlisted\n{", ca, names=["DNS:web"])))
    record = json.loads(server.errors.await_line("unlisted\\n{", start))
    assert (record["level"], record["logger"]) == ("warning", "webhooks.auth")
    assert record["message"] == (
        "rejected a client at 127.0.0.1: no name of its certificate is allowed: unlisted\n{, web"
    )


GET_LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def pipelined(body: bytes, *headers: bytes) -> bytes:
    head = [b"POST /admission/validate HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def test_a_rejection_ends_a_pipeline(server: Server, folder: Path, ca: Identity) -> None:
    with server.connect(client_tls(server, identity(folder, "unlisted", ca))) as connection:
        connection.send(b"".join([GET_LIVEZ, pipelined(ALLOWED_REVIEW), pipelined(ALLOWED_REVIEW)]))
        assert connection.reply().body == b"ok"
        assert connection.reply().status == 403
        assert connection.is_closed()


def test_the_body_of_a_rejected_client_is_not_read(server: Server, folder: Path, ca: Identity) -> None:
    with server.connect(client_tls(server, identity(folder, "unlisted", ca))) as connection:
        connection.send(pipelined(b"")[: -len(b"0\r\n\r\n")] + b"100\r\n\r\n")
        assert connection.reply().status == 403
        assert connection.is_closed()


def test_health_requires_no_listed_name(server: Server, folder: Path, ca: Identity) -> None:
    context = client_tls(server, identity(folder, "unlisted", ca))
    for path in ("/livez", "/readyz", "/healthz"):
        with server.connect(context) as connection:
            connection.request("GET", path, headers={})
            assert connection.reply().body == b"ok"


def test_the_log_shows_the_client_of_a_review(server: Server, folder: Path, ca: Identity) -> None:
    start = len(server.errors.lines)
    with server.connect(client_tls(server, identity(folder, "listed", ca))) as connection:
        connection.post(VALIDATE, review("raises"))
        connection.post(VALIDATE, b"{")
    server.errors.await_line("malformed", start)
    clients = {record["logger"]: record.get("client") for record in server.logs(start)}
    assert clients.items() >= {"webhooks.policies": "listed", "webhooks.reviews": "listed"}.items()


def test_the_clients_of_a_removed_ca_cannot_resume_sessions(tmp_path: Path, folder: Path, ca: Identity) -> None:
    client_ca = tmp_path / "client-ca.pem"
    client_ca.write_bytes(ca.files[0].read_bytes())
    new_ca = identity(folder, "clients", is_ca=True)
    with serving(tmp_path, "--client-ca", client_ca) as server, ExitStack() as stack:
        old = client_tls(server, identity(folder, "listed", ca))
        connection = stack.enter_context(server.connect(old))
        assert connection.post(VALIDATE, ALLOWED_REVIEW).status == 200
        session = connection.socket.session
        client_ca.write_bytes(new_ca.files[0].read_bytes())
        new = client_tls(server, identity(folder, "listed", new_ca))
        await_true(lambda: post_review(server, new) is not None, "the clients of the new CA are accepted")
        assert post_review(server, old) is None
        with pytest.raises(TLS_ERRORS), resumed(server, old, session) as again:
            pytest.fail(f"resumed: {again.post(VALIDATE, ALLOWED_REVIEW)}")


def test_the_connections_of_a_removed_ca_are_closed(tmp_path: Path, folder: Path, ca: Identity) -> None:
    """Connections whose clients another CA signed stay open."""
    client_ca = tmp_path / "client-ca.pem"
    other_ca = identity(folder, "others", is_ca=True)
    client_ca.write_bytes(ca.files[0].read_bytes() + other_ca.files[0].read_bytes())
    with serving(tmp_path, "--client-ca", client_ca) as server, ExitStack() as stack:
        removed = stack.enter_context(server.connect(client_tls(server, identity(folder, "listed", ca))))
        kept = stack.enter_context(server.connect(client_tls(server, identity(folder, "listed", other_ca))))
        assert [connection.post(VALIDATE, ALLOWED_REVIEW).status for connection in (removed, kept)] == [200, 200]
        client_ca.write_bytes(other_ca.files[0].read_bytes())
        assert removed.is_closed()
        assert kept.post(VALIDATE, ALLOWED_REVIEW).status == 200
        closed = metric_samples(server, "webhooks_connections_closed_total")
        assert closed == {'{port="reviews",reason="untrusted"}': 1}


def test_a_handshake_that_began_before_its_ca_was_removed(tmp_path: Path, folder: Path, ca: Identity) -> None:
    """TLS verifies the client by the old CAs; its connection is closed after the handshake."""
    client_ca = tmp_path / "client-ca.pem"
    others = [identity(folder, "others", is_ca=True).files[0].read_bytes() for _ in range(2)]
    client_ca.write_bytes(ca.files[0].read_bytes() + others[0])
    with serving(tmp_path, "--client-ca", client_ca, "--tls-timeout", "30s") as server:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_tls(server, identity(folder, "listed", ca))
        client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with socket.create_connection(("127.0.0.1", server.port), SECONDS) as raw:
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            raw.sendall(outgoing.read())
            incoming.write(raw.recv(65536))
            client_ca.write_bytes(others[1])
            server.errors.await_line("certificates were reloaded")
            client.do_handshake()
            client.write(request("POST", VALIDATE, ALLOWED_REVIEW))
            raw.sendall(outgoing.read())
            with suppress(ConnectionResetError):
                assert raw.recv(65536) == b""


def resumed(server: Server, context: ssl.SSLContext, session: ssl.SSLSession | None) -> Connection:
    """Connect with the TLS session of another connection."""
    wrap = context.wrap_socket

    def wrap_with_session(*arguments: Any, **options: Any) -> ssl.SSLSocket:
        return wrap(*arguments, session=session, **options)

    context.wrap_socket = wrap_with_session  # type: ignore[method-assign]
    return server.connect(context)


def test_certificates_of_our_own_ca(tmp_path: Path) -> None:
    pair = certificates.issue_client(tmp_path / "certs", "apiserver")
    with serving(tmp_path, "--client-ca", tmp_path / "certs" / "ca.pem", "--allow-client", "apiserver") as server:
        reply = post_review(server, client_context(tmp_path / "certs" / "ca.pem", (pair.certificate, pair.key)))
        assert reply is not None
        assert reply.status == 200


# Tokens on a real server, alone and with certificates.


@pytest.fixture(scope="module")
def token_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("token_server")
    (folder / "tokens.csv").write_text("good-token,jane\n")
    with serving(folder, "--token-file", folder / "tokens.csv") as server:
        yield server


@pytest.mark.parametrize("path", [VALIDATE, "/docs", "/openapi.json", "/metrics", "/nothing", "/livez/"])
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer bad-token"}, {"Authorization": "Basic Z29vZC10b2tlbg=="}], ids=str
)
def test_requests_without_a_valid_token(path: str, headers: Mapping[str, str], token_server: Server) -> None:
    reviews = metric_samples(token_server, "webhooks_reviews_total")
    with token_server.connect() as connection:
        reply = connection.post(path, ALLOWED_REVIEW, {**REVIEWS, **headers})
        assert (reply.status, reply.json()["reason"]) == (401, "Unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.closes
        assert connection.is_closed()
    assert metric_samples(token_server, "webhooks_reviews_total") == reviews
    assert not any("bad-token" in line for line in token_server.errors.lines)


def test_each_request_requires_a_token(token_server: Server) -> None:
    good = {**REVIEWS, "Authorization": "Bearer good-token"}
    with token_server.connect() as connection:
        for _ in range(2):
            assert connection.post(VALIDATE, ALLOWED_REVIEW, good).json()["response"]["allowed"] is True
        connection.request("GET", "/openapi.json", headers=good)
        assert connection.reply().status == 200
        assert connection.post(VALIDATE, ALLOWED_REVIEW).status == 401
        assert connection.is_closed()


def test_a_bad_token_in_a_pipeline(token_server: Server) -> None:
    good, bad = b"Authorization: Bearer good-token", b"Authorization: Bearer bad-token"
    with Gate() as gate, token_server.connect() as connection:
        connection.send(pipelined(gate.review("waits"), good))
        connection.send(b"".join(pipelined(ALLOWED_REVIEW, header) for header in (good, bad, good)))
        gate.await_policy()
        gate.open()
        assert [connection.reply().status for _ in range(3)] == [200, 200, 401]
        assert connection.is_closed()


def test_health_requires_no_token(token_server: Server) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        assert token_server.get(path).body == b"ok"
    assert token_server.get("/metrics", ops=True).status == 200


def test_each_worker_reloads_the_token_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("old-token,jane\n")
    with serving(tmp_path, "--token-file", path, "--workers", 2) as server:

        def status(token: str) -> int:
            return server.post(VALIDATE, ALLOWED_REVIEW, {**REVIEWS, "Authorization": f"Bearer {token}"}).status

        assert status("old-token") == 200
        path.write_text("new-token,jane\n")
        await_true(lambda: {status("new-token") for _ in range(8)} == {200}, "the new token is accepted")
        await_true(lambda: {status("old-token") for _ in range(8)} == {401}, "the old token is rejected")


def test_a_certificate_and_a_token_are_both_required(tmp_path: Path, folder: Path, ca: Identity) -> None:
    (tmp_path / "tokens.csv").write_text("good-token,jane\n")
    options = ("--client-ca", ca.files[0], "--allow-client", "listed", "--token-file", tmp_path / "tokens.csv")
    with serving(tmp_path, *options) as server:
        statuses = []
        for name in ("listed", "unlisted"):
            context = client_tls(server, identity(folder, name, ca))
            for token in ("good-token", "bad-token"):
                reply = post_review(server, context, Authorization=f"Bearer {token}")
                statuses.append(reply and reply.status)
        assert statuses == [200, 401, 403, 403]
        without_certificate = client_context(server.folder / "certs" / "ca.pem")
        assert post_review(server, without_certificate, Authorization="Bearer good-token") is None

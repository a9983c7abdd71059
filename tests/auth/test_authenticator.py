"""Who may call: certificates, tokens, and both; on a real server, by everything that can be wrong with a caller."""

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from webhooks import Allow, certificates, create_app, validating
from webhooks.auth.authenticator import Authenticator
from webhooks.auth.client import ANONYMOUS, Authentication, Client, Rejection
from webhooks.auth.token_file import TokenFile, TokenHash, hash_token
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.loader import PluginContext

from ..support.identities import CLIENT, DAY, SERVER, Identity, identity
from ..support.servers import (
    REVIEWS,
    SECONDS,
    Connection,
    Gate,
    Reply,
    Server,
    await_true,
    client_context,
    request,
    review,
    serving,
)

VALIDATE = "/admission/validate"
GOOD = review()
REFUSED = (ssl.SSLError, ConnectionResetError, BrokenPipeError, EOFError)

# What TLS tells of a certificate.
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


def callers(*names: str, **more: Any) -> Authenticator:
    return Authenticator(MetricRegistry(), allowed_names=names, **more)


# One certificate, one decision.


@pytest.mark.parametrize(
    ("allowed", "known_as"),
    [
        ((), "apiserver"),
        (("apiserver",), "apiserver"),
        (("nobody", "apiserver.svc"), "apiserver.svc"),
        (("spiffe://cluster/apiserver",), "spiffe://cluster/apiserver"),
        (("apiserver@example.org",), "apiserver@example.org"),
        (("10.0.0.1",), "10.0.0.1"),
        (("2001:db8::1",), "2001:db8::1"),
        (("2001:DB8:0::1",), "2001:db8::1"),
    ],
)
def test_a_listed_name(allowed: tuple[str, ...], known_as: str) -> None:
    assert callers(*allowed).authenticate_connection(APISERVER) == Client(known_as)


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
def test_names_are_exact(allowed: str) -> None:
    met = callers(allowed).authenticate_connection(APISERVER)
    assert isinstance(met, Rejection)
    assert (met.code, met.reason) == (403, "unlisted_certificate")
    assert "apiserver, apiserver.svc, spiffe://cluster/apiserver" in met.message


@pytest.mark.parametrize("certificate", [None, {}])
def test_no_certificate(certificate: Mapping[str, Any] | None) -> None:
    met = callers().authenticate_connection(certificate)
    assert isinstance(met, Rejection)
    assert met.reason == "no_certificate"
    assert Authenticator(MetricRegistry()).authenticate_connection(certificate) is ANONYMOUS


def test_a_certificate_without_a_name_has_a_number() -> None:
    for subject in ((), ((("commonName", ""),),)):
        assert callers().authenticate_connection({"subject": subject, "serialNumber": "0A"}) == Client("serial 0A")


def test_a_certificate_that_was_not_asked_for_names_nobody() -> None:
    assert Authenticator(MetricRegistry()).authenticate_connection(APISERVER) is ANONYMOUS


# Tokens, one in each request.


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    file = tmp_path / "tokens.csv"
    file.write_text("good-token,jane\nother-token,joe\n")
    return TokenFile(file, MetricRegistry())


class FixedIssuer:
    """Knows one token as soon as it has been asked for its keys."""

    def __init__(self) -> None:
        self.asked = 0

    def verify(self, token_hash: TokenHash, token: bytes) -> str | Rejection | None:
        if not self.asked:
            return None
        return "issued" if token_hash == hash_token(b"issued-token") else Rejection(401, "bad_token", token.decode())

    async def refresh(self) -> None:
        self.asked += 1


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
    found = Authenticator(MetricRegistry(), token_file=tokens).authenticate_request(ANONYMOUS, authorization)
    assert found is not None
    if isinstance(found, Rejection):
        assert (found.code, found.reason) == (401, expected)
        assert "token," not in found.message
    else:
        assert found == Client(user=expected)


def test_a_certificate_and_a_token(tokens: TokenFile) -> None:
    both = callers("apiserver", token_file=tokens)
    met = both.authenticate_connection(APISERVER)
    found = both.authenticate_request(met, b"Bearer good-token")
    assert found == Client("apiserver", "jane")
    assert str(found) == "apiserver as jane"
    assert isinstance(both.authenticate_request(met, None), Rejection)
    assert isinstance(both.authenticate_request(both.authenticate_connection(None), b"Bearer good-token"), Rejection)
    assert isinstance(
        both.authenticate_request(callers("other").authenticate_connection(APISERVER), b"Bearer good-token"), Rejection
    )


def test_a_file_and_an_issuer(tokens: TokenFile) -> None:
    issuer = FixedIssuer()
    either = Authenticator(MetricRegistry(), token_file=tokens, issuer=issuer)

    def identified(authorization: bytes) -> Authentication:
        return asyncio.run(either.authenticate_request_async(ANONYMOUS, authorization))

    assert identified(b"Bearer good-token") == Client(user="jane")
    assert issuer.asked == 0
    assert either.authenticate_request(ANONYMOUS, b"Bearer issued-token") is None
    assert identified(b"Bearer issued-token") == Client(user="issued")
    assert issuer.asked == 1
    assert isinstance(identified(b"Bearer another-token"), Rejection)


def test_where_nothing_is_asked_for_everybody_may_call() -> None:
    everybody = Authenticator(MetricRegistry())
    assert everybody.authenticate_request(everybody.authenticate_connection(None), None) is ANONYMOUS
    assert str(ANONYMOUS) == ""


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (ConnectionResetError(), None),
        (ssl.SSLError(1, "no shared cipher"), None),
        (ssl.SSLCertVerificationError(1, "it has expired"), "bad_certificate"),
    ],
)
def test_handshakes_that_fail(failure: OSError, reason: str | None) -> None:
    if isinstance(failure, ssl.SSLCertVerificationError):
        failure.verify_message = "certificate has expired"
    meters = MetricRegistry()
    Authenticator(meters, allowed_names=()).record_failed_handshake(failure, "127.0.0.1")
    counted = meters.by_name["webhooks_clients_rejected"].values
    assert counted == ({(reason,): 1.0} if reason else {})


# On a real server.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identities")


@pytest.fixture(scope="module")
def ca(folder: Path) -> Identity:
    return identity(folder, "callers", authority=True)


NAMED = ("listed", "cluster.example.org", "spiffe://cluster/api", "api@example.org", "10.1.2.3", "fd00::1")
LISTED: Mapping[str, dict[str, Any]] = {
    "by the common name": {"name": "listed"},
    "by the common name, beside others": {"name": "listed", "names": ["DNS:other"]},
    "by a DNS name": {"name": "other", "names": ["DNS:first", "DNS:cluster.example.org"]},
    "by a URI": {"names": ["URI:spiffe://cluster/api"]},
    "by an email": {"name": "other", "names": ["email:api@example.org"]},
    "by an IPv4 address": {"names": ["IP:10.1.2.3"]},
    "by an IPv6 address": {"names": ["IP:fd00::1"]},
    "for anything": {"name": "listed", "usages": []},
    "for servers and callers": {"name": "listed", "usages": [SERVER, CLIENT]},
}
STRANGERS: Mapping[str, tuple[dict[str, Any], str]] = {
    "wrong name": ({"name": "unlisted"}, "unlisted_certificate"),
    "a name that begins alike": ({"name": "listed.example.org"}, "unlisted_certificate"),
    "a name in another case": ({"name": "Listed"}, "unlisted_certificate"),
    "a name with a null byte": ({"name": "listed\0.example.org"}, "unlisted_certificate"),
    "an address as a name": ({"name": "other", "names": ["DNS:10.1.2.4"]}, "unlisted_certificate"),
    "no name": ({}, "unlisted_certificate"),
    "expired": ({"name": "listed", "begins": -2 * DAY, "ends": -DAY}, "bad_certificate"),
    "not yet valid": ({"name": "listed", "begins": DAY, "ends": 2 * DAY}, "bad_certificate"),
    "wrong usage": ({"name": "listed", "usages": [SERVER]}, "bad_certificate"),
    "wrong authority": ({"name": "listed", "signer": "other"}, "bad_certificate"),
    "self-signed": ({"name": "listed", "signer": None}, "bad_certificate"),
    "signed by a caller": ({"name": "listed", "signer": "listed"}, "bad_certificate"),
}


@pytest.fixture(scope="module")
def server(folder: Path, ca: Identity, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--client-ca", ca.files[0], *(part for name in NAMED for part in ("--allow-client", name)))
    with serving(tmp_path_factory.mktemp("server"), *options) as server:
        yield server


def shown(server: Server, caller: Identity) -> ssl.SSLContext:
    return client_context(server.folder / "certs" / "ca.pem", caller.files)


def counted(server: Server, name: str) -> dict[str, float]:
    """What a metric counts, by its labels."""
    lines = server.get("/metrics", ops=True).body.decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if line.startswith(name)]
    return {labels.removeprefix(name): float(value) for labels, value in samples}


def attempt(server: Server, context: ssl.SSLContext, path: str = VALIDATE, **headers: str) -> Reply | None:
    """The answer to a good review; None for a caller whom TLS does not let in."""
    try:
        with server.connect(context) as connection:
            return connection.post(path, GOOD, {**REVIEWS, **headers})
    except REFUSED:
        return None


@pytest.mark.parametrize("name", LISTED)
def test_listed_callers_are_heard(name: str, server: Server, folder: Path, ca: Identity) -> None:
    reply = attempt(server, shown(server, identity(folder, signer=ca, **LISTED[name])))
    assert reply is not None
    assert reply.json()["response"] == {"uid": "uid-1", "allowed": True}


@pytest.mark.parametrize("path", [VALIDATE, "/authorize", "/audit", "/docs", "/metrics", "/nothing"])
@pytest.mark.parametrize("name", STRANGERS)
def test_strangers_reach_no_policy(name: str, path: str, server: Server, folder: Path, ca: Identity) -> None:
    given, reason = STRANGERS[name]
    signers = {"other": identity(folder, "callers", authority=True), "listed": identity(folder, "listed", ca)}
    signer = signers[given["signer"]] if given.get("signer") else None if "signer" in given else ca
    stranger = identity(folder, **{**given, "signer": signer})
    before, heard = counted(server, "webhooks_clients_rejected_total"), counted(server, "webhooks_reviews_total")
    reply = attempt(server, shown(server, stranger), path)
    if reason == "unlisted_certificate":
        assert reply is not None
        assert (reply.status, reply.closes, reply.json()["reason"]) == (403, True, "Forbidden")
    else:
        assert reply is None
    labels = f'{{reason="{reason}"}}'
    after = counted(server, "webhooks_clients_rejected_total")
    assert after == before | {labels: before.get(labels, 0) + 1}
    assert counted(server, "webhooks_reviews_total") == heard


def test_whoever_shows_no_certificate_is_not_let_in(server: Server) -> None:
    before = counted(server, "webhooks_clients_rejected_total")
    assert attempt(server, client_context(server.folder / "certs" / "ca.pem")) is None
    labels = '{reason="no_certificate"}'
    assert counted(server, "webhooks_clients_rejected_total")[labels] == before.get(labels, 0) + 1


def test_the_log_tells_who_was_refused_and_why(server: Server, folder: Path, ca: Identity) -> None:
    start = len(server.errors.lines)
    attempt(server, shown(server, identity(folder, "unlisted\n{", ca, names=["DNS:web"])))
    record = json.loads(server.errors.await_line("unlisted\\n{", start))
    assert (record["level"], record["logger"]) == ("warning", "webhooks.auth")
    assert record["message"] == (
        "rejected a client at 127.0.0.1: no name of its certificate is allowed: unlisted\n{, web"
    )


def test_a_stranger_is_refused_behind_another_request_and_then_not_heard_any_more(
    server: Server, folder: Path, ca: Identity
) -> None:
    with server.connect(shown(server, identity(folder, "unlisted", ca))) as connection:
        connection.send(b"".join([GET_LIVEZ, posted(GOOD), posted(GOOD)]))
        assert connection.reply().body == b"ok"
        assert connection.reply().status == 403
        assert connection.is_closed()


GET_LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def posted(body: bytes, *lines: bytes) -> bytes:
    head = [b"POST /admission/validate HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def test_the_body_of_a_stranger_is_not_waited_for(server: Server, folder: Path, ca: Identity) -> None:
    with server.connect(shown(server, identity(folder, "unlisted", ca))) as connection:
        connection.send(posted(b"")[: -len(b"0\r\n\r\n")] + b"100\r\n\r\n")
        assert connection.reply().status == 403
        assert connection.is_closed()


def test_health_needs_no_name_on_the_list(server: Server, folder: Path, ca: Identity) -> None:
    context = shown(server, identity(folder, "unlisted", ca))
    for path in ("/livez", "/readyz", "/healthz"):
        with server.connect(context) as connection:
            connection.request("GET", path, headers={})
            assert connection.reply().body == b"ok"


def test_the_caller_is_in_the_log(server: Server, folder: Path, ca: Identity) -> None:
    start = len(server.errors.lines)
    with server.connect(shown(server, identity(folder, "listed", ca))) as connection:
        connection.post(VALIDATE, review("raises"))
        connection.post(VALIDATE, b"{")
    server.errors.await_line("malformed", start)
    found = {record["logger"]: record.get("client") for record in server.logs(start)}
    assert found.items() >= {"webhooks.policies": "listed", "webhooks.reviews": "listed"}.items()


def test_sessions_do_not_outlive_the_authority(tmp_path: Path, folder: Path, ca: Identity) -> None:
    callers_ca = tmp_path / "callers.pem"
    callers_ca.write_bytes(ca.files[0].read_bytes())
    following = identity(folder, "callers", authority=True)
    with serving(tmp_path, "--client-ca", callers_ca) as server, ExitStack() as stack:
        old = shown(server, identity(folder, "listed", ca))
        connection = stack.enter_context(server.connect(old))
        assert connection.post(VALIDATE, GOOD).status == 200
        session = connection.socket.session
        callers_ca.write_bytes(following.files[0].read_bytes())
        new = shown(server, identity(folder, "listed", following))
        await_true(lambda: attempt(server, new) is not None, "the new authority's callers are let in")
        assert attempt(server, old) is None
        with pytest.raises(REFUSED), resumed(server, old, session) as again:
            pytest.fail(f"resumed: {again.post(VALIDATE, GOOD)}")


def test_connections_do_not_outlive_the_authority(tmp_path: Path, folder: Path, ca: Identity) -> None:
    """Those of callers whom another authority has signed are not touched."""
    callers_ca = tmp_path / "callers.pem"
    staying = identity(folder, "others", authority=True)
    both = ca.files[0].read_bytes() + staying.files[0].read_bytes()
    callers_ca.write_bytes(both)
    with serving(tmp_path, "--client-ca", callers_ca) as server, ExitStack() as stack:
        gone = stack.enter_context(server.connect(shown(server, identity(folder, "listed", ca))))
        stays = stack.enter_context(server.connect(shown(server, identity(folder, "listed", staying))))
        assert [connection.post(VALIDATE, GOOD).status for connection in (gone, stays)] == [200, 200]
        callers_ca.write_bytes(staying.files[0].read_bytes())
        assert gone.is_closed()
        assert stays.post(VALIDATE, GOOD).status == 200
        assert counted(server, "webhooks_connections_closed_total") == {'{port="reviews",waited_for="trust"}': 1}


def test_handshakes_do_not_outlive_the_authority(tmp_path: Path, folder: Path, ca: Identity) -> None:
    """One that has begun goes by the authorities that there were then."""
    callers_ca = tmp_path / "callers.pem"
    callers_ca.write_bytes(ca.files[0].read_bytes() + identity(folder, "others", authority=True).files[0].read_bytes())
    with serving(tmp_path, "--client-ca", callers_ca, "--tls-timeout", "30s") as server:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = shown(server, identity(folder, "listed", ca))
        caller = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with socket.create_connection(("127.0.0.1", server.port), SECONDS) as raw:
            with pytest.raises(ssl.SSLWantReadError):
                caller.do_handshake()
            raw.sendall(outgoing.read())
            incoming.write(raw.recv(65536))
            callers_ca.write_bytes(identity(folder, "others", authority=True).files[0].read_bytes())
            server.errors.await_line("certificates are taken over")
            caller.do_handshake()
            caller.write(request("POST", VALIDATE, GOOD))
            raw.sendall(outgoing.read())
            with suppress(ConnectionResetError):
                assert raw.recv(65536) == b""


def resumed(server: Server, context: ssl.SSLContext, session: ssl.SSLSession | None) -> Connection:
    """A connection that takes up the session of another."""
    wrap = context.wrap_socket

    def wrap_with_session(*arguments: Any, **options: Any) -> ssl.SSLSocket:
        return wrap(*arguments, session=session, **options)

    context.wrap_socket = wrap_with_session  # type: ignore[method-assign]
    return server.connect(context)


# Tokens on a real server, alone and with certificates.


@pytest.fixture(scope="module")
def by_token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("by_token")
    (folder / "tokens.csv").write_text("good-token,jane\n")
    with serving(folder, "--token-file", folder / "tokens.csv") as server:
        yield server


@pytest.mark.parametrize("path", [VALIDATE, "/docs", "/openapi.json", "/metrics", "/nothing", "/livez/"])
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer bad-token"}, {"Authorization": "Basic Z29vZC10b2tlbg=="}], ids=str
)
def test_without_a_good_token_nothing_is_heard(path: str, headers: Mapping[str, str], by_token: Server) -> None:
    heard = counted(by_token, "webhooks_reviews_total")
    with by_token.connect() as connection:
        reply = connection.post(path, GOOD, {**REVIEWS, **headers})
        assert (reply.status, reply.json()["reason"]) == (401, "Unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert reply.closes
        assert connection.is_closed()
    assert counted(by_token, "webhooks_reviews_total") == heard
    assert not any("bad-token" in line for line in by_token.errors.lines)


def test_each_request_needs_its_token(by_token: Server) -> None:
    good = {**REVIEWS, "Authorization": "Bearer good-token"}
    with by_token.connect() as connection:
        for _ in range(2):
            assert connection.post(VALIDATE, GOOD, good).json()["response"]["allowed"] is True
        connection.request("GET", "/openapi.json", headers=good)
        assert connection.reply().status == 200
        assert connection.post(VALIDATE, GOOD).status == 401
        assert connection.is_closed()


def test_a_token_behind_a_review_that_is_still_answered(by_token: Server) -> None:
    good, bad = b"Authorization: Bearer good-token", b"Authorization: Bearer bad-token"
    with Gate() as gate, by_token.connect() as connection:
        connection.send(posted(gate.review("waits"), good))
        connection.send(posted(GOOD, good) + posted(GOOD, bad) + posted(GOOD, good))
        gate.await_policy()
        gate.open()
        assert [connection.reply().status for _ in range(3)] == [200, 200, 401]
        assert connection.is_closed()


def test_health_needs_no_token(by_token: Server) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        assert by_token.get(path).body == b"ok"
    assert by_token.get("/metrics", ops=True).status == 200


def test_the_file_of_tokens_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text("old-token,jane\n")
    with serving(tmp_path, "--token-file", file, "--workers", 2) as server:

        def status(token: str) -> int:
            return server.post(VALIDATE, GOOD, {**REVIEWS, "Authorization": f"Bearer {token}"}).status

        assert status("old-token") == 200
        file.write_text("new-token,jane\n")
        await_true(lambda: {status("new-token") for _ in range(8)} == {200}, "the new token is taken")
        await_true(lambda: {status("old-token") for _ in range(8)} == {401}, "the old token is not")


def test_a_certificate_and_a_token_are_both_needed(tmp_path: Path, folder: Path, ca: Identity) -> None:
    (tmp_path / "tokens.csv").write_text("good-token,jane\n")
    options = ("--client-ca", ca.files[0], "--allow-client", "listed", "--token-file", tmp_path / "tokens.csv")
    with serving(tmp_path, *options) as server:
        listed, unlisted = (shown(server, identity(folder, name, ca)) for name in ("listed", "unlisted"))
        statuses = []
        for context in (listed, unlisted):
            for token in ("good-token", "bad-token"):
                reply = attempt(server, context, Authorization=f"Bearer {token}")
                statuses.append(reply and reply.status)
        assert statuses == [200, 401, 403, 403]
        assert attempt(server, client_context(server.folder / "certs" / "ca.pem"), Authorization="Bearer good") is None


# Under another ASGI server.


@validating("widgets")
def allows(review: Any) -> Allow:
    return Allow()


@pytest.fixture
def site() -> PluginContext:
    return PluginContext()


@pytest.mark.parametrize("mounted", [False, True])
def test_tokens_under_another_server(mounted: bool, tokens: TokenFile, site: PluginContext) -> None:
    app = create_app([allows], site, callers=Authenticator(site.meters, token_file=tokens))
    client = TestClient(Starlette(routes=[Mount("/hooks", app)]) if mounted else app)
    root = "/hooks" if mounted else ""
    good = {**REVIEWS, "Authorization": "Bearer good-token"}
    assert client.post(f"{root}{VALIDATE}", content=GOOD, headers=good).json()["response"]["allowed"] is True
    assert client.get(f"{root}/docs", headers=good).status_code == 200
    for path in (VALIDATE, "/docs", "/openapi.json", "/metrics", "/nothing", "/livez/", "//livez", "/hooks/livez"):
        reply = client.post(f"{root}{path}", content=b"{", headers={**REVIEWS, "Authorization": "Bearer bad-token"})
        assert reply.status_code == 401, path
        assert (reply.headers["www-authenticate"], reply.headers["connection"]) == ("Bearer", "close")
    for path in ("/livez", "/readyz", "/healthz"):
        assert client.get(f"{root}{path}").text == "ok"
    assert site.meters.by_name["webhooks_clients_rejected"].values == {("bad_token",): 8.0}


def test_a_certificate_cannot_be_seen_under_another_server(site: PluginContext) -> None:
    client = TestClient(create_app([allows], site, callers=Authenticator(site.meters, allowed_names=["apiserver"])))
    assert client.post(VALIDATE, content=GOOD, headers=REVIEWS).status_code == 403


def test_tokens_are_followed_under_another_server(
    tokens: TokenFile, site: PluginContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks.auth.token_file._POLL_INTERVAL", 0.01)
    new = {**REVIEWS, "Authorization": "Bearer new-token"}
    with TestClient(create_app([allows], site, callers=Authenticator(site.meters, token_file=tokens))) as client:
        (tmp_path / "tokens.csv").write_text("new-token,joe\n")
        await_true(lambda: client.post(VALIDATE, content=GOOD, headers=new).status_code == 200, "it is taken over")


def test_certificates_of_our_own_are_listed_by_name(tmp_path: Path) -> None:
    pair = certificates.issue_client(tmp_path / "certs", "apiserver")
    with serving(tmp_path, "--client-ca", tmp_path / "certs" / "ca.pem", "--allow-client", "apiserver") as server:
        reply = attempt(server, client_context(tmp_path / "certs" / "ca.pem", (pair.certificate, pair.key)))
        assert reply is not None
        assert reply.status == 200

"""The ASGI application: by itself, mounted in another application, and on two servers."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import Message, Scope
from starlette.websockets import WebSocketDisconnect

from webhooks import Allow, Deny, authorizing, create_app, mutating, validating
from webhooks.app.asgi import WebhookApp
from webhooks.auth import Authenticator, TokenFile
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.loader import PluginContext
from webhooks.settings import Limits

from ..support.builders import access_body, admission_body, encode_body, pod
from ..support.malformed import LIMIT, Denied, assert_response, sized
from ..support.pairs import (
    GOOD,
    VALIDATE,
    Servers,
    assert_is_status,
    assert_serves,
    assert_serves_after,
    comparable,
    serving_both,
)
from ..support.servers import REVIEWS, Connection, Server, await_true, chunked, request

REVIEW = encode_body(admission_body("CREATE", pod()))
HEADERS = {"Content-Type": "application/json"}


@validating("pods")
def allows(review: Any) -> Allow:
    return Allow()


@mutating("pods")
def denies(review: Any) -> Deny:
    return Deny("no")


@authorizing("pods")
def opens(access: Any) -> Allow:
    return Allow()


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app([allows, denies, opens])) as client:
        yield client


def review_by(client: TestClient, path: str = VALIDATE) -> Any:
    reply = client.post(path, content=REVIEW, headers=HEADERS)
    assert reply.status_code == 200
    return reply.json()["response"]


def test_reviews(client: TestClient) -> None:
    assert review_by(client)["allowed"] is True
    assert review_by(client, "/admission/mutate")["allowed"] is False
    assert client.post("/authorize", json=access_body(verb="get", resource="pods")).json()["status"] == {
        "allowed": True
    }


def test_two_policies_of_one_name() -> None:
    with pytest.raises(ConfigurationError, match="'allows'"):
        create_app([allows, denies.with_name("allows")])


def test_applications_share_nothing() -> None:
    first, second = TestClient(create_app([allows])), TestClient(create_app([allows]))
    review_by(first)
    assert "webhooks_reviews_total{" in first.get("/metrics").text
    assert "webhooks_reviews_total{" not in second.get("/metrics").text


# Health.


def test_a_server_without_policies_lives_but_is_not_ready() -> None:
    client = TestClient(create_app([]))
    assert client.get("/livez").status_code == 200
    for path in ("/readyz", "/healthz"):
        reply = client.get(path)
        assert reply.status_code == 503
        lines = ["[+]ping ok", "[-]policies failed", f"{path[1:]} check failed"]
        assert reply.text.splitlines() == lines


# The documentation pages.


def test_the_documentation_needs_no_internet_access(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"(?:https?:)?//[\w.-]+\.\w", page.text)
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert {asset.rpartition(".")[2] for asset in assets} == {"js", "css", "png"}
    for asset in assets:
        reply = client.get(asset)
        assert reply.status_code == 200, asset
        assert len(reply.content) > 100
    assert "url: '/openapi.json'" in page.text
    assert client.get("/openapi.json").json()["openapi"].startswith("3.")


@pytest.mark.parametrize(
    "path", ["/docs/static/nothing.js", "/docs/static/../../pyproject.toml", "/docs/static/%2e%2e/x"]
)
def test_no_other_files_are_served(path: str, client: TestClient) -> None:
    assert client.get(path).status_code == 404


def test_there_is_no_other_documentation(client: TestClient) -> None:
    assert client.get("/redoc").status_code == 404


# Errors.


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/", 404, "NotFound"),
        ("POST", "/admission", 404, "NotFound"),
        ("POST", f"{VALIDATE}/denies", 404, "NotFound"),
        ("GET", VALIDATE, 405, "MethodNotAllowed"),
        ("PUT", f"{VALIDATE}/allows", 405, "MethodNotAllowed"),
        ("DELETE", "/livez", 405, "MethodNotAllowed"),
        ("POST", "/docs/static/favicon.png", 405, "MethodNotAllowed"),
        ("POST", VALIDATE, 415, "UnsupportedMediaType"),
    ],
)
def test_errors_are_status_objects(method: str, path: str, code: int, reason: str, client: TestClient) -> None:
    reply = client.request(method, path, content=REVIEW, headers={"Content-Type": "text/plain"})
    assert reply.status_code == code
    assert reply.headers["content-type"] == "application/json"
    status = reply.json()
    assert status.pop("message")
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": reason,
        "code": code,
    }


def test_web_sockets_are_rejected(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(VALIDATE):
        pass


# Our own server and another ASGI server respond alike.


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving_both(tmp_path_factory) as servers:
        yield servers


@pytest.fixture(params=Servers._fields)
def server(request: pytest.FixtureRequest, servers: Servers) -> Server:
    server: Server = getattr(servers, request.param)
    return server


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize("path", ["/authorize", "/authenticate", "/images", "/audit"])
def test_too_large_bodies_of_reviews_without_uid(path: str, server: Server) -> None:
    with server.connect() as connection:
        reply = connection.post(path, b" " * (LIMIT + 1))
        assert_is_status(reply, 413)
        assert reply.closes
        assert_serves_after(server, connection, reply)


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_the_body_limit_applies_to_chunks(size: int, server: Server) -> None:
    body = sized(size)
    parts = [body[start : start + 65_536] for start in range(0, size, 65_536)]
    with server.connect() as connection:
        connection.request("POST", VALIDATE, chunked(*parts), {**REVIEWS, "Transfer-Encoding": "chunked"})
        reply = connection.reply()
        if size > LIMIT:
            assert_response(reply, Denied(413, close=True))
        else:
            assert reply.json()["response"]["allowed"] is True
        assert_serves_after(server, connection, reply)


def test_an_endless_body_is_rejected(server: Server) -> None:
    head = request("POST", VALIDATE, headers={**REVIEWS, "Transfer-Encoding": "chunked"})
    with server.connect() as connection:
        connection.send(head + chunked(sized(LIMIT + 1)).removesuffix(b"0\r\n\r\n"))
        assert_response(connection.reply(), Denied(413, close=True))
        assert connection.is_closed()


def test_a_content_length_over_the_limit_is_rejected_before_the_body_arrives(server: Server) -> None:
    head = request("POST", VALIDATE, headers={**REVIEWS, "Content-Length": str(1024**3)})
    with server.connect() as connection:
        connection.send(head + sized(8192))  # the server reads the uid from a prefix of the body
        reply = connection.reply()
        assert_response(reply, Denied(413, close=True))
        assert_serves_after(server, connection, reply)


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        "application/json ; a=b; c=d",
    ],
)
def test_json_media_types(media_type: str, server: Server) -> None:
    assert server.post(VALIDATE, GOOD, {"Content-Type": media_type}).json()["response"]["allowed"] is True


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": "application/yaml"},
        {"Content-Type": "text/json, application/json"},
        {"Content-Type": "application/vnd.svc.protobuf"},
        {**REVIEWS, "Content-Encoding": "gzip"},
        {**REVIEWS, "Content-Encoding": "identity, gzip"},
    ],
    ids=str,
)
def test_other_media_types_are_rejected(headers: Mapping[str, str], servers: Servers) -> None:
    replies = []
    for server in servers:
        with server.connect() as connection:
            reply = connection.post(VALIDATE, GOOD, headers)
            assert_is_status(reply, 415)
            assert_serves_after(server, connection, reply)
            replies.append(comparable(reply))
    assert replies[0] == replies[1]


def test_the_content_encoding_identity_is_accepted(server: Server) -> None:
    assert server.post(VALIDATE, GOOD, {**REVIEWS, "Content-Encoding": "identity"}).status == 200


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/", 404),
        ("POST", "/admission", 404),
        ("POST", "/admission/mutate/nothing", 404),
        ("POST", "/admission/mutate/denies", 404),  # a validating policy
        ("POST", "/admission/validate/labelled", 404),  # a mutating policy
        ("POST", "/admission/validate/", 404),
        ("POST", "/admission/validate/denies/more", 404),
        ("POST", "/authorize/authorizes", 404),
        ("POST", "//admission/validate", 404),
        ("POST", "/ADMISSION/VALIDATE", 404),
        ("POST", "/admission/../authorize", 404),
        ("GET", "/nothing", 404),
        ("GET", VALIDATE, 405),
        ("PUT", VALIDATE, 405),
        ("PATCH", "/authorize", 405),
        ("DELETE", "/images", 405),
        ("OPTIONS", "/audit", 405),
        ("GET", "/admission/validate/denies", 405),
        ("POST", "/livez", 405),
        ("PUT", "/metrics", 405),
        ("DELETE", "/openapi.json", 405),
        ("POST", "/docs", 405),
    ],
)
def test_paths_and_methods(method: str, path: str, code: int, servers: Servers) -> None:
    replies = []
    for server in servers:
        with server.connect() as connection:
            connection.request(method, path, GOOD if method != "GET" else b"")
            reply = connection.reply()
            assert_is_status(reply, code)
            assert ("allow" in reply.headers) == (code == 405)
            assert_serves_after(server, connection, reply)
            replies.append(comparable(reply))
    assert replies[0] == replies[1]


def test_head_has_no_body(connection: Connection) -> None:
    connection.request("HEAD", VALIDATE, headers={})
    assert connection.reply(to_head=True).status == 405
    assert_serves(connection)


@pytest.mark.parametrize(
    "target", [f"{VALIDATE}?timeout=1s#part", f"https://localhost{VALIDATE}", "/admission/%76alidate", f"{VALIDATE}?"]
)
def test_other_spellings_of_a_path(target: str, servers: Servers) -> None:
    replies = [comparable(server.post(target, GOOD)) for server in servers]
    assert replies[0] == replies[1]


@pytest.mark.parametrize(
    "query",
    ["timeout=10s", "timeout=1m0s", "timeout=", "timeout=x", "timeout=%ff", "timeout=-1s", "a=b&timeout=5s&c", "&&=&"],
)
def test_queries(query: str, server: Server) -> None:
    assert server.post(f"{VALIDATE}?{query}", GOOD).json()["response"]["allowed"] is True


# Below another path, and bodies in parts.


def test_under_another_application() -> None:
    client = TestClient(Starlette(routes=[Mount("/hooks", create_app([allows, denies]))]))
    assert client.get("/hooks/livez").text == "ok"
    assert review_by(client, f"/hooks{VALIDATE}")["allowed"] is True
    assert review_by(client, "/hooks/admission/mutate/denies")["allowed"] is False
    assert client.get(f"/hooks{VALIDATE}").status_code == 405
    page = client.get("/hooks/docs").text
    assert "url: '/hooks/openapi.json'" in page
    for asset in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert client.get(asset).status_code == 200, asset


def test_behind_a_proxy_that_removes_a_part_of_the_path() -> None:
    client = TestClient(create_app([allows]), root_path="/hooks")
    assert review_by(client)["allowed"] is True
    assert "url: '/hooks/openapi.json'" in client.get("/docs").text


def call(app: WebhookApp, *messages: Message, headers: tuple[tuple[bytes, bytes], ...] = ()) -> list[Message]:
    """Return the messages that the application sends to a client that sends its body in these messages."""
    received, sent = list(messages), []
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": VALIDATE,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), *headers],
    }

    async def receive() -> Message:
        return received.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent


def test_a_rejected_client_gets_a_retry_after_header() -> None:
    @validating("pods")
    async def waits(review: Any) -> Allow:
        return Allow()

    app = create_app([waits], limits=Limits(max_in_flight=1, max_queue=0))
    app.routes._limiter.acquire()
    head, _ = call(app, part(REVIEW, more=False))
    assert head["status"] == 429
    assert (b"retry-after", b"1") in head["headers"]


def test_the_body_limit_is_configurable() -> None:
    for size, code in ((len(REVIEW), b'"allowed":true'), (len(REVIEW) - 1, b'"code":413')):
        head, body = call(create_app([allows], limits=Limits(max_body=size)), part(REVIEW, more=False))
        assert head["status"] == 200
        assert code in body["body"]


def part(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_bodies_in_parts(size: int) -> None:
    parts = [part(REVIEW[start : start + size]) for start in range(0, len(REVIEW), size)]
    head, body = call(create_app([allows]), *parts, {"type": "http.request"})
    assert head["status"] == 200
    assert b'"allowed":true' in body["body"]


@pytest.mark.parametrize("parts", [(), (part(REVIEW[:-10]),), (part(REVIEW),)])
def test_a_client_that_disconnects_within_its_body(parts: tuple[Message, ...]) -> None:
    """No policy is called, and nothing is counted."""
    called = []

    @validating("pods")
    def notes(review: Any) -> Allow:
        called.append(review)
        return Allow()

    app = create_app([notes])
    call(app, *parts, {"type": "http.disconnect"})
    assert called == []
    assert "webhooks_reviews_total{" not in TestClient(app).get("/metrics").text


# Client authentication.


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    path = tmp_path / "tokens.csv"
    path.write_text("good-token,jane\n")
    return TokenFile(path, MetricRegistry())


@pytest.fixture
def site() -> PluginContext:
    return PluginContext()


@pytest.mark.parametrize("mounted", [False, True])
def test_tokens_are_authenticated(mounted: bool, tokens: TokenFile, site: PluginContext) -> None:
    app = create_app([allows], site, authenticator=Authenticator(site.metrics, token_file=tokens))
    client = TestClient(Starlette(routes=[Mount("/hooks", app)]) if mounted else app)
    root = "/hooks" if mounted else ""
    good = {**HEADERS, "Authorization": "Bearer good-token"}
    reply = client.post(f"{root}{VALIDATE}", content=REVIEW, headers=good)
    assert reply.json()["response"]["allowed"] is True
    assert client.get(f"{root}/docs", headers=good).status_code == 200
    for path in (VALIDATE, "/docs", "/openapi.json", "/metrics", "/nothing", "/livez/", "//livez", "/hooks/livez"):
        reply = client.post(f"{root}{path}", content=b"{", headers={**HEADERS, "Authorization": "Bearer bad-token"})
        assert reply.status_code == 401, path
        assert (reply.headers["www-authenticate"], reply.headers["connection"]) == ("Bearer", "close")
    for path in ("/livez", "/readyz", "/healthz"):
        assert client.get(f"{root}{path}").text == "ok"
    assert site.metrics.by_name["webhooks_clients_rejected"].values == {("bad_token",): 8.0}


def test_client_certificates_are_not_visible(site: PluginContext) -> None:
    authenticator = Authenticator(site.metrics, allowed_names=["apiserver"])
    client = TestClient(create_app([allows], site, authenticator=authenticator))
    assert client.post(VALIDATE, content=REVIEW, headers=HEADERS).status_code == 403


def test_the_token_file_is_reloaded(
    tokens: TokenFile, site: PluginContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhooks.auth.token_file._POLL_INTERVAL", 0.01)
    new = {**HEADERS, "Authorization": "Bearer new-token"}
    with TestClient(create_app([allows], site, authenticator=Authenticator(site.metrics, token_file=tokens))) as client:
        (tmp_path / "tokens.csv").write_text("new-token,joe\n")
        await_true(lambda: client.post(VALIDATE, content=REVIEW, headers=new).status_code == 200, "it is reloaded")

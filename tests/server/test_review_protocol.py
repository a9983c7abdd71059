"""Reviews on connections: our own server against another ASGI server, and the protocol without sockets."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from webhooks import AdmissionReview, Allow, create_app, validating
from webhooks.server.review_protocol import ReviewProtocol
from webhooks.settings import Limits

from ..support.api_server import accept_admission, accept_authentication, accept_authorization, accept_images
from ..support.builders import Json, access_body, admission_body, encode_body, image_body, recorded_bodies, token_body
from ..support.malformed import BAD, LIMIT, assert_response, nested, sized, with_value
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
from ..support.servers import REVIEWS, Connection, Gate, Server, chunked, request, review
from ..support.transports import FakeConnection, connected

PATHS = {
    "/mutate": "/admission/mutate",
    "/validate": "/admission/validate",
    "/authorize": "/authorize",
    "/authenticate": "/authenticate",
    "/images": "/images",
    "/audit": "/audit",
}


def accept_audit(sent: Json, reply: bytes) -> None:
    assert json.loads(reply) == {}


ACCEPT: Mapping[str, Callable[[Json, bytes], object]] = {
    "/admission/mutate": partial(accept_admission, mutating=True),
    "/admission/validate": partial(accept_admission, mutating=False),
    "/authorize": accept_authorization,
    "/authenticate": accept_authentication,
    "/images": accept_images,
    "/audit": accept_audit,
}
RECORDED = {name: (PATHS[path], body) for path in PATHS for name, body in recorded_bodies(path).items()}
EXPECTING = request("POST", VALIDATE, headers={**REVIEWS, "Expect": "100-continue", "Content-Length": str(len(GOOD))})
ACCESS = encode_body(access_body(verb="get", resource="widgets", name="web")).strip()
TOKEN = encode_body(token_body("good")).strip()
IMAGES = encode_body(image_body("a@sha256:0")).strip()
BODY = encode_body(admission_body())
POSTED = request("POST", "/admission/validate", BODY)


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


# The same responses from our own server and from another ASGI server.


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_bodies(name: str, servers: Servers) -> None:
    path, body = RECORDED[name]
    replies = [server.post(f"{path}?timeout=10s", encode_body(body)) for server in servers]
    assert comparable(replies[0]) == comparable(replies[1])
    assert (replies[0].status, replies[0].headers["content-type"]) == (200, "application/json")
    ACCEPT[path](body, replies[0].body)


@pytest.mark.parametrize(
    ("path", "body", "response"),
    [
        ("/admission/validate", review(), {"uid": "uid-1", "allowed": True}),
        ("/admission/validate/denies", review("denied"), {"uid": "uid-1", "allowed": False}),
        ("/admission/validate/denies", review(), {"uid": "uid-1", "allowed": True}),
        ("/admission/validate/raises", review("denied"), {"uid": "uid-1", "allowed": True}),
        ("/admission/mutate", review(resource="pods"), {"uid": "uid-1", "allowed": True, "patchType": "JSONPatch"}),
        ("/admission/mutate/labelled", review(resource="pods"), {"patchType": "JSONPatch", "uid": "uid-1"}),
        ("/authorize", ACCESS, {"allowed": True, "reason": "reading is free"}),
        ("/authorize", ACCESS.replace(b"get", b"delete"), {"allowed": False, "denied": True, "reason": "kept"}),
        ("/authorize", ACCESS.replace(b"get", b"list"), {"allowed": False}),
        ("/authenticate", TOKEN, {"authenticated": True, "user": {"username": "jane", "groups": ["team-a"]}}),
        ("/authenticate", TOKEN.replace(b"good", b"bad"), {"authenticated": False, "error": "unknown"}),
        ("/images", IMAGES, {"allowed": True}),
        ("/images", encode_body(image_body("a@sha256:0", "b")), {"allowed": False, "reason": "not pinned: b"}),
    ],
)
def test_every_path(path: str, body: bytes, response: dict[str, Any], servers: Servers) -> None:
    replies = [server.post(path, body) for server in servers]
    assert comparable(replies[0]) == comparable(replies[1])
    assert replies[0].status == 200
    given = replies[0].json()
    given = given.get("response") or given["status"]
    assert {name: given.get(name) for name in response} == response


@pytest.mark.parametrize("suffix", ["svc.io/v1", "svc.io/v1beta1", "k8s.io/v1", "k8s.io/v1beta1"])
def test_responses_repeat_the_api_version(suffix: str, server: Server) -> None:
    for path, body in [
        (VALIDATE, GOOD),
        (VALIDATE, review("denied")),
        ("/authorize", ACCESS),
        ("/authenticate", TOKEN),
    ]:
        spelled = json.loads(body)
        spelled["apiVersion"] = f"{spelled['apiVersion'].partition('.')[0]}.{suffix}"
        assert server.post(path, encode_body(spelled)).json()["apiVersion"] == spelled["apiVersion"]


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies(name: str, servers: Servers) -> None:
    body, expected = BAD[name]
    replies = []
    for server in servers:
        with server.connect() as connection:
            reply = connection.post(VALIDATE, body)
            assert_response(reply, expected)
            assert_serves_after(server, connection, reply)
            replies.append(comparable(reply))
    assert replies[0] == replies[1]


@pytest.mark.parametrize("name", ["cut after the uid", "another version", "no operation", "an integer over int64"])
def test_bad_bodies_to_mutate(name: str, servers: Servers) -> None:
    body, expected = BAD[name]
    body = body.replace(b'"resource":"widgets"', b'"resource":"pods"')
    for server in servers:
        assert_response(server.post("/admission/mutate", body), expected)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("nested 200 levels", nested(200)),
        ("the largest integer", with_value(b"9223372036854775807")),
        ("the smallest integer", with_value(b"-9223372036854775808")),
        ("an integer beyond doubles", with_value(b"9007199254740993")),
        ("a pair of surrogates", with_value(b'"\\ud83d\\ude00"')),
        ("escapes", with_value(rb'"\u0041\/\"\\\n\u003c"')),
        ("blanks", json.dumps(json.loads(GOOD), indent=4).encode()),
        ("another order", encode_body(dict(reversed(json.loads(GOOD).items())))),
        ("unknown members", GOOD[:-1] + b',"more":{"a":[1,2.50,null]}}'),
        ("a float of many digits", with_value(b"0.1000000000000000055511151231257827")),
        ("a byte to spare", sized(LIMIT - 1)),
        ("just as long as it may be", sized(LIMIT)),
    ],
)
def test_unusual_reviews_are_accepted(name: str, body: bytes, servers: Servers) -> None:
    replies = [server.post(VALIDATE, body) for server in servers]
    assert comparable(replies[0]) == comparable(replies[1])
    assert replies[0].json()["response"] == {"uid": "uid-1", "allowed": True}


@pytest.mark.parametrize(
    ("path", "good"), [("/authorize", ACCESS), ("/authenticate", TOKEN), ("/images", IMAGES), ("/audit", b"")]
)
def test_bad_bodies_of_reviews_without_uid(path: str, good: bytes, servers: Servers) -> None:
    bodies = {
        b"": 400,
        b"{}": 400,
        good[:-1]: 400,
        good + b"\x0b": 400,
        GOOD: 400,
        good.replace(b"v1", b"v7"): 400,
        good[:-1] + b',"spec":{}}': 400,
        good[:-1] + b',"more":NaN}': 400,
        good[:-1] + b',"more":"\xff"}': 400,
        good[:-1] + b',"more":"\\ud800"}': 400,
        good[:-1] + b',"more":9223372036854775808}': 422,
        good[:-1] + b',"more":' + b"[" * 300 + b"]" * 300 + b"}": 422,
    }
    if not good:
        bodies = {body: code for body, code in bodies.items() if code == 400}
    for server in servers:
        with server.connect() as connection:
            for body, code in bodies.items():
                assert_is_status(connection.post(path, body), code)


# Requests on one connection.


def test_keep_alive(connection: Connection) -> None:
    for _ in range(3):
        assert_serves(connection)
    connection.request("GET", "/livez", headers={})
    assert connection.reply().body == b"ok"
    assert_serves(connection)


@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_a_request_in_pieces(pieces: int, connection: Connection) -> None:
    whole = request("POST", VALIDATE, GOOD)
    step = -(-len(whole) // pieces)
    for start in range(0, len(whole), step):
        connection.send(whole[start : start + step])
    assert connection.reply().json()["response"]["allowed"] is True


@pytest.mark.parametrize("parts", [1, 2, 100])
def test_a_body_in_chunks(parts: int, connection: Connection) -> None:
    step = -(-len(GOOD) // parts)
    body = chunked(*(GOOD[start : start + step] for start in range(0, len(GOOD), step)))
    reply = connection.post(VALIDATE, body, {**REVIEWS, "Transfer-Encoding": "chunked"})
    assert reply.json()["response"]["allowed"] is True
    assert_serves(connection)


def test_chunks_with_extensions_and_trailers(connection: Connection) -> None:
    body = b"%x;a=b\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(GOOD), GOOD)
    assert connection.post(VALIDATE, body, {**REVIEWS, "Transfer-Encoding": "chunked"}).status == 200
    assert_serves(connection)


def uids(connection: Connection, count: int) -> list[str]:
    return [connection.reply().json()["response"]["uid"] for _ in range(count)]


def test_two_reviews_in_one_segment(connection: Connection) -> None:
    connection.send(request("POST", VALIDATE, review(uid="a")) + request("POST", VALIDATE, review(uid="b")))
    assert uids(connection, 2) == ["a", "b"]
    assert_serves(connection)


def test_twenty_reviews_in_one_segment(connection: Connection) -> None:
    names = [f"uid-{number}" for number in range(20)]
    connection.send(b"".join(request("POST", VALIDATE, review(uid=uid)) for uid in names))
    assert uids(connection, 20) == names
    assert_serves(connection)


def test_repeated_headers(connection: Connection) -> None:
    """The server caches the headers of the first review. Bodies and other requests do not change the responses."""
    for number, value in enumerate(["", "x" * 10, "", "x" * 60_000, "x" * 200_000, "y"]):
        for path in (VALIDATE, "/admission/mutate"):
            connection.request("POST", path, review(uid=f"{number}{path}", value=value))
            assert uids(connection, 1) == [f"{number}{path}"]
        assert connection.post(VALIDATE, review("denied")).json()["response"]["allowed"] is False
        connection.request("GET", "/livez", headers={})
        assert connection.reply().body == b"ok"


def test_cached_headers_in_pieces_and_pipelined(connection: Connection) -> None:
    requests = [request("POST", VALIDATE, review(uid=uid)) for uid in "abcd"]
    for data in requests[:2]:
        connection.send(data)
    assert uids(connection, 2) == ["a", "b"]
    connection.send(requests[2])
    assert uids(connection, 1) == ["c"]
    connection.send(b"".join(requests) + requests[0][:40])
    assert uids(connection, 4) == ["a", "b", "c", "d"]
    connection.send(requests[0][40:-5])
    assert connection.is_silent()
    connection.send(requests[0][-5:] + requests[1])
    assert uids(connection, 2) == ["a", "b"]
    with Gate() as gate:
        for body in (gate.review("waits", uid="e"), review(uid="f")):
            connection.request("POST", VALIDATE, body)
        gate.await_policy()
        assert connection.is_silent()
        gate.open()
        assert uids(connection, 2) == ["e", "f"]


def test_cached_headers_before_a_malformed_body(connection: Connection) -> None:
    for uid in "abc":
        connection.request("POST", VALIDATE, review(uid=uid))
        assert uids(connection, 1) == [uid]
    connection.request("POST", VALIDATE, b"{")
    assert connection.reply().status == 400
    assert_serves(connection)


@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_reviews_behind_a_slow_one(slow: str, connection: Connection) -> None:
    with Gate() as gate:
        requests = [gate.review(slow, uid="a"), review(uid="b"), review("denied", uid="c"), review(uid="d")]
        connection.send(b"".join(request("POST", VALIDATE, body) for body in requests))
        gate.await_policy()
        assert connection.is_silent()
        gate.open()
        assert uids(connection, 4) == ["a", "b", "c", "d"]
    assert_serves(connection)


def test_a_review_during_another(connection: Connection) -> None:
    with Gate() as gate:
        connection.request("POST", VALIDATE, gate.review("waits", uid="a"))
        gate.await_policy()
        connection.request("POST", VALIDATE, review(uid="b"))
        assert connection.is_silent()
        gate.open()
        assert uids(connection, 2) == ["a", "b"]
    assert_serves(connection)


def test_slow_reviews_in_a_row(connection: Connection) -> None:
    with Gate() as gate:
        connection.send(b"".join(request("POST", VALIDATE, gate.review("waits", uid=uid)) for uid in "abc"))
        for uid in "abc":
            gate.await_policy()
            gate.open()
            assert uids(connection, 1) == [uid]


def test_reviews_and_other_requests_mixed(connection: Connection) -> None:
    get = request("GET", "/livez", headers={})
    post = request("POST", VALIDATE, GOOD)
    with Gate() as gate:
        connection.send(post + get + request("POST", VALIDATE, gate.review("waits")) + get + post + get)
        gate.await_policy()
        gate.open()
        bodies = [connection.reply().body for _ in range(6)]
    assert [body == b"ok" for body in bodies] == [False, True, False, True, False, True]
    assert_serves(connection)


def test_no_response_follows_the_last_one(connection: Connection) -> None:
    last = request("POST", VALIDATE, review(uid="a"), {**REVIEWS, "Connection": "close"})
    connection.send(last + request("POST", VALIDATE, review(uid="b")))
    assert uids(connection, 1) == ["a"]
    assert connection.is_closed()


@pytest.mark.parametrize("slow", [False, True])
def test_connection_close(slow: bool, connection: Connection) -> None:
    with Gate() as gate:
        body = gate.review("waits") if slow else GOOD
        connection.request("POST", VALIDATE, body, {**REVIEWS, "Connection": "close"})
        if slow:
            gate.await_policy()
            gate.open()
        reply = connection.reply()
    assert reply.json()["response"]["allowed"] is True
    assert reply.closes
    assert connection.is_closed()


@pytest.mark.parametrize("headers", [REVIEWS, {**REVIEWS, "Connection": "keep-alive"}], ids=["plain", "keep-alive"])
def test_http_1_0(headers: Mapping[str, str], connection: Connection) -> None:
    connection.send(request("POST", VALIDATE, GOOD, headers, version="HTTP/1.0"))
    reply = connection.reply()
    assert reply.json()["response"]["allowed"] is True
    assert reply.closes
    assert connection.is_closed()


def test_expect_100_continue(connection: Connection) -> None:
    connection.send(EXPECTING)
    assert connection.reply().status == 100
    connection.send(GOOD)
    assert connection.reply().json()["response"]["allowed"] is True
    assert_serves(connection)


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        (VALIDATE, {"Content-Type": "text/plain", "Content-Length": "10"}, 415),
        (VALIDATE, {**REVIEWS, "Content-Encoding": "gzip", "Content-Length": "10"}, 415),
        (VALIDATE, {**REVIEWS, "Content-Length": str(LIMIT + 1)}, 413),
        ("/nothing", {**REVIEWS, "Content-Length": "10"}, 404),
    ],
)
def test_an_expected_100_continue_is_rejected_at_once(
    path: str, headers: Mapping[str, str], code: int, connection: Connection
) -> None:
    connection.send(request("POST", path, headers={**headers, "Expect": "100-continue"}))
    assert_is_status(connection.reply(), code)


def test_a_malformed_request_behind_a_review(servers: Servers) -> None:
    with servers.own.connect() as connection, Gate() as gate:
        connection.send(request("POST", VALIDATE, gate.review("waits")) + b"rubbish\r\n\r\n")
        gate.await_policy()
        gate.open()
        assert connection.reply().json()["response"]["allowed"] is True
        assert connection.reply().status == 400
        assert connection.is_closed()


def test_a_malformed_request_behind_a_response(servers: Servers) -> None:
    """The response exists, but is not sent yet, when the second request is rejected."""
    with servers.own.connect() as connection:
        connection.send(request("POST", "/audit", b"{}") + b"rubbish\r\n\r\n")
        replies = connection.reply(), connection.reply()
        assert [(reply.status, reply.closes) for reply in replies] == [(400, False), (400, True)]
        assert "HTTP" in replies[1].json()["message"]
        assert connection.is_closed()


def test_100_continue_behind_a_response(servers: Servers) -> None:
    with servers.own.connect() as connection:
        connection.send(request("POST", "/audit", b"{}") + EXPECTING)
        assert connection.reply().status == 400
        assert connection.reply().status == 100
        connection.send(GOOD)
        assert connection.reply().status == 200


def test_websockets_are_not_spoken(connection: Connection) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    connection.request("GET", "/livez", headers=headers)
    assert connection.reply().status in (200, 400, 426)


# Clients that disconnect.


def assert_untouched(server: Server, start: int) -> None:
    """Assert that a server continues, and logged only warnings."""
    with server.connect() as connection:
        for _ in range(3):  # during these, the server notices disconnected clients
            assert_serves(connection)
        connection.post(VALIDATE, review("raises", uid="the last"))
    server.errors.await_line("the last", start)  # so all earlier records were written
    assert [record["message"] for record in server.logs(start)[:-1] if record["level"] != "warning"] == []


@pytest.mark.parametrize("gracefully", [True, False])
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        request("POST", VALIDATE, GOOD)[:30],
        request("POST", VALIDATE, GOOD)[:-10],
        request("POST", VALIDATE, headers={**REVIEWS, "Transfer-Encoding": "chunked"}) + b"5\r\n{",
        request("POST", VALIDATE, GOOD) + request("POST", VALIDATE, GOOD)[:-10],
        request("GET", "/metrics", headers={}),
    ],
    ids=["in silence", "in the head", "in the body", "in a chunk", "in the second body", "before the metrics"],
)
def test_a_client_that_disconnects(sent: bytes, gracefully: bool, servers: Servers) -> None:
    server = servers.own
    start = len(server.errors.lines)
    for _ in range(3):
        connection = server.connect()
        connection.send(sent)
        (connection.close if gracefully else connection.reset)()
    assert_untouched(server, start)


@pytest.mark.parametrize("gracefully", [True, False])
@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_a_client_that_disconnects_before_the_response(slow: str, gracefully: bool, servers: Servers) -> None:
    server = servers.own
    start = len(server.errors.lines)
    with Gate() as gate:
        for _ in range(3):
            connection = server.connect()
            connection.request("POST", VALIDATE, gate.review(slow))
            gate.await_policy()
            (connection.close if gracefully else connection.reset)()
        gate.open()
        assert_untouched(server, start)


def test_a_client_that_does_not_read(server: Server) -> None:
    """Its responses pile up, while other clients are served."""
    with server.connect() as unread:
        unread.socket.settimeout(0.2)
        try:
            for _ in range(200):
                unread.socket.sendall(request("POST", VALIDATE, GOOD) * 20)
        except TimeoutError:
            pass
        with server.connect() as connection:
            assert_serves(connection)


# Without sockets.


def test_a_response_that_was_awaited_is_sent_at_once() -> None:
    """The next task may run a policy that blocks the loop."""

    @validating("pods")
    async def slow(review: AdmissionReview) -> Allow:
        await asyncio.sleep(0)
        return Allow()

    async def respond(line: FakeConnection) -> None:
        line.protocol.data_received(POSTED)
        while not line.protocol.cycle.response_complete:
            assert line.written == []
            await asyncio.sleep(0)
        assert len(line.written) == 1

    with connected(create_app([slow])) as line:
        line.runner.run(respond(line))


@pytest.mark.parametrize("close", [ReviewProtocol.abort, ReviewProtocol.close_gracefully])
def test_responses_are_sent_before_the_connection_is_closed(close: Callable[[ReviewProtocol], None]) -> None:
    with connected(create_app([])) as line:
        line.protocol.data_received(POSTED)
        assert line.written == []
        close(line.protocol)
        assert [b'"allowed":true' in data for _, data in line.written] == [True]


def post(body: bytes) -> bytes:
    """Return a review as an API server sends it."""
    return request("POST", "/admission/mutate?timeout=10s", body)


@pytest.fixture
def line() -> Iterator[FakeConnection]:
    """A connection to an application without policies that accepts no larger body than `BODY`."""
    with connected(create_app([], limits=Limits(max_body=len(BODY)))) as line:
        yield line


def test_cached_headers_are_not_parsed(line: FakeConnection) -> None:
    protocol, sent = line.protocol, line.written
    data = post(BODY)
    counts = []
    for _ in range(5):
        protocol.data_received(data)
        counts.append(protocol.parsed)
    assert counts == [1, 2, 2, 2, 2]
    protocol.data_received(data * 2)
    protocol.data_received(data.replace(b"Host: localhost", b"Host: example"))
    assert protocol.parsed == 5
    line.flush()
    assert len({data for _, data in sent}) == 1
    assert len(sent) == 8


def test_a_removed_path_is_not_found(line: FakeConnection) -> None:
    protocol, app, sent = line.protocol, line.app, line.written
    data = post(BODY)
    for _ in range(3):
        protocol.data_received(data)
    line.flush()
    assert len(sent) == 3
    app.routes.by_raw_path.clear()
    protocol.data_received(data)
    line.flush()
    assert (protocol.parsed, len(sent)) == (3, 3)


def test_no_response_follows_one_that_closes_the_connection(line: FakeConnection) -> None:
    protocol, sent = line.protocol, line.written
    for _ in range(3):
        protocol.data_received(post(BODY))
    protocol.data_received(post(BODY).replace(b"Host: localhost", b"Host: localhost\r\nConnection: close"))
    before = len(sent)
    for _ in range(3):
        protocol.data_received(post(BODY))
    line.flush()
    assert (len(sent), protocol.parsed) == (before, 3)


def test_a_body_over_the_limit_is_rejected(line: FakeConnection) -> None:
    protocol, sent = line.protocol, line.written
    for _ in range(3):
        protocol.data_received(post(BODY))
    assert protocol.parsed == 2
    protocol.data_received(post(BODY + b" "))
    line.flush()
    assert b'"code":413' in sent[-1][1]

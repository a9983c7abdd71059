"""HTTP as callers meet it: our own protocol over TLS and a user's application under uvicorn, with the same answers."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import pytest

from ..support.builders import Json, access_body, image_body, recorded, token_body, written
from ..support.caller import accept_admission, accept_authentication, accept_authorization, accept_images
from ..support.servers import (
    REVIEWS,
    Connection,
    Gate,
    Reply,
    Server,
    chunked,
    request,
    review,
    serving,
    under_uvicorn,
)

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
RECORDED = {name: (PATHS[path], body) for path in PATHS for name, body in recorded(path).items()}
VALIDATE = "/admission/validate"
LIMIT = 7 * 1024 * 1024
GOOD = review()
ASKING = request("POST", VALIDATE, headers={**REVIEWS, "Expect": "100-continue", "Content-Length": str(len(GOOD))})
ACCESS = written(access_body(verb="get", resource="widgets", name="web")).strip()
TOKEN = written(token_body("good")).strip()
IMAGES = written(image_body("a@sha256:0")).strip()
NAMES = ("own", "asgi")


class Servers(NamedTuple):
    own: Server
    asgi: Server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        own = pool.submit(stack.enter_context, serving(tmp_path_factory.mktemp("own")))
        asgi = pool.submit(stack.enter_context, under_uvicorn(tmp_path_factory.mktemp("asgi")))
        yield Servers(own.result(), asgi.result())


@pytest.fixture(params=NAMES)
def server(request: pytest.FixtureRequest, servers: Servers) -> Server:
    found = getattr(servers, request.param)
    assert isinstance(found, Server)
    return found


@pytest.fixture
def connection(server: Server) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


def assert_serves(connection: Connection) -> None:
    """That the next request on this connection is served."""
    reply = connection.post(VALIDATE, GOOD)
    assert (reply.status, reply.json()["response"]) == (200, {"uid": "uid-1", "allowed": True})


def assert_serves_on(server: Server, connection: Connection, reply: Reply) -> None:
    """That a reply harms nobody: the same connection is served, unless it was to be closed, and so is a new one."""
    if reply.closes:
        assert connection.is_closed()
    else:
        assert_serves(connection)
    with server.connect() as new:
        assert_serves(new)


def seen(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """What a caller sees of an answer, but for the clock; the methods in an Allow header come in any order."""
    headers = {name: value for name, value in reply.headers.items() if name not in ("date", "server")}
    if "allow" in headers:
        headers["allow"] = ", ".join(sorted(headers["allow"].split(", ")))
    return reply.status, reply.body, headers


# Both ways to serve give the same answers.


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_bodies(name: str, servers: Servers) -> None:
    path, body = RECORDED[name]
    replies = [server.post(f"{path}?timeout=10s", written(body)) for server in servers]
    assert seen(replies[0]) == seen(replies[1])
    assert (replies[0].status, replies[0].headers["content-type"]) == (200, "application/json")
    ACCEPT[path](body, replies[0].body)


@pytest.mark.parametrize(
    ("path", "body", "answer"),
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
        ("/images", written(image_body("a@sha256:0", "b")), {"allowed": False, "reason": "not pinned: b"}),
    ],
)
def test_every_path(path: str, body: bytes, answer: dict[str, Any], servers: Servers) -> None:
    replies = [server.post(path, body) for server in servers]
    assert seen(replies[0]) == seen(replies[1])
    assert replies[0].status == 200
    given = replies[0].json()
    given = given.get("response") or given["status"]
    assert {name: given.get(name) for name in answer} == answer


@pytest.mark.parametrize("suffix", ["svc.io/v1", "svc.io/v1beta1", "k8s.io/v1", "k8s.io/v1beta1"])
def test_answers_repeat_the_spelling(suffix: str, server: Server) -> None:
    for path, body in [
        (VALIDATE, GOOD),
        (VALIDATE, review("denied")),
        ("/authorize", ACCESS),
        ("/authenticate", TOKEN),
    ]:
        spelled = json.loads(body)
        spelled["apiVersion"] = f"{spelled['apiVersion'].partition('.')[0]}.{suffix}"
        assert server.post(path, written(spelled)).json()["apiVersion"] == spelled["apiVersion"]


# Bad input: what the caller gets, and that the next request is served.


NO_REQUEST = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'
LARGE = b'"object":{"metadata":{},"value":"%b"}' % (b"x" * 100)


class Denied(NamedTuple):
    """HTTP 200 and a denial, since the review's uid can be told."""

    code: int
    close: bool = False


class Failed(NamedTuple):
    """An HTTP error."""

    code: int
    close: bool = False


Expected = Denied | Failed


def with_object(text: bytes) -> bytes:
    """A review whose object is spelled like that."""
    head, _, rest = GOOD.partition(b'"object":')
    return head + b'"object":' + text + b"," + rest[rest.index(b'"oldObject"') :]


def with_value(text: bytes) -> bytes:
    return with_object(b'{"metadata":{"name":"web"},"value":%b}' % text)


def replaced(old: bytes, new: bytes, body: bytes = GOOD) -> bytes:
    assert old in body
    return body.replace(old, new, 1)


def nested(levels: int) -> bytes:
    """A review whose body is nested that deep."""
    lists = levels - 3  # the body, the request and the object are levels too
    return with_value(b"[" * lists + b"1" + b"]" * lists)


def sized(size: int) -> bytes:
    """A review that is that long."""
    return with_value(b'"%b"' % (b"x" * (size - len(with_value(b'""')))))


BAD: Mapping[str, tuple[bytes, Expected]] = {
    # no JSON
    "empty": (b"", Failed(400)),
    "blank": (b" \n\t ", Failed(400)),
    "text": (b"allowed", Failed(400)),
    "zeros": (b"\0" * 100, Failed(400)),
    "a comment": (b"/* */" + GOOD, Failed(400)),
    "single quotes": (GOOD.replace(b'"', b"'"), Failed(400)),
    "cut before the uid": (GOOD[:60], Failed(400)),
    "cut after the uid": (GOOD[:120], Denied(400)),
    "cut at the end": (GOOD[:-1], Denied(400)),
    "twice": (GOOD * 2, Denied(400)),
    "rubbish behind": (GOOD + b"]", Denied(400)),
    "a trailing comma": (replaced(b'"options":null', b'"options":null,'), Denied(400)),
    "a comma in the object": (with_object(b'{"metadata":{},}'), Denied(400)),
    "NaN": (with_value(b"NaN"), Denied(400)),
    "Infinity": (with_value(b"Infinity"), Denied(400)),
    "-Infinity": (with_value(b"[-Infinity]"), Denied(400)),
    "a float beyond floats": (with_value(b"1e400"), Denied(400)),
    "a leading zero": (with_value(b"01"), Denied(400)),
    "a plus sign": (with_value(b"+1"), Denied(400)),
    "a control character": (with_value(b'"\x01"'), Denied(400)),
    # no UTF-8
    "bad UTF-8 in the object": (with_value(b'"\xff"'), Denied(400)),
    "bad UTF-8 in a key": (with_object(b'{"\xc3\x28":1}'), Denied(400)),
    "overlong UTF-8": (with_value(b'"\xc0\xaf"'), Denied(400)),
    "a surrogate in UTF-8": (with_value(b'"\xed\xa0\x80"'), Denied(400)),
    "bad UTF-8 in the envelope": (replaced(b'"name":"web"', b'"name":"\xff"'), Denied(400)),
    "bad UTF-8 in the uid": (replaced(b"uid-1", b"uid-\xff"), Failed(400)),
    "UTF-16": (GOOD.decode().encode("utf-16"), Failed(400)),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, Failed(400)),
    "a lone surrogate": (with_value(b'"\\ud800"'), Denied(400)),
    "a lone low surrogate": (with_value(b'"\\udc00"'), Denied(400)),
    "a lone surrogate in a key": (with_object(b'{"\\ud800":1}'), Denied(400)),
    "a lone surrogate in the envelope": (replaced(b'"name":"web"', b'"name":"\\ud800"'), Denied(400)),
    "a lone surrogate in the user": (replaced(b'"username":"jane"', b'"username":"\\ud800"'), Denied(400)),
    "a lone surrogate in the uid": (replaced(b"uid-1", b"\\ud800"), Failed(400)),
    # duplicate keys
    "a key twice in the object": (with_object(b'{"metadata":{},"a":1,"a":1}'), Denied(400)),
    "a key twice in metadata": (with_object(b'{"metadata":{"name":"web","name":"denied"}}'), Denied(400)),
    "a key twice, once escaped": (with_object(b'{"metadata":{},"a":1,"\\u0061":2}'), Denied(400)),
    "a key twice in a list": (with_value(b'[{"a":1,"a":2}]'), Denied(400)),
    "a key twice in the user": (replaced(b'"username":"jane"', b'"username":"jane","username":"root"'), Denied(400)),
    "two objects": (replaced(b'"oldObject":null', b'"object":{},"oldObject":null'), Denied(400)),
    "two objects, the same": (replaced(LARGE, LARGE + b"," + LARGE, with_object(LARGE[9:])), Denied(400)),
    "two names": (replaced(b'"name":"web"', b'"name":"web","name":"web"'), Denied(400)),
    "two kinds": (replaced(b"{", b'{"kind":"AdmissionReview",'), Denied(400)),
    "two requests": (GOOD[:-1] + b',"request":' + GOOD.partition(b'"request":')[2], Denied(400)),
    "an unknown key twice": (GOOD[:-1] + b',"more":1,"more":1}', Denied(400)),
    # beyond the limits
    "nested over 200 levels": (nested(201), Denied(422)),
    "nested 5,000 levels": (nested(5_000), Denied(422)),
    "nested 1,000,000 levels": (nested(1_000_000), Denied(422)),
    "nested beside the request": (GOOD[:-1] + b',"more":' + b"[" * 300 + b"]" * 300 + b"}", Denied(422)),
    "nested, and never closed": (b"[" * 100_000, Failed(400)),
    "nested lists in objects": (with_value(b'{"a":[' * 150 + b"1" + b"]}" * 150), Denied(422)),
    "an integer over int64": (with_value(b"9223372036854775808"), Denied(422)),
    "an integer under int64": (with_value(b"-9223372036854775809"), Denied(422)),
    "an integer of 5,000 digits": (with_value(b"1" * 5_000), Denied(422)),
    "500,001 values": (with_value(b"[" + b"1," * 500_001 + b"1]"), Denied(422)),
    "a byte too many": (sized(LIMIT + 1), Denied(413, close=True)),
    "a byte too many, of no review": (b"x" * (LIMIT + 1), Failed(413, close=True)),
    "a MiB too many": (sized(LIMIT + 1024 * 1024), Denied(413, close=True)),
    # no review
    "a string": (b'"AdmissionReview"', Failed(400)),
    "a list": (b"[%b]" % GOOD, Failed(400)),
    "null": (b"null", Failed(400)),
    "no members": (b"{}", Failed(400)),
    "no kind": (replaced(b'"kind":"AdmissionReview",', b""), Denied(400)),
    "another kind": (replaced(b'"AdmissionReview"', b'"TokenReview"'), Denied(400)),
    "a kind in lower case": (replaced(b'"AdmissionReview"', b'"admissionreview"'), Denied(400)),
    "a number as kind": (replaced(b'"AdmissionReview"', b"1"), Failed(400)),
    "another version": (replaced(b"k8s.io/v1", b"k8s.io/v2"), Denied(400)),
    "another group": (replaced(b"admission.k8s.io", b"admission.example.com"), Denied(400)),
    "no version": (replaced(b'"apiVersion":"admission.k8s.io/v1",', b""), Denied(400)),
    "no request": (NO_REQUEST, Failed(400)),
    "null as request": (replaced(b"}", b',"request":null}', NO_REQUEST), Failed(400)),
    "a list as request": (replaced(b"}", b',"request":[]}', NO_REQUEST), Failed(400)),
    "no uid": (replaced(b'"uid":"uid-1",', b""), Failed(400)),
    "an empty uid": (replaced(b'"uid":"uid-1"', b'"uid":""'), Failed(400)),
    "a number as uid": (replaced(b'"uid":"uid-1"', b'"uid":1'), Failed(400)),
    "no resource": (replaced(b'"resource":{"group":"","version":"v1","resource":"widgets"},', b""), Denied(400)),
    "no operation": (replaced(b'"operation":"CREATE",', b""), Denied(400)),
    "an unknown operation": (replaced(b"CREATE", b"create"), Denied(400)),
    "a list as operation": (replaced(b'"CREATE"', b'["CREATE"]'), Denied(400)),
    "a list as object": (with_object(b"[]"), Denied(400)),
    "a string as object": (with_object(b'"{}"'), Denied(400)),
    "a string as user": (
        replaced(b'{"username":"jane","groups":["dev","system:authenticated"]}', b'"jane"'),
        Denied(400),
    ),
    "a number among groups": (replaced(b'["dev",', b"[1,"), Denied(400)),
    "a string as dryRun": (replaced(b'"dryRun":false', b'"dryRun":"false"'), Denied(400)),
}


def assert_is(reply: Reply, expected: Expected) -> None:
    if isinstance(expected, Denied):
        assert reply.status == 200
        answer = reply.json()
        assert answer["response"]["uid"] == "uid-1"
        assert answer["response"]["allowed"] is False
        assert answer["response"]["status"]["code"] == expected.code
        assert answer["kind"]
        assert answer["apiVersion"].startswith("admission.")
    else:
        assert_is_status(reply, expected.code)
    assert reply.closes == expected.close


def assert_is_status(reply: Reply, code: int) -> None:
    """That an error is one that API clients understand."""
    status = reply.json()
    assert (reply.status, reply.headers["content-type"]) == (code, "application/json")
    assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == ("Status", "v1", "Failure", code)
    assert status["message"]
    assert status["reason"]


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies(name: str, servers: Servers) -> None:
    body, expected = BAD[name]
    replies = []
    for server in servers:
        with server.connect() as connection:
            reply = connection.post(VALIDATE, body)
            assert_is(reply, expected)
            assert_serves_on(server, connection, reply)
            replies.append(seen(reply))
    assert replies[0] == replies[1]


@pytest.mark.parametrize("name", ["cut after the uid", "another version", "no operation", "an integer over int64"])
def test_bad_bodies_to_mutate(name: str, servers: Servers) -> None:
    body, expected = BAD[name]
    body = body.replace(b'"resource":"widgets"', b'"resource":"pods"')
    for server in servers:
        assert_is(server.post("/admission/mutate", body), expected)


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
        ("another order", written(dict(reversed(json.loads(GOOD).items())))),
        ("unknown members", GOOD[:-1] + b',"more":{"a":[1,2.50,null]}}'),
        ("a float of many digits", with_value(b"0.1000000000000000055511151231257827")),
        ("a byte to spare", sized(LIMIT - 1)),
        ("just as long as it may be", sized(LIMIT)),
    ],
)
def test_unusual_bodies_that_are_reviews(name: str, body: bytes, servers: Servers) -> None:
    replies = [server.post(VALIDATE, body) for server in servers]
    assert seen(replies[0]) == seen(replies[1])
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


@pytest.mark.parametrize("path", ["/authorize", "/authenticate", "/images", "/audit"])
def test_too_large_bodies_of_reviews_without_uid(path: str, server: Server) -> None:
    with server.connect() as connection:
        reply = connection.post(path, b" " * (LIMIT + 1))
        assert_is_status(reply, 413)
        assert reply.closes
        assert_serves_on(server, connection, reply)


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_the_limit_counts_what_comes_in_chunks(size: int, server: Server) -> None:
    body = sized(size)
    parts = [body[start : start + 65_536] for start in range(0, size, 65_536)]
    with server.connect() as connection:
        connection.request("POST", VALIDATE, chunked(*parts), {**REVIEWS, "Transfer-Encoding": "chunked"})
        reply = connection.reply()
        if size > LIMIT:
            assert_is(reply, Denied(413, close=True))
        else:
            assert reply.json()["response"]["allowed"] is True
        assert_serves_on(server, connection, reply)


def test_a_body_without_end_is_answered_before_its_end(server: Server) -> None:
    head = request("POST", VALIDATE, headers={**REVIEWS, "Transfer-Encoding": "chunked"})
    with server.connect() as connection:
        connection.send(head + chunked(sized(LIMIT + 1)).removesuffix(b"0\r\n\r\n"))
        assert_is(connection.reply(), Denied(413, close=True))
        assert connection.is_closed()


def test_a_length_over_the_limit_is_refused_before_the_body_has_come(server: Server) -> None:
    head = request("POST", VALIDATE, headers={**REVIEWS, "Content-Length": str(1024**3)})
    with server.connect() as connection:
        connection.send(head + sized(8192))  # among these its uid is looked for
        reply = connection.reply()
        assert_is(reply, Denied(413, close=True))
        assert_serves_on(server, connection, reply)


# Media types, paths and methods.


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
def test_json_is_taken(media_type: str, server: Server) -> None:
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
def test_other_media_types_are_not_taken(headers: Mapping[str, str], servers: Servers) -> None:
    replies = []
    for server in servers:
        with server.connect() as connection:
            reply = connection.post(VALIDATE, GOOD, headers)
            assert_is_status(reply, 415)
            assert_serves_on(server, connection, reply)
            replies.append(seen(reply))
    assert replies[0] == replies[1]


def test_identity_is_no_encoding(server: Server) -> None:
    assert server.post(VALIDATE, GOOD, {**REVIEWS, "Content-Encoding": "identity"}).status == 200


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", "/", 404),
        ("POST", "/admission", 404),
        ("POST", "/admission/mutate/nobody", 404),
        ("POST", "/admission/mutate/denies", 404),  # a validating policy
        ("POST", "/admission/validate/labelled", 404),  # a mutating one
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
            assert_serves_on(server, connection, reply)
            replies.append(seen(reply))
    assert replies[0] == replies[1]


def test_head_has_no_body(connection: Connection) -> None:
    connection.request("HEAD", VALIDATE, headers={})
    assert connection.reply(to_head=True).status == 405
    assert_serves(connection)


@pytest.mark.parametrize(
    "target", [f"{VALIDATE}?timeout=1s#part", f"https://localhost{VALIDATE}", "/admission/%76alidate", f"{VALIDATE}?"]
)
def test_other_spellings_of_a_path(target: str, servers: Servers) -> None:
    replies = [seen(server.post(target, GOOD)) for server in servers]
    assert replies[0] == replies[1]


@pytest.mark.parametrize(
    "query",
    ["timeout=10s", "timeout=1m0s", "timeout=", "timeout=x", "timeout=%ff", "timeout=-1s", "a=b&timeout=5s&c", "&&=&"],
)
def test_queries(query: str, server: Server) -> None:
    assert server.post(f"{VALIDATE}?{query}", GOOD).json()["response"]["allowed"] is True


# The life of a connection.


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


def test_heads_that_come_again(connection: Connection) -> None:
    """From the second on they are known; their bodies, and what is asked in between, make no difference."""
    for number, value in enumerate(["", "x" * 10, "", "x" * 60_000, "x" * 200_000, "y"]):
        for path in (VALIDATE, "/admission/mutate"):
            connection.request("POST", path, review(uid=f"{number}{path}", value=value))
            assert uids(connection, 1) == [f"{number}{path}"]
        assert connection.post(VALIDATE, review("denied")).json()["response"]["allowed"] is False
        connection.request("GET", "/livez", headers={})
        assert connection.reply().body == b"ok"


def test_known_heads_in_pieces_and_in_a_row(connection: Connection) -> None:
    requests = [request("POST", VALIDATE, review(uid=uid)) for uid in "abcd"]
    for each in requests[:2]:
        connection.send(each)
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


def test_a_known_head_before_a_bad_body(connection: Connection) -> None:
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


def test_a_review_that_comes_while_another_is_answered(connection: Connection) -> None:
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


def test_nothing_is_answered_behind_a_last_request(connection: Connection) -> None:
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
    connection.send(ASKING)
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
def test_whoever_expects_100_continue_is_refused_at_once(
    path: str, headers: Mapping[str, str], code: int, connection: Connection
) -> None:
    connection.send(request("POST", path, headers={**headers, "Expect": "100-continue"}))
    assert_is_status(connection.reply(), code)


@pytest.mark.parametrize(
    "text",
    [
        b"POST /admission/validate HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}",
        b"POST /admission/validate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nContent-Length: 5x\r\n\r\n{}",
        b"POST /admission/validate HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n{}",
        b"POST /admission/validate HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}{}{}{}\r\n0\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}",
        b"POST /admission/validate HTTP/1.1\r\nContent-Type application/json\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nContent-Type : application/json\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\n: value\r\n\r\n",
        b"POST /admission/validate HTTP/1.1\r\nX: a\0b\r\n\r\n",
        b"POST /admission/validate HTTP/9.9\r\n\r\n",
        b"POST  HTTP/1.1\r\n\r\n",
        b"P\xffST /admission/validate HTTP/1.1\r\n\r\n",
        b"FROBNICATE /admission/validate HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=repr,
)
def test_malformed_http_gets_400_and_the_connection_is_closed(text: bytes, server: Server) -> None:
    with server.connect() as connection:
        connection.send(text)
        reply = connection.reply()
        assert reply.status == 400
        assert reply.closes
        assert connection.is_closed()
    with server.connect() as new:
        assert_serves(new)


def test_a_malformed_request_behind_a_review(servers: Servers) -> None:
    with servers.own.connect() as connection, Gate() as gate:
        connection.send(request("POST", VALIDATE, gate.review("waits")) + b"rubbish\r\n\r\n")
        gate.await_policy()
        gate.open()
        assert connection.reply().json()["response"]["allowed"] is True
        assert connection.reply().status == 400
        assert connection.is_closed()


def test_a_malformed_request_behind_an_answer(servers: Servers) -> None:
    """The answer is there, and not yet sent, when the other has to be refused."""
    with servers.own.connect() as connection:
        connection.send(request("POST", "/audit", b"{}") + b"rubbish\r\n\r\n")
        replies = connection.reply(), connection.reply()
        assert [(reply.status, reply.closes) for reply in replies] == [(400, False), (400, True)]
        assert "HTTP" in replies[1].json()["message"]
        assert connection.is_closed()


def test_a_body_is_asked_for_behind_an_answer(servers: Servers) -> None:
    with servers.own.connect() as connection:
        connection.send(request("POST", "/audit", b"{}") + ASKING)
        assert connection.reply().status == 400
        assert connection.reply().status == 100
        connection.send(GOOD)
        assert connection.reply().status == 200


def test_websockets_are_not_spoken(connection: Connection) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    connection.request("GET", "/livez", headers=headers)
    assert connection.reply().status in (200, 400, 426)


# Callers that go away.


def assert_untouched(server: Server, start: int) -> None:
    """That a server goes on, and had nothing to say but warnings."""
    with server.connect() as connection:
        for _ in range(3):  # by then it has noticed who went
            assert_serves(connection)
        connection.post(VALIDATE, review("raises", uid="the last"))
    server.errors.await_line("the last", start)  # so none is still on its way
    assert [record["message"] for record in server.logs(start)[:-1] if record["level"] != "warning"] == []


@pytest.mark.parametrize("politely", [True, False])
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
def test_a_caller_that_goes_away(sent: bytes, politely: bool, servers: Servers) -> None:
    server = servers.own
    start = len(server.errors.lines)
    for _ in range(3):
        connection = server.connect()
        connection.send(sent)
        (connection.close if politely else connection.reset)()
    assert_untouched(server, start)


@pytest.mark.parametrize("politely", [True, False])
@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_a_caller_that_goes_away_before_the_answer(slow: str, politely: bool, servers: Servers) -> None:
    server = servers.own
    start = len(server.errors.lines)
    with Gate() as gate:
        for _ in range(3):
            connection = server.connect()
            connection.request("POST", VALIDATE, gate.review(slow))
            gate.await_policy()
            (connection.close if politely else connection.reset)()
        gate.open()
        assert_untouched(server, start)


def test_a_caller_that_does_not_read(server: Server) -> None:
    """Answers pile up for one who sends and sends, while others are served."""
    with server.connect() as deaf:
        deaf.socket.settimeout(0.2)
        try:
            for _ in range(200):
                deaf.socket.sendall(request("POST", VALIDATE, GOOD) * 20)
        except TimeoutError:
            pass
        with server.connect() as connection:
            assert_serves(connection)

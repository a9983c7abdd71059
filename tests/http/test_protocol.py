"""What one connection may send, how, and how slowly: raw bytes to a real server, at both of its ports."""

import random
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ..support.servers import REVIEWS, Connection, Gate, Server, chunked, request, review, serving

VALIDATE = "/admission/validate"
GOOD = review()
HEAD = b"POST /admission/validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"  # without its end
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SHORT = ("--tls-timeout", "300ms", "--header-timeout", 0.3, "--body-timeout", 0.3)
PORTS = pytest.mark.parametrize("ops", [False, True], ids=["reviews", "ops"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that waits for nobody."""
    with serving(tmp_path_factory.mktemp("hasty"), *SHORT) as server:
        yield server


def connect(server: Server, *, ops: bool) -> Connection:
    return Connection(server.ops_port or 0, None) if ops else server.connect()


def assert_serves(server: Server) -> None:
    assert server.post(VALIDATE, GOOD).json()["response"]["allowed"] is True
    assert server.get("/livez", ops=True).body == b"ok"


def assert_refused(server: Server, data: bytes, code: int, *, ops: bool = False) -> None:
    with connect(server, ops=ops) as connection:
        connection.send(data)
        reply = connection.reply()
        assert (reply.status, reply.json()["code"], reply.closes) == (code, code, True)
        assert connection.is_closed()


# Heads.


def with_headers(count: int, path: str = "/livez") -> bytes:
    """A request with so many headers."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n".encode() + b"A: b\r\n" * (count - 1) + b"\r\n"


def of_bytes(size: int) -> bytes:
    """A request with so many bytes of headers and path."""
    rest = size - len("/livez") - len("Host: a\r\n") - len("A: \r\n")
    return b"GET /livez HTTP/1.1\r\nHost: a\r\nA: %b\r\n\r\n" % (b"b" * rest)


@PORTS
@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    ("data", "code"),
    [(with_headers(100), 200), (with_headers(101), 431), (of_bytes(32_768), 200), (of_bytes(32_769), 431)],
    ids=["100 headers", "101 headers", "32 KiB", "a byte more"],
)
def test_heads_have_limits(data: bytes, code: int, pieces: int, ops: bool, server: Server) -> None:
    with connect(server, ops=ops) as connection:
        step = -(-len(data) // pieces)
        for start in range(0, len(data), step):
            connection.send(data[start : start + step])
        reply = connection.reply()
        assert (reply.status, reply.closes) == (code, code != 200)
    assert_serves(server)


@pytest.mark.parametrize("ready", [b"", request("POST", VALIDATE, GOOD)], ids=["at first", "later"])
@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"A: b\r\n" * 50_000,
        HEAD + b"A: " + b"b" * 1_000_000,
        HEAD + b"A" * 1_000_000,
        b"GET /" + b"a" * 1_000_000,
        CHUNKED + b"0\r\n" + b"A: b\r\n" * 1_000,
        CHUNKED + b"0\r\nA: " + b"b" * 100_000,
        CHUNKED + b"2;a=" + b"b" * 100_000,
        CHUNKED + b"2\r\n{}\r\n2;a=" + b"b" * 100_000,
    ],
    ids=["headers", "a value", "a name", "a path", "trailers", "a trailer", "an extension", "a second extension"],
)
def test_whatever_has_no_end_is_refused_before_it(data: bytes, ready: bytes, server: Server) -> None:
    with server.connect() as connection:
        if ready:
            connection.send(ready)
            assert connection.reply().status == 200
        connection.send(data)
        reply = connection.reply()
        assert (reply.status, reply.closes) == (431, True)
        assert connection.is_closed()


def test_a_large_body_does_not_count_as_a_head(server: Server) -> None:
    large = review(value="x" * 200_000)
    for body, headers in (
        (large, REVIEWS),
        (chunked(large[:100], large[100:]), REVIEWS | {"Transfer-Encoding": "chunked"}),
    ):
        with server.connect() as connection:
            connection.send(request("POST", VALIDATE, body, headers) + request("GET", "/livez", headers={}))
            assert connection.reply().json()["response"]["allowed"] is True
            assert connection.reply().body == b"ok"


def test_limits_are_configurable(tmp_path: Path) -> None:
    options = ("--max-headers", 5, "--max-header-bytes", 1024, "--max-body", 2000)
    with serving(tmp_path, *options) as server:
        assert_serves(server)
        assert_refused(server, with_headers(6), 431)
        assert_refused(server, of_bytes(1025), 431)
        for size, denied in ((2000, None), (2001, 413)):
            response = server.post(VALIDATE, GOOD + b" " * (size - len(GOOD))).json()["response"]
            assert response.get("status", {}).get("code") == denied


@pytest.mark.parametrize("slow", [False, True])
def test_so_many_requests_wait_behind_another(slow: bool, server: Server) -> None:
    get = request("GET", "/livez", headers={})
    with server.connect() as connection, Gate() as gate:
        first = request("POST", VALIDATE, gate.review("waits")) if slow else get
        connection.send(first + get * 40)
        if slow:
            gate.await_policy()
            gate.open()
        codes = [connection.reply().status for _ in range(34)]
        assert codes == [200] * 33 + [429]
        assert connection.is_closed()
    assert_serves(server)


# Where one request ends and the next begins.


@PORTS
@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: , chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding:\r\n chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 0x3\r\n",
        b"Content-Length: \r\n",
        b"A: b\nContent-Length: 3\r\n",
        b"A: b\rContent-Length: 3\r\n",
        b"A: b\r\n folded\r\n",
        b"Host: b\r\n",
    ],
)
def test_a_head_that_two_could_read_in_two_ways(headers: bytes, ops: bool, server: Server) -> None:
    assert_refused(server, b"POST /livez HTTP/1.1\r\nHost: a\r\n%b\r\n0\r\n\r\n" % headers, 400, ops=ops)


@pytest.mark.parametrize(
    "data",
    [
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET /livez HTTP/0.9\r\nHost: a\r\n\r\n",
        b"POST /livez HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        CHUNKED + b"0x2\r\n{}\r\n",
        CHUNKED + b"2\n{}\n",
        CHUNKED + b"2\r\n{}0\r\n\r\n",
        CHUNKED + b"2;a\nb\r\n{}\r\n",
        CHUNKED + b"10000000000000002\r\n{}\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\nA b\r\n\r\n",
    ],
)
@PORTS
def test_what_is_not_spoken(data: bytes, ops: bool, server: Server) -> None:
    assert_refused(server, data, 400, ops=ops)


@PORTS
def test_nothing_is_read_behind_the_wish_for_another_protocol(ops: bool, server: Server) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 50\r\n\r\n"
    with connect(server, ops=ops) as connection:
        connection.send(head + request("GET", "/readyz", headers={}))
        connection.send(request("GET", "/readyz", headers={}))
        reply = connection.reply()
        assert (reply.body, reply.closes) == (b"ok", True)
        assert connection.is_closed()


def test_http_1_0_needs_no_host(server: Server) -> None:
    with server.connect() as connection:
        connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
        assert connection.reply().body == b"ok"
        assert connection.is_closed()


@PORTS
def test_noise(ops: bool, server: Server) -> None:
    """Requests with some bytes changed, doubled or cut out: each is answered by no worse than a 4xx, or closed."""
    chance = random.Random(4)
    seeds = [
        request("POST", VALIDATE, GOOD) * 2,
        CHUNKED + chunked(GOOD[:50], GOOD[50:]) + request("GET", "/livez", headers={}),
        request("GET", "/livez", headers={"Connection": "upgrade", "Upgrade": "h2c"}) * 3,
    ]
    for _ in range(150):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = chance.choice(
                (b"", b"\r\n", b"\0", b" ", b":", b"\xff", bytes(data[at : at + 20]), bytes([chance.randrange(256)]))
            )
        for code in statuses(server, bytes(data), ops=ops):
            assert code in (b"100", b"200", b"400", b"404", b"405", b"413", b"415", b"429", b"431"), bytes(data)
    assert_serves(server)


def statuses(server: Server, data: bytes, *, ops: bool) -> list[bytes]:
    """The codes of all answers to what is no more than that."""
    with connect(server, ops=ops) as connection, suppress(OSError):
        connection.send(data)
        connection.socket.settimeout(0.01)
        got = b""
        with suppress(TimeoutError, ssl.SSLError):
            while part := connection.socket.recv(65536):
                got += part
        return [line.split(b" ")[1] for line in got.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    return []


# Time.


def ended_after(connection: Connection, drip: bytes = b"") -> float:
    """The seconds until the server ends a connection on which something comes again and again."""
    began = time.monotonic()
    while connection.is_silent(0.05):
        assert time.monotonic() - began < 5
        connection.send(drip)
    assert connection.is_closed()
    return time.monotonic() - began


@PORTS
@pytest.mark.parametrize(
    ("sent", "drip"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"GET", b""),
        (b"GET /livez HTTP/1.1\r\n", b"A: b\r\n"),
        (b"GET /livez HTTP/1.1\r\nA: ", b"b"),
        (request("GET", "/livez", headers={})[:-2], b""),
    ],
)
def test_slow_heads(sent: bytes, drip: bytes, ops: bool, hasty: Server) -> None:
    with connect(hasty, ops=ops) as connection:
        connection.send(sent)
        assert ended_after(connection, drip) > 0.2


@pytest.mark.parametrize(
    ("sent", "drip"),
    [
        (HEAD + b"Content-Length: 1000\r\n\r\n", b""),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"A: b\r\n"),
    ],
)
def test_slow_bodies(sent: bytes, drip: bytes, hasty: Server) -> None:
    with hasty.connect() as connection:
        connection.send(sent)
        assert ended_after(connection, drip) > 0.2


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01"])
def test_slow_handshakes(sent: bytes, hasty: Server) -> None:
    with Connection(hasty.port, None) as connection:
        connection.send(sent)
        assert ended_after(connection) > 0.2


@pytest.mark.parametrize("rest", [b"", b"POST /ad", HEAD + b"Content-Length: 1000\r\n\r\n{"])
def test_a_second_request_has_a_time_of_its_own(rest: bytes, hasty: Server) -> None:
    with hasty.connect() as connection:
        for _ in range(8):  # longer than one may take
            assert connection.post(VALIDATE, GOOD).status == 200
            assert connection.is_silent(0.05)
        if rest:
            connection.send(rest)
            assert ended_after(connection) > 0.2
        else:
            assert connection.is_silent(1)  # whoever is idle has more


@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_time_for_policies_is_none_of_the_callers(slow: str, hasty: Server) -> None:
    with hasty.connect() as connection, Gate() as gate:
        connection.request("POST", VALIDATE, gate.review(slow, uid="a"))
        connection.send(request("POST", VALIDATE, GOOD) + HEAD)  # nor for those behind
        gate.await_policy()
        assert connection.is_silent(1)
        gate.open()
        assert [connection.reply().json()["response"]["allowed"] for _ in range(2)] == [True, True]
        assert ended_after(connection) > 0.1


def test_whoever_takes_no_answers(hasty: Server) -> None:
    with hasty.connect() as deaf:
        deaf.socket.settimeout(0.1)
        with suppress(OSError):
            while True:
                deaf.socket.sendall(request("GET", "/openapi.json", headers={}) * 20)
        deaf.socket.settimeout(5)
        with suppress(OSError, EOFError):  # in the midst of an answer
            while True:
                deaf.reply()
    assert_serves(hasty)


def test_what_was_ended_is_counted(hasty: Server) -> None:
    with Connection(hasty.port, None) as silent, hasty.connect() as headless, hasty.connect() as bodiless:
        bodiless.send(HEAD + b"Content-Length: 1000\r\n\r\n")
        for connection in (silent, headless, bodiless):
            assert connection.is_closed()
    page = hasty.get("/metrics", ops=True).body.decode()
    for stage in ("tls", "header", "body"):
        assert f'webhooks_connections_closed_total{{port="reviews",waited_for="{stage}"}}' in page
    assert 'webhooks_connections{port="ops"} 1.0' in page
    assert 'webhooks_connections{port="reviews"} 0.0' in page


# Memory.


@pytest.mark.parametrize("lying", [False, True], ids=["a stream", "a chunk that lies"])
def test_a_body_of_a_gibibyte_takes_little_memory(lying: bool, server: Server) -> None:
    before, piece = server.resident_mb, b"x" * 65_536
    with server.connect() as connection:
        connection.send(CHUNKED + (b"40000000\r\n" if lying else b""))
        with suppress(OSError):
            for _ in range(16_384):
                connection.socket.sendall(piece if lying else b"10000\r\n%b\r\n" % piece)
        assert server.resident_mb - before < 32
    assert_serves(server)

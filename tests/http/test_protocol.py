"""HTTP on a connection: limits and timeouts at both ports of a real server, and responses that are sent together."""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from webhooks.http import protocol as http_protocol
from webhooks.http.protocol import Exchange, LimitedHttpProtocol, WriteBatcher
from webhooks.server import review_protocol

from ..support.members import used_members
from ..support.servers import REVIEWS, Connection, Gate, Server, chunked, request, review, serving
from ..support.transports import RecordingTransport, Written

VALIDATE = "/admission/validate"
GOOD = review()
HEAD = b"POST /admission/validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"  # incomplete
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PORTS = pytest.mark.parametrize("ops", [False, True], ids=["reviews", "ops"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


def connect(server: Server, *, ops: bool) -> Connection:
    return Connection(server.ops_port or 0, None) if ops else server.connect()


def assert_serves(server: Server) -> None:
    assert server.post(VALIDATE, GOOD).json()["response"]["allowed"] is True
    assert server.get("/livez", ops=True).body == b"ok"


def assert_rejected(server: Server, data: bytes, code: int, *, ops: bool = False) -> None:
    with connect(server, ops=ops) as connection:
        connection.send(data)
        reply = connection.reply()
        assert (reply.status, reply.json()["code"], reply.closes) == (code, code, True)
        assert connection.is_closed()


# Headers.


def with_headers(count: int, path: str = "/livez") -> bytes:
    """Return a request with so many headers."""
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n".encode() + b"A: b\r\n" * (count - 1) + b"\r\n"


def with_bytes(size: int) -> bytes:
    """Return a request with so many bytes of headers and path."""
    rest = size - len("/livez") - len("Host: a\r\n") - len("A: \r\n")
    return b"GET /livez HTTP/1.1\r\nHost: a\r\nA: %b\r\n\r\n" % (b"b" * rest)


@PORTS
@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    ("data", "code"),
    [(with_headers(100), 200), (with_headers(101), 431), (with_bytes(32_768), 200), (with_bytes(32_769), 431)],
    ids=["100 headers", "101 headers", "32 KiB", "one byte more"],
)
def test_headers_have_limits(data: bytes, code: int, pieces: int, ops: bool, server: Server) -> None:
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
def test_endless_data_is_rejected(data: bytes, ready: bytes, server: Server) -> None:
    with server.connect() as connection:
        if ready:
            connection.send(ready)
            assert connection.reply().status == 200
        connection.send(data)
        reply = connection.reply()
        assert (reply.status, reply.closes) == (431, True)
        assert connection.is_closed()


def test_a_large_body_does_not_count_as_headers(server: Server) -> None:
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
        assert_rejected(server, with_headers(6), 431)
        assert_rejected(server, with_bytes(1025), 431)
        for size, denied in ((2000, None), (2001, 413)):
            response = server.post(VALIDATE, GOOD + b" " * (size - len(GOOD))).json()["response"]
            assert response.get("status", {}).get("code") == denied


@pytest.mark.parametrize("slow", [False, True])
def test_pipelined_requests_have_a_limit(slow: bool, server: Server) -> None:
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


# The end of a request.


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
def test_ambiguous_headers_are_rejected(headers: bytes, ops: bool, server: Server) -> None:
    assert_rejected(server, b"POST /livez HTTP/1.1\r\nHost: a\r\n%b\r\n0\r\n\r\n" % headers, 400, ops=ops)


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
def test_unsupported_http_is_rejected(data: bytes, ops: bool, server: Server) -> None:
    assert_rejected(server, data, 400, ops=ops)


@pytest.mark.parametrize(
    "data",
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
def test_malformed_http_is_rejected(data: bytes, server: Server) -> None:
    assert_rejected(server, data, 400)
    assert_serves(server)


@PORTS
def test_nothing_is_read_after_an_upgrade(ops: bool, server: Server) -> None:
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
    """Requests with changed, repeated or removed bytes get at most a 4xx response, or the connection is closed."""
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
    """Return the status codes of all responses to some data."""
    with connect(server, ops=ops) as connection, suppress(OSError):
        connection.send(data)
        connection.socket.settimeout(0.01)
        received = b""
        with suppress(TimeoutError, ssl.SSLError):
            while part := connection.socket.recv(65536):
                received += part
        return [line.split(b" ")[1] for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    return []


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


# Responses that are sent together.

Scenario = Callable[[WriteBatcher, RecordingTransport, RecordingTransport, Written], Awaitable[None]]


def run(scenario: Scenario) -> Written:
    """Run a scenario with two connections, and return the written data."""
    written: Written = []

    async def main() -> None:
        a, b = RecordingTransport("a", written), RecordingTransport("b", written)
        await scenario(WriteBatcher(asyncio.get_running_loop()), a, b, written)

    asyncio.run(main())
    return written


def test_responses_are_sent_at_the_end_of_the_iteration() -> None:
    async def scenario(writes: WriteBatcher, a: RecordingTransport, b: RecordingTransport, written: Written) -> None:
        writes.write(a, b"1")
        writes.write(b, b"2")
        writes.write(a, b"3")
        assert written == []
        await asyncio.sleep(0)
        assert written == [("a", b"1"), ("b", b"2"), ("a", b"3")]
        writes.write(b, b"4")
        await asyncio.sleep(0)

    assert run(scenario)[3:] == [("b", b"4")]


def test_responses_are_sent_before_later_tasks_write() -> None:
    async def scenario(writes: WriteBatcher, a: RecordingTransport, b: RecordingTransport, written: Written) -> None:
        writes.write(a, b"response")
        await asyncio.create_task(write(a))

    async def write(transport: RecordingTransport) -> None:
        transport.write(b"other")

    assert run(scenario) == [("a", b"response"), ("a", b"other")]


def test_flush_sends_at_once() -> None:
    async def scenario(writes: WriteBatcher, a: RecordingTransport, b: RecordingTransport, written: Written) -> None:
        writes.write(a, b"1")
        writes.flush()
        assert written == [("a", b"1")]
        writes.write(b, b"2")
        await asyncio.sleep(0)
        writes.flush()

    assert run(scenario) == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize("count", [15, 16, 17, 40])
def test_sixteen_responses_are_sent_at_once(count: int) -> None:
    async def scenario(writes: WriteBatcher, a: RecordingTransport, b: RecordingTransport, written: Written) -> None:
        for number in range(count):
            writes.write(a, b"%d" % number)
        assert len(written) == count // 16 * 16
        await asyncio.sleep(0)

    assert run(scenario) == [("a", b"%d" % number) for number in range(count)]


def test_nothing_is_written_to_a_closing_connection() -> None:
    async def scenario(writes: WriteBatcher, a: RecordingTransport, b: RecordingTransport, written: Written) -> None:
        writes.write(a, b"1")
        writes.write(b, b"2")
        a.close()
        await asyncio.sleep(0)

    assert run(scenario) == [("b", b"2")]


# The internals of uvicorn that the protocol uses.

POST = b"POST /a?b HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n"
USED = {
    *("__init__", "connection_made", "connection_lost", "data_received", "shutdown"),
    *("pause_writing", "resume_writing", "on_response_complete", "_start_asgi_task"),
    *("on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete"),
    *(
        "app_state",
        "cycle",
        "flow",
        "headers",
        "loop",
        "parser",
        "pipeline",
        "server_state",
        "tasks",
        "transport",
        "url",
    ),
}


class Base:
    """A connection with the protocol of uvicorn, and an application that responds when it may."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: type[HttpToolsProtocol] = HttpToolsProtocol) -> None:
        self.scopes: list[Any] = []
        self.written: Written = []
        self.may_respond = asyncio.Event()
        self.state = ServerState()
        config = uvicorn.Config(self.respond, interface="asgi3", log_config=None)
        config.load()
        self.protocol: Any = protocol(config, self.state, {"key": "value"}, loop)

    async def respond(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.may_respond.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def connect(self) -> Any:
        self.protocol.connection_made(RecordingTransport("", self.written))
        return self.protocol

    async def finish(self) -> None:
        self.may_respond.set()
        await asyncio.gather(*self.state.tasks)


def on_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on an event loop."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    return run


@on_loop
async def test_only_known_internals_of_uvicorn_are_used() -> None:
    base = Base(asyncio.get_running_loop()).connect()
    base.on_message_begin()
    overridden = {name for name in vars(LimitedHttpProtocol) if name in vars(HttpToolsProtocol)}
    assert used_members(http_protocol, base) | overridden - {"__doc__", "__module__"} == USED
    assert used_members(review_protocol, base, LimitedHttpProtocol) <= {"__init__"}


@on_loop
async def test_uvicorn_constructor() -> None:
    base = Base(asyncio.get_running_loop())
    protocol = base.protocol
    assert (protocol.transport, protocol.flow, protocol.cycle, protocol.headers) == (None, None, None, None)
    assert (protocol.loop, protocol.server_state, protocol.tasks) == (
        asyncio.get_running_loop(),
        base.state,
        base.state.tasks,
    )
    assert (protocol.app_state, list(protocol.pipeline)) == ({"key": "value"}, [])
    assert isinstance(protocol.parser, httptools.HttpRequestParser)
    assert base.state.default_headers == []


@on_loop
async def test_uvicorn_connections() -> None:
    base = Base(asyncio.get_running_loop())
    protocol = base.connect()
    assert base.state.connections == {protocol}
    assert isinstance(protocol.transport, RecordingTransport)
    exchange = Exchange()
    protocol.cycle = exchange
    protocol.connection_lost(ConnectionResetError())
    assert base.state.connections == set()
    assert exchange.disconnected
    assert protocol.parser is None


@on_loop
async def test_uvicorn_requests() -> None:
    base = Base(asyncio.get_running_loop())
    protocol = base.connect()
    base.state.default_headers = [(b"date", b"today")]
    protocol.data_received(POST + b"{")
    assert (protocol.url, protocol.headers) == (b"/a?b", [(b"host", b"c"), (b"content-length", b"2")])
    cycle = protocol.cycle
    assert (cycle.response_complete, cycle.keep_alive, cycle.body, cycle.more_body) == (False, True, b"{", True)
    protocol.data_received(b"}")
    assert (cycle.body, cycle.more_body, len(base.state.tasks)) == (b"{}", False, 1)
    await base.finish()
    [scope] = base.scopes
    assert (scope["path"], scope["query_string"], scope["state"]) == ("/a", b"b", {"key": "value"})
    assert cycle.response_complete
    sent = b"".join(data for _, data in base.written)
    assert sent == b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 0\r\n\r\n"


@on_loop
async def test_uvicorn_closes_connections_without_keep_alive() -> None:
    base = Base(asyncio.get_running_loop())
    protocol = base.connect()
    protocol.data_received(POST + b"{}")
    protocol.cycle.keep_alive = False
    await base.finish()
    assert b"connection: close" in b"".join(data for _, data in base.written)
    assert protocol.transport.is_closing()


@on_loop
async def test_uvicorn_calls_on_response_complete() -> None:
    class Recording(HttpToolsProtocol):
        responses = 0

        def on_response_complete(self) -> None:
            self.responses += 1

    base = Base(asyncio.get_running_loop(), Recording)
    protocol = base.connect()
    protocol.data_received(POST + b"{}")
    await asyncio.sleep(0)
    assert protocol.responses == 0
    await base.finish()
    assert protocol.responses == 1


@on_loop
async def test_uvicorn_queues_pipelined_requests() -> None:
    base = Base(asyncio.get_running_loop())
    protocol = base.connect()
    protocol.data_received((POST + b"{}") * 2)
    [(cycle, app)] = protocol.pipeline
    assert protocol.flow.read_paused
    assert (cycle is protocol.cycle, cycle.response_complete, len(base.state.tasks)) == (True, False, 1)
    protocol.pipeline.clear()
    protocol._start_asgi_task(cycle, app)
    assert len(base.state.tasks) == 2
    await base.finish()
    assert len(base.scopes) == 2


@on_loop
async def test_uvicorn_flow_control() -> None:
    protocol = Base(asyncio.get_running_loop()).connect()
    flow, calls = protocol.flow, []
    protocol.transport.pause_reading = lambda: calls.append("pause")
    protocol.transport.resume_reading = lambda: calls.append("resume")
    assert (flow.read_paused, flow.write_paused) == (False, False)
    flow.pause_reading()
    protocol.pause_writing()
    assert (flow.read_paused, flow.write_paused, calls) == (True, True, ["pause"])
    flow.resume_reading()
    protocol.resume_writing()
    assert (flow.read_paused, flow.write_paused, calls) == (False, False, ["pause", "resume"])


def test_uvicorn_status_lines() -> None:
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
    assert set(range(100, 600)) <= STATUS_LINE.keys()

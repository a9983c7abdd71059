"""The connection table: timeouts, limits and evictions, with fake connections."""

import asyncio
import ctypes
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import pytest

from webhooks.http import connections
from webhooks.http.connections import ConnectionTable, Stage
from webhooks.observability.metrics import Counter, Gauge, MetricRegistry
from webhooks.settings import Limits

from ..support.pairs import GOOD, VALIDATE
from ..support.servers import Connection, Gate, Server, request, serving

LIMITS = Limits(max_connections=4, max_connections_per_peer=3)


@dataclass(eq=False)
class Fake:
    """A connection."""

    stage: Stage = "idle"
    since: float = 0.0
    peer: str = "10.0.0.1"
    closed: bool = False
    aborted: bool = False

    certificate: bytes | None = None

    def close_gracefully(self) -> None:
        self.closed, self.since = True, time.monotonic()

    def abort(self) -> None:
        self.aborted = True


class Port:
    """The connection table of a port."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.metrics = MetricRegistry()
        self.table = ConnectionTable("reviews", limits, 120.0, self.metrics)

    def connect(self, *clients: Fake) -> None:
        for client in clients:
            self.table.add(client)

    def watch(self) -> None:
        """Check all connections."""

        async def watch() -> None:
            for _ in range(4):  # each checks a batch
                self.table.watch()

        asyncio.run(watch())

    def admit(self, peer: str) -> bool:
        async def admit() -> bool:
            return self.table.admit(peer)

        return asyncio.run(admit())

    def values(self, name: str) -> Mapping[tuple[str, ...], float]:
        meter = self.metrics.by_name[f"webhooks_connections{name}"]
        assert isinstance(meter, Counter | Gauge)
        return {labels[1:]: value for labels, value in meter.values.items()}


def ago(seconds: float) -> float:
    """Return a time on the clock of the event loop."""
    return time.monotonic() - seconds


@pytest.mark.parametrize(
    ("stage", "seconds"), [("tls", 5), ("header", 5), ("body", 10), ("response", 10), ("idle", 120), ("close", 5)]
)
def test_each_stage_has_a_timeout(stage: Stage, seconds: float) -> None:
    port, early, late = Port(), Fake(stage, ago(seconds - 1)), Fake(stage, ago(seconds + 1))
    port.connect(early, late)
    port.watch()
    assert (early.closed, late.closed) == (False, True)
    assert port.values("_closed") == {(stage,): 1}


def test_waiting_for_policies_has_no_timeout() -> None:
    port, client = Port(), Fake("policies", -1e9)
    port.connect(client)
    port.watch()
    assert not client.closed


def test_connections_are_closed_in_batches() -> None:
    """Other tasks run in between."""
    port, clients = Port(Limits(tls_timeout=0.1)), [Fake("tls", ago(1)) for _ in range(100)]

    async def close_all() -> None:
        port.connect(*clients)
        port.table.watch()
        closed = [0]
        while closed[-1] < 100:
            await asyncio.sleep(0)
            closed.append(sum(client.closed for client in clients))
        assert max(later - earlier for earlier, later in pairwise(closed)) < 50

    asyncio.run(asyncio.wait_for(close_all(), 5))


def test_connections_are_admitted_while_there_is_room() -> None:
    port = Port()
    for number in range(4):
        assert port.admit(f"10.0.0.{number}")
        port.connect(Fake(peer=f"10.0.0.{number}"))
    assert port.values("") == {(): 4}
    assert port.values("_closed") == port.values("_rejected") == {}


@pytest.mark.parametrize(
    ("evicted", "others"),
    [
        (("idle", 60), [("idle", 59), ("idle", 1)]),
        (("tls", 1), [("idle", 20)]),
        (("idle", 3), [("tls", 0.1)]),  # a new connection is not late yet
        (("header", 2), [("body", 3)]),
        (("response", 5), [("close", 1)]),
        (("idle", 0), [("policies", 100), ("policies", 100)]),
    ],
)
def test_the_connection_that_used_most_of_its_timeout_is_evicted(
    evicted: tuple[Stage, float], others: list[tuple[Stage, float]]
) -> None:
    clients = [Fake(stage, ago(seconds)) for stage, seconds in (*others, evicted)]
    port = Port(Limits(max_connections=len(clients)))
    port.connect(*clients)
    assert port.admit("10.0.0.9")
    assert [client.aborted for client in clients] == [False] * len(others) + [True]
    assert port.values("_closed") == {("evicted",): 1}
    assert port.values("") == {(): len(others)}


def test_one_in_sixty_four_connections_is_evicted_at_once() -> None:
    port = Port(Limits(max_connections=256))
    clients = [Fake(since=ago(100 - number / 10)) for number in range(256)]
    port.connect(*clients)
    assert port.admit("10.0.0.9")
    assert [client.aborted for client in clients] == [True] * 4 + [False] * 252


def test_an_address_at_its_limit_evicts_its_own_connections() -> None:
    port, other = Port(), Fake("tls", ago(4), "10.0.0.2")
    clients = [Fake(since=ago(30 - number)) for number in range(3)]
    port.connect(other, *clients)
    assert port.admit("10.0.0.1")
    assert [client.aborted for client in (*clients, other)] == [True, False, False, False]


@pytest.mark.parametrize(("peers", "limit"), [((1, 1, 1), "peer"), ((1, 2, 3, 4), "all")])
def test_a_connection_is_rejected_if_all_others_wait_for_policies(peers: tuple[int, ...], limit: str) -> None:
    port = Port()
    port.connect(*(Fake("policies", peer=f"10.0.0.{peer}") for peer in peers))
    assert not port.admit("10.0.0.1")
    assert port.values("_rejected") == {(limit,): 1}


def test_the_search_for_connections_to_evict_is_not_repeated_for_each_new_one() -> None:
    port = Port()
    clients = [Fake("policies", peer=f"10.0.0.{number}") for number in range(4)]
    port.connect(*clients)
    assert not port.admit("10.0.0.1")
    clients[0].stage, clients[0].since = "idle", ago(1)
    assert not port.admit("10.0.0.1")
    port.watch()  # includes the cleanup that runs each second
    assert port.admit("10.0.0.1")


def test_closed_connections_are_not_counted() -> None:
    port, client, other = Port(), Fake(), Fake(peer="10.0.0.2")
    port.connect(client, other)
    for _ in range(2):
        port.table.discard(client)
    assert port.values("") == {(): 1}
    for _ in range(3):
        assert port.admit("10.0.0.1")
        port.connect(Fake("policies"))
    assert port.admit("10.0.0.3")
    assert other.aborted


# Client certificates.


def test_connections_of_untrusted_clients_are_closed() -> None:
    port = Port()
    trusted, untrusted, anonymous = Fake(certificate=b"good"), Fake(certificate=b"bad"), Fake()
    port.connect(trusted, untrusted, anonymous)
    port.table.close_untrusted(lambda certificate: certificate == b"good")
    assert [client.aborted for client in (trusted, untrusted, anonymous)] == [False, True, False]
    assert port.values("_closed") == {("untrusted",): 1}


def test_clients_are_checked_after_a_handshake_that_was_in_progress() -> None:
    port = Port()
    handshakes = [Fake("tls", certificate=certificate) for certificate in (b"good", b"bad")]
    later = Fake("tls", certificate=b"bad")  # its handshake verifies by the remaining CAs
    port.connect(*handshakes)
    port.table.close_untrusted(lambda certificate: certificate == b"good")
    port.connect(later)
    for client in (*handshakes, later):
        assert not client.aborted
        client.stage = "idle"
        port.table.on_handshake(client)
    assert [client.aborted for client in (*handshakes, later)] == [False, True, False]


# Memory.


@pytest.mark.parametrize(("closed", "released"), [(63, 0), (64, 1)])
def test_memory_is_released_when_many_connections_were_closed(
    closed: int, released: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[None] = []
    monkeypatch.setattr(connections, "release_memory", lambda: times.append(None))
    port, clients = Port(Limits()), [Fake(since=ago(0)) for _ in range(100)]
    port.connect(*clients)
    port.watch()
    for client in clients[:closed]:
        port.table.discard(client)
    for _ in range(2):
        port.watch()
    assert len(times) == released


def test_memory_is_released() -> None:
    connections.release_memory()


@pytest.mark.parametrize("library", [lambda _: object(), None], ids=["no malloc_trim", "no C library"])
def test_other_c_libraries_do_not_release_memory(
    library: Callable[[None], object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: None) -> object:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", library or fail)
    assert connections._load_malloc_trim()(0) is None


# A server with short timeouts.

SHORT = ("--tls-timeout", "300ms", "--header-timeout", 0.3, "--body-timeout", 0.3)
HEAD = b"POST /admission/validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"  # incomplete
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PORTS = pytest.mark.parametrize("ops", [False, True], ids=["reviews", "ops"])


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts."""
    with serving(tmp_path_factory.mktemp("impatient"), *SHORT) as server:
        yield server


def connect(server: Server, *, ops: bool) -> Connection:
    return Connection(server.ops_port or 0, None) if ops else server.connect()


def seconds_until_closed(connection: Connection, drip: bytes = b"") -> float:
    """Send data again and again, and return the seconds until the server closes the connection."""
    start = time.monotonic()
    while connection.is_silent(0.05):
        assert time.monotonic() - start < 5
        connection.send(drip)
    assert connection.is_closed()
    return time.monotonic() - start


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
def test_slow_headers(sent: bytes, drip: bytes, ops: bool, impatient: Server) -> None:
    with connect(impatient, ops=ops) as connection:
        connection.send(sent)
        assert seconds_until_closed(connection, drip) > 0.2


@pytest.mark.parametrize(
    ("sent", "drip"),
    [
        (HEAD + b"Content-Length: 1000\r\n\r\n", b""),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
        (CHUNKED, b"1\r\nx\r\n"),
        (CHUNKED + b"1\r\nx\r\n0\r\n", b"A: b\r\n"),
    ],
)
def test_slow_bodies(sent: bytes, drip: bytes, impatient: Server) -> None:
    with impatient.connect() as connection:
        connection.send(sent)
        assert seconds_until_closed(connection, drip) > 0.2


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01"])
def test_slow_handshakes(sent: bytes, impatient: Server) -> None:
    with Connection(impatient.port, None) as connection:
        connection.send(sent)
        assert seconds_until_closed(connection) > 0.2


@pytest.mark.parametrize("rest", [b"", b"POST /ad", HEAD + b"Content-Length: 1000\r\n\r\n{"])
def test_each_request_has_its_own_timeout(rest: bytes, impatient: Server) -> None:
    with impatient.connect() as connection:
        for _ in range(8):  # longer than one timeout
            assert connection.post(VALIDATE, GOOD).status == 200
            assert connection.is_silent(0.05)
        if rest:
            connection.send(rest)
            assert seconds_until_closed(connection) > 0.2
        else:
            assert connection.is_silent(1)  # the timeout of idle connections is longer


@pytest.mark.parametrize("slow", ["waits", "hangs"])
def test_reviews_behind_a_slow_policy_have_no_timeout(slow: str, impatient: Server) -> None:
    with impatient.connect() as connection, Gate() as gate:
        connection.request("POST", VALIDATE, gate.review(slow, uid="a"))
        connection.send(request("POST", VALIDATE, GOOD) + HEAD)  # nor do the requests behind it
        gate.await_policy()
        assert connection.is_silent(1)
        gate.open()
        assert [connection.reply().json()["response"]["allowed"] for _ in range(2)] == [True, True]
        assert seconds_until_closed(connection) > 0.1


def test_a_client_that_does_not_read_is_disconnected(impatient: Server) -> None:
    with impatient.connect() as unread:
        unread.socket.settimeout(0.1)
        with suppress(OSError):
            while True:
                unread.socket.sendall(request("GET", "/openapi.json", headers={}) * 20)
        unread.socket.settimeout(5)
        with suppress(OSError, EOFError):  # the last response is incomplete
            while True:
                unread.reply()
    assert impatient.post(VALIDATE, GOOD).status == 200


def test_closed_connections_are_counted(impatient: Server) -> None:
    with Connection(impatient.port, None) as no_tls, impatient.connect() as no_header, impatient.connect() as no_body:
        no_body.send(HEAD + b"Content-Length: 1000\r\n\r\n")
        for connection in (no_tls, no_header, no_body):
            assert connection.is_closed()
    page = impatient.get("/metrics", ops=True).body.decode()
    for reason in ("tls", "header", "body"):
        assert f'webhooks_connections_closed_total{{port="reviews",reason="{reason}"}}' in page
    assert 'webhooks_connections{port="ops"} 1.0' in page
    assert 'webhooks_connections{port="reviews"} 0.0' in page

"""High load, and load for a long time: nothing fails, memory does not grow, and small reviews stay fast."""

import asyncio
import ssl
import time
from pathlib import Path

from ..support.api_server import accept_admission
from ..support.builders import access_body, admission_body, encode_body, image_body, pod, token_body
from ..support.load import VALIDATE, Call, Client, Load, post_allowed, post_expecting
from ..support.servers import REVIEWS, Server, request, review, serving
from .figures import Figure, Size

MUTATE = "/admission/mutate"
LARGE = {f"key-{number}": "x" * 60 for number in range(40_000)}  # 3 MB


def patched(server: Server, uid: str) -> Call:
    """Return a call with a review of 5 kB whose response has a patch. The patch is checked once, here."""
    sent = admission_body("CREATE", pod(nodeSelector={f"key-{number}": "x" * 40 for number in range(80)}), uid=uid)
    body = encode_body(sent)
    assert 4_500 < len(body) < 5_500
    reply = server.post(MUTATE, body)
    assert accept_admission(sent, reply.body, mutating=True)["object"]["metadata"]["labels"] == {"seen": "yes"}
    return post_expecting(MUTATE, body, reply.body)


def test_item_01_kept_connections(size: Size, figure: Figure, tmp_path: Path) -> None:
    seconds = size.of(3, 60)
    with serving(tmp_path) as server:
        clients = [Client(server.connect, patched(server, f"uid-{number}")) for number in range(25)]
        with Load(clients).running() as load:
            time.sleep(seconds)  # the duration of the test
    figure(
        1,
        f"25 connections that are kept, reviews of 5 kB with a patch, {seconds} s",
        f"{len(load.failures)} errors in {load.answered:,} reviews",
        "0 errors",
    )
    assert load.failures == []
    assert all(client.durations for client in clients)


def test_item_02_a_connection_for_every_request(size: Size, figure: Figure, tmp_path: Path) -> None:
    seconds = size.of(3, 30)
    with serving(tmp_path) as server:
        clients = [Client(server.connect, post_allowed(f"uid-{number}"), keep_alive=False) for number in range(8)]
        with Load(clients).running() as load:
            time.sleep(seconds)
    figure(
        2,
        f"a new TLS connection for every request, {seconds} s",
        f"{len(load.failures)} errors in {load.answered:,} connections",
        "0 errors",
    )
    assert load.failures == []
    assert all(client.durations for client in clients)


async def crowd(number: int, port: int, tls: ssl.SSLContext) -> tuple[float, float, int]:
    """Open connections at the same time, each with a review.

    Returns:
        The seconds until all are connected, the seconds until all have a response, and the number of correct ones.
    """
    loop = asyncio.get_running_loop()
    start, connected = loop.time(), []

    async def call(uid: str) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        connected.append(loop.time())
        await writer.start_tls(tls, server_hostname="127.0.0.1")
        writer.write(request("POST", VALIDATE, review(uid=uid), REVIEWS | {"Connection": "close"}))
        response = await reader.read()
        writer.transport.abort()
        return response.endswith(b'"response":{"uid":"%b","allowed":true}}' % uid.encode())

    results = await asyncio.gather(*(call(f"uid-{index}") for index in range(number)), return_exceptions=True)
    return max(connected) - start, loop.time() - start, sum(result is True for result in results)


def test_item_03_a_thousand_at_once(size: Size, figure: Figure, tmp_path: Path) -> None:
    number = size.of(200, 1000)
    with serving(tmp_path) as server:
        assert server.tls is not None
        connected, finished, correct = asyncio.run(crowd(number, server.port, server.tls))
    figure(
        3,
        f"{number:,} connections within a second",
        f"connected in {connected:.2f} s, {correct:,} answered correctly in {finished:.1f} s",
        f"{number:,} in 10 s",
    )
    assert correct == number
    assert connected < 1 or not size.full
    assert finished < 10


def mixture(server: Server) -> list[Client]:
    """Return clients with all kinds of calls, including those that are rejected and those with failing policies."""

    def known(path: str, body: bytes, code: int = 200) -> Call:
        expected = server.post(path, body)
        assert expected.status == code
        return post_expecting(path, body, expected.body, code)

    asks = [
        patched(server, "uid-pod"),
        post_allowed("uid-allowed"),
        known(VALIDATE, review("denied")),
        known(VALIDATE, review("raises")),
        known(VALIDATE, review(value="x" * 100_000)),
        known(VALIDATE, review()[:-10]),
        known("/authorize", encode_body(access_body(verb="get", resource="pods"))),
        known("/authenticate", encode_body(token_body("good"))),
        known("/images", encode_body(image_body("a"))),
        known("/nowhere", b"{}", 404),
    ]
    kept = [Client(server.connect, ask) for ask in asks]
    return kept + [Client(server.connect, asks[number], keep_alive=False) for number in range(2)]


def test_item_04_soak(size: Size, figure: Figure, tmp_path: Path) -> None:
    warmth, seconds, bound = size.of((10, 15, 0.1), (60, 540, 0.05))
    with serving(tmp_path) as server, Load(mixture(server)).running() as load:
        time.sleep(warmth)
        memory, files = server.resident_mb, server.descriptors
        time.sleep(seconds)
        growth, more = server.resident_mb / memory - 1, server.descriptors - files
    figure(
        4,
        f"all kinds of calls for {seconds} s, after {warmth} s",
        f"memory {growth:+.1%} from {memory:.0f} MB, descriptors {more:+d}, "
        f"{len(load.failures)} failures in {load.answered:,} calls",
        f"memory <= {bound:+.0%}{'' if size.full else ' here, +5% at full size'}, descriptors +-10, 0 failures",
    )
    assert load.failures == []
    assert growth <= bound
    assert abs(more) <= 10


def test_item_05_large_reviews_among_small_ones(size: Size, figure: Figure, tmp_path: Path) -> None:
    seconds, bound = size.of((5, 1000), (30, 100))
    with serving(tmp_path) as server:
        small = Load([Client(server.connect, post_allowed(f"uid-{number}")) for number in range(4)])
        large = Load([Client(server.connect, post_allowed("uid-large", **LARGE))])
        with small.running(), large.running():
            time.sleep(seconds)
    figure(
        5,
        f"reviews of 3 MB among small ones, {seconds} s",
        f"the small ones' p99 {small.p99:.1f} ms ({small.answered:,} of them, {large.answered:,} large ones)",
        f"p99 <= {bound} ms" if size.full else f"p99 <= {bound} ms here, 100 ms at full size",
    )
    assert small.failures + large.failures == []
    assert large.answered >= size.of(1, 30)
    assert small.p99 <= bound

"""A process of slow or silent peers, which reconnect when the server closes their connections.

It prints `connected` as soon as all peers are connected, and exits when its standard input is closed.
"""

import asyncio
import itertools
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvloop

from ..support.servers import Server

BYTE_INTERVAL = 1.0  # seconds between two bytes
CONNECT_INTERVAL = 0.003  # seconds between two first connections
CONNECT_TIMEOUT = 60  # seconds for all peers to connect
ADDRESSES = 8  # source addresses
HEADERS = b"POST /admission/validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Behavior:
    """How a peer keeps a server waiting.

    Attributes:
        tls: whether it speaks TLS.
        first: the bytes that it sends immediately.
        drips: whether it sends further bytes one by one.
    """

    tls: bool = True
    first: bytes = b""
    drips: bool = False


BEHAVIORS = (
    Behavior(tls=False),
    Behavior(),
    Behavior(first=HEADERS + b"A: ", drips=True),
    Behavior(first=HEADERS + b"Content-Length: 1000\r\n\r\n", drips=True),
)


class Peer(asyncio.Protocol):
    """A connection of a peer."""

    def __init__(self, behavior: Behavior) -> None:
        self.closed = asyncio.Event()
        self._behavior = behavior

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(self._behavior.first)
        if self._behavior.drips:
            self._drip()

    def _drip(self) -> None:
        if not self.closed.is_set():
            self._transport.write(b"a")
            asyncio.get_running_loop().call_later(BYTE_INTERVAL, self._drip)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed.set()


async def crowd(port: int, number: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # ignore writes to closed connections
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    unconnected, all_connected = set(range(number)), asyncio.Event()

    async def run_peer(index: int, behavior: Behavior) -> None:
        options = {"local_addr": (f"127.0.0.{2 + index % ADDRESSES}", 0), "ssl": tls if behavior.tls else None}
        while True:
            with suppress(OSError):
                _, peer = await loop.create_connection(lambda: Peer(behavior), "127.0.0.1", port, **options)
                unconnected.discard(index)
                if not unconnected:
                    all_connected.set()
                await peer.closed.wait()

    tasks = []
    for index, behavior in zip(range(number), itertools.cycle(BEHAVIORS), strict=False):
        tasks.append(loop.create_task(run_peer(index, behavior)))
        await asyncio.sleep(CONNECT_INTERVAL)
    async with asyncio.timeout(CONNECT_TIMEOUT):
        await all_connected.wait()
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def keeping_waiting(server: Server, number: int) -> Iterator[None]:
    """Keep a server waiting with this number of peers within the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.peers", str(server.port), str(number)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"connected\n"
        yield
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    os.nice(19)  # real peers run on other machines: their own load must not slow the server down
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(crowd(int(sys.argv[1]), int(sys.argv[2])))

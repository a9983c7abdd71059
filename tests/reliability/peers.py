"""Peers that keep a server waiting, and come again when it ends them: a process of their own, to slow no others down.

It says `there` as soon as all of them have come, and ends with its standard input, if it is not ended before.
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

DRIP = 1.0  # seconds between two bytes
PACE = 0.003  # seconds between two that come for the first time
PATIENCE = 60  # seconds for all to come
ADDRESSES = 8  # that they come from
HEAD = b"POST /admission/validate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Sort:
    """How a peer keeps a server waiting.

    Attributes:
        tls: whether it speaks TLS.
        said: what it says at once.
        drips: whether more follows, a byte at a time.
    """

    tls: bool = True
    said: bytes = b""
    drips: bool = False


SORTS = (
    Sort(tls=False),
    Sort(),
    Sort(said=HEAD + b"A: ", drips=True),
    Sort(said=HEAD + b"Content-Length: 1000\r\n\r\n", drips=True),
)


class Peer(asyncio.Protocol):
    """One of its connections."""

    def __init__(self, sort: Sort) -> None:
        self.ended = asyncio.Event()
        self._sort = sort

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(self._sort.said)
        if self._sort.drips:
            self._drip()

    def _drip(self) -> None:
        if not self.ended.is_set():
            self._transport.write(b"a")
            asyncio.get_running_loop().call_later(DRIP, self._drip)

    def connection_lost(self, failure: Exception | None) -> None:
        self.ended.set()


async def crowd(port: int, number: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # what it says of bytes for connections that have ended
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    rest, none_left = set(range(number)), asyncio.Event()

    async def come(each: int, sort: Sort) -> None:
        where = {"local_addr": (f"127.0.0.{2 + each % ADDRESSES}", 0), "ssl": tls if sort.tls else None}
        while True:
            with suppress(OSError):
                _, peer = await loop.create_connection(lambda: Peer(sort), "127.0.0.1", port, **where)
                rest.discard(each)
                if not rest:
                    none_left.set()
                await peer.ended.wait()

    tasks = []
    for each, sort in zip(range(number), itertools.cycle(SORTS), strict=False):
        tasks.append(loop.create_task(come(each, sort)))
        await asyncio.sleep(PACE)
    async with asyncio.timeout(PATIENCE):
        await none_left.wait()
    print("there", flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def keeping_waiting(server: Server, number: int) -> Iterator[None]:
    """So many peers keep a server waiting as long as the block lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.peers", str(server.port), str(number)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"there\n"
        yield
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    os.nice(19)  # they come from elsewhere: what they cost themselves shall not slow the others on this machine
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(crowd(int(sys.argv[1]), int(sys.argv[2])))

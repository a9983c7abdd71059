"""Load: callers that call all the time, each from a thread of its own, and tell what became of it."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .servers import SECONDS, Connection, Reply, Server, review

VALIDATE = "/admission/validate"
_LOOK = 0.05  # seconds between two looks who is ready

Ask = Callable[[Connection], Reply]


def asking(path: str, body: bytes, right: bytes, code: int = 200) -> Ask:
    """A call that fails where its answer is not the right one."""

    def ask(connection: Connection) -> Reply:
        reply = connection.post(path, body)
        assert (reply.status, reply.body) == (code, right), reply
        return reply

    return ask


def is_allowed(uid: str, **members: object) -> Ask:
    """The review of a widget, which is allowed; its uid shows whose answer one is."""
    right = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%b","allowed":true}}'
    return asking(VALIDATE, review(uid=uid, **members), right % uid.encode())


@dataclass
class Client:
    """Sends one call after the other.

    Attributes:
        connect: opens a connection.
        ask: the call.
        keeps: whether it keeps a connection for as long as it may, or opens another for each call.
        seconds: how long each took that was answered rightly, its connection included.
        failures: what went wrong with the others.
    """

    connect: Callable[[], Connection]
    ask: Ask = field(default_factory=lambda: is_allowed("uid-1"))
    keeps: bool = True
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def call(self, ended: threading.Event) -> None:
        """Call until it has ended."""
        connection: Connection | None = None
        while not ended.is_set():
            began = time.perf_counter()
            try:
                connection = connection or self.connect()
                closes = self.ask(connection).closes
            except Exception as failure:
                self.failures.append(repr(failure))
                closes = True
            else:
                self.seconds.append(time.perf_counter() - began)
            if connection is not None and (closes or not self.keeps):
                connection.close()
                connection = None
        if connection is not None:
            connection.close()


@dataclass(frozen=True)
class Load:
    """Several callers at once."""

    callers: Sequence[Client]

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """They call as long as the block lasts."""
        ended = threading.Event()
        threads = [threading.Thread(target=client.call, args=(ended,)) for client in self.callers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    @property
    def answered(self) -> int:
        """How many calls were answered rightly."""
        return sum(len(client.seconds) for client in self.callers)

    @property
    def failures(self) -> list[str]:
        return [failure for client in self.callers for failure in client.failures]

    @property
    def p99(self) -> float:
        """Milliseconds within which 99 of 100 calls were answered."""
        seconds = sorted(itertools.chain.from_iterable(client.seconds for client in self.callers))
        return seconds[math.ceil(len(seconds) * 0.99) - 1] * 1000


def usual(server: Server, number: int = 4) -> Load:
    """Callers of whom every other opens a connection for each call."""
    return Load([Client(server.connect, is_allowed(f"uid-{each}"), keeps=each % 2 == 0) for each in range(number)])


def is_ready(server: Server, *, ops: bool = True) -> bool:
    return server.get("/readyz", ops=ops).status == 200


class Service:
    """Servers that share the work: a connection goes to one of those that said they were ready.

    Attributes:
        servers: all of them, which tests exchange.
    """

    def __init__(self, *servers: Server) -> None:
        self.servers = list(servers)
        self._ready = list(servers)
        self._turns = itertools.count()

    def connect(self) -> Connection:
        ready = self._ready
        return ready[next(self._turns) % len(ready)].connect()

    @property
    def all_ready(self) -> bool:
        return self._ready == self.servers

    @contextmanager
    def watched(self) -> Iterator["Service"]:
        """Who is ready is looked up over and over as long as the block lasts."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK):
                self._ready = [server for server in list(self.servers) if self._says_so(server)]

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join(SECONDS)

    @staticmethod
    def _says_so(server: Server) -> bool:
        try:
            return is_ready(server)
        except (OSError, EOFError):
            return False

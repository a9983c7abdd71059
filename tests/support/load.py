"""Load on a server: clients that send requests without a pause, each in its own thread, and record the results."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .servers import SECONDS, Connection, Reply, Server, review

VALIDATE = "/admission/validate"
_POLL_INTERVAL = 0.05  # seconds between two checks which servers are ready

Call = Callable[[Connection], Reply]


def post_expecting(path: str, body: bytes, expected: bytes, code: int = 200) -> Call:
    """Return a call that fails if the response is not the expected one."""

    def call(connection: Connection) -> Reply:
        reply = connection.post(path, body)
        assert (reply.status, reply.body) == (code, expected), reply
        return reply

    return call


def post_allowed(uid: str, **members: object) -> Call:
    """Return a call that posts the review of a widget, which is allowed. The uid identifies the response."""
    expected = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"%b","allowed":true}}'
    return post_expecting(VALIDATE, review(uid=uid, **members), expected % uid.encode())


@dataclass
class Client:
    """Makes one call after the other.

    Attributes:
        connect: opens a connection.
        call: makes a call.
        keep_alive: whether it reuses its connection until the server closes it.
        durations: the seconds that each successful call took, including its connection.
        failures: the errors of the other calls.
    """

    connect: Callable[[], Connection]
    call: Call = field(default_factory=lambda: post_allowed("uid-1"))
    keep_alive: bool = True
    durations: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def run(self, stopped: threading.Event) -> None:
        """Make calls until stopped."""
        connection: Connection | None = None
        while not stopped.is_set():
            start = time.perf_counter()
            try:
                connection = connection or self.connect()
                closes = self.call(connection).closes
            except Exception as error:
                self.failures.append(repr(error))
                closes = True
            else:
                self.durations.append(time.perf_counter() - start)
            if connection is not None and (closes or not self.keep_alive):
                connection.close()
                connection = None
        if connection is not None:
            connection.close()


@dataclass(frozen=True)
class Load:
    """Several clients at once."""

    clients: Sequence[Client]

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Run the clients within the block."""
        stopped = threading.Event()
        threads = [threading.Thread(target=client.run, args=(stopped,)) for client in self.clients]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    @property
    def answered(self) -> int:
        """The number of successful calls."""
        return sum(len(client.durations) for client in self.clients)

    @property
    def failures(self) -> list[str]:
        return [failure for client in self.clients for failure in client.failures]

    @property
    def p99(self) -> float:
        """The 99th percentile of the durations, in milliseconds."""
        durations = sorted(itertools.chain.from_iterable(client.durations for client in self.clients))
        return durations[math.ceil(len(durations) * 0.99) - 1] * 1000


def is_ready(server: Server, *, ops: bool = True) -> bool:
    return server.get("/readyz", ops=ops).status == 200


class Service:
    """Servers that share the load: connections go to those that were ready at the last check.

    Attributes:
        servers: all servers; tests replace them.
    """

    def __init__(self, *servers: Server) -> None:
        self.servers = list(servers)
        self._ready = list(servers)
        self._numbers = itertools.count()

    def connect(self) -> Connection:
        ready = self._ready
        return ready[next(self._numbers) % len(ready)].connect()

    @property
    def all_ready(self) -> bool:
        return self._ready == self.servers

    @contextmanager
    def polling(self) -> Iterator["Service"]:
        """Check continuously within the block which servers are ready."""
        stopped = threading.Event()

        def poll() -> None:
            while not stopped.wait(_POLL_INTERVAL):
                self._ready = [server for server in list(self.servers) if self._is_ready(server)]

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield self
        finally:
            stopped.set()
            thread.join(SECONDS)

    @staticmethod
    def _is_ready(server: Server) -> bool:
        try:
            return is_ready(server)
        except (OSError, EOFError):
            return False

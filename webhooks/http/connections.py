"""The connections at one port: how many there are, from where, and how long each may keep the server waiting.

One timer looks after all of them: a timer for each would cost every request more than all else that is done here for
it. The same figure decides who goes when there is no room: whoever has used the largest part of its time.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from heapq import nlargest
from operator import itemgetter
from typing import Literal, Protocol, TypeAlias
from weakref import WeakSet, ref

from webhooks.http import memory
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Limits

Stage: TypeAlias = Literal["tls", "header", "body", "policies", "answer", "idle", "end"]
"""What a server waits for: the handshake, a head, a body, its policies, that an answer is taken, a request, the end."""

_INTERVAL = 0.1  # seconds between two looks at connections
_AT_ONCE = 32  # connections that are looked at, and perhaps ended, before others get their turn
_PAUSE = 0.01  # seconds for those others
_TIDY = 1.0  # seconds
_CROWD = 64  # connections that must have gone to make it worth while to give their memory back
_SHARE = 64  # one in so many goes at once when there is no room: to find out who it is takes a while


class Connection(Protocol):
    """What is known of a connection here.

    Attributes:
        peer: the address it comes from.
        since: when it came to its stage, on the loop's clock.
    """

    peer: str
    since: float

    @property
    def certificate(self) -> bytes | None:
        """The caller's certificate (DER); None where it showed none."""

    @property
    def stage(self) -> Stage:
        """What the server waits for."""

    def leave(self) -> None:
        """End it: gently where it is idle, else at once."""

    def abort(self) -> None:
        """End it at once."""


class ConnectionTable:
    """The connections at one port.

    Args:
        port: what it is called in metrics.
        limits: how many there may be, and how long each may keep the server waiting.
        keep_alive: seconds that one may be idle.
        meters: where they are counted.

    Attributes:
        limits: as above.
    """

    def __init__(self, port: str, limits: Limits, keep_alive: float, meters: MetricRegistry) -> None:
        self._port = port
        self.limits = limits
        self._patience: dict[Stage, float] = {
            "tls": limits.tls_timeout,
            "header": limits.header_timeout,
            "body": limits.body_timeout,
            "policies": math.inf,
            "answer": limits.body_timeout,
            "idle": keep_alive,
            "end": limits.tls_timeout,
        }
        self._open: set[Connection] = set()
        self._doubtful: WeakSet[Connection] = WeakSet()
        self._trusted: Callable[[bytes], bool] = bool
        self._by_peer: Counter[str] = Counter()
        self._crowded: set[str | None] = set()  # where nobody could be sent away since the last look
        self._gauge = meters.gauge("webhooks_connections", "Connections that are open.", ("port",))
        self._refused = meters.counter(
            "webhooks_connections_rejected", "Connections that were refused, by the limit they met.", ("port", "limit")
        )
        self._ended = meters.counter(
            "webhooks_connections_closed",
            "Connections that the server ended, by what it waited for too long; room: to make room for another; trust: "
            "since their caller's authority is gone.",
            ("port", "waited_for"),
        )
        self._gauge.set(0, port)
        self._most = 0  # since memory was given back
        self._schedule(0.0)

    def watch(self) -> None:
        """Look after them from now on, for as long as the loop runs."""
        self._schedule(asyncio.get_running_loop().time())
        self._look()
        self._tidy()

    def _schedule(self, now: float) -> None:
        """Have all looked at now, and each again before its time can have passed, which begins anew with each stage."""
        self._due = [ref(connection) for connection in self._open]
        self._looks: deque[list[ref[Connection]]] = deque()
        self._looks.extend([] for _ in range(1 + int(min(self._patience.values()) / _INTERVAL)))
        self._next = now

    def _look(self) -> None:
        """Look at those whose turn it is, and end those that are late."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._next <= now:
            self._due += self._looks.popleft()
            self._looks.append([])
            self._next += _INTERVAL
        these, self._due = self._due[:_AT_ONCE], self._due[_AT_ONCE:]
        for each in these:
            connection = each()
            if connection in self._open:
                self._looks[self._look_at(connection, now)].append(each)
        loop.call_later(_PAUSE if self._due else _INTERVAL, self._look)

    def _look_at(self, connection: Connection, now: float) -> int:
        """End a connection if it is late; when to look at it again."""
        stage = connection.stage
        rest = self._patience[stage] - (now - connection.since)
        if rest <= 0:
            self._ended.add(self._port, stage)
            connection.leave()
        return int(max(0.0, min(rest / _INTERVAL, len(self._looks) - 1)))

    def _tidy(self) -> None:
        self._crowded.clear()
        if self._most - len(self._open) >= _CROWD:
            memory.give_back()
            self._most = len(self._open)
        asyncio.get_running_loop().call_later(_TIDY, self._tidy)

    def dismiss(self, patience: float) -> None:
        """Let those go, from now on, that have not come with a request for so many seconds."""
        self._patience["idle"] = self._patience["header"] = patience
        self._schedule(asyncio.get_running_loop().time())

    def expel(self, trusted: Callable[[bytes], bool]) -> None:
        """End those whose callers show a certificate that is trusted no more.

        At once; or where a handshake has begun, which goes by what was trusted at its beginning, as soon as it is over.
        """
        self._trusted = trusted
        for connection in list(self._open):
            if connection.stage == "tls":
                self._doubtful.add(connection)
            else:
                self._check(connection)

    def opened(self, connection: Connection) -> None:
        """Look at one whose handshake is over, if its caller might be trusted no more."""
        if connection in self._doubtful:
            self._doubtful.discard(connection)
            self._check(connection)

    def _check(self, connection: Connection) -> None:
        certificate = connection.certificate
        if certificate is not None and not self._trusted(certificate):
            self._ended.add(self._port, "trust")
            connection.abort()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, peer: str) -> bool:
        """Whether there is room for one more from an address, perhaps since others had to go."""
        limits = self.limits
        crowd = self._by_peer.get(peer, 0)
        if crowd >= limits.max_connections_per_peer and not self.make_room(peer):
            self._refused.add(self._port, "peer")
            return False
        if len(self._open) >= limits.max_connections and not self.make_room():
            self._refused.add(self._port, "all")
            return False
        return True

    def make_room(self, peer: str | None = None) -> bool:
        """End those that have used the largest part of their time; whether there were any that have a time at all.

        Args:
            peer: the address that they come from; None for any.
        """
        if peer in self._crowded:
            return False
        several = max(1, (len(self._open) if peer is None else self._by_peer[peer]) // _SHARE)
        waiting = (each for each in self._waiting() if peer is None or each[1].peer == peer)
        going = nlargest(several, waiting, key=itemgetter(0))
        for _, connection in going:
            self._ended.add(self._port, "room")
            connection.abort()
            self.discard(connection)
        if not going:
            self._crowded.add(peer)
        return bool(going)

    def _waiting(self) -> Iterator[tuple[float, Connection]]:
        """Those that keep the server waiting, and what part of their time they have used."""
        now, patience = asyncio.get_running_loop().time(), self._patience
        for connection in self._open:
            stage = connection.stage
            if stage != "policies":
                yield (now - connection.since) / patience[stage], connection

    def add(self, connection: Connection) -> None:
        """Count one that was admitted."""
        self._open.add(connection)
        self._looks[-1].append(ref(connection))  # one that ends before shall not be kept
        self._by_peer[connection.peer] += 1
        self._most = max(self._most, len(self._open))
        self._gauge.set(len(self._open), self._port)

    def discard(self, connection: Connection) -> None:
        """Count it no longer, if it still is."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._by_peer[connection.peer] -= 1
        if not self._by_peer[connection.peer]:
            del self._by_peer[connection.peer]
        self._gauge.set(len(self._open), self._port)

"""The connections of one port: how many there are, which clients they belong to, and their timeouts.

One timer checks all connections: a timer for each would cost every request more than all other work of this module.
At the limits, the connections that used the largest part of their timeout make room for new ones.
"""

import asyncio
import ctypes
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from heapq import nlargest
from operator import itemgetter
from typing import Literal, Protocol, TypeAlias
from weakref import WeakSet, ref

from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Limits

Stage: TypeAlias = Literal["tls", "header", "body", "policies", "response", "idle", "close"]
"""What the server waits for: a handshake, headers, a body, policies, a client that reads its response, the next
request, or the end of the connection."""

_CHECK_INTERVAL = 0.1  # seconds between two checks
_CHECK_BATCH = 32  # connections that are checked, and possibly closed, before other tasks run
_CHECK_PAUSE = 0.01  # seconds for the other tasks
_CLEANUP_INTERVAL = 1.0  # seconds
_MIN_CLOSED = 64  # connections that must have been closed before it is worthwhile to release their memory
_EVICTED_SHARE = 64  # one in so many connections is evicted at once, because the search takes a while


class Connection(Protocol):
    """A connection, as far as the table uses it.

    Attributes:
        peer: the address of the client.
        since: when the connection entered its stage, on the clock of the loop.
    """

    peer: str
    since: float

    @property
    def certificate(self) -> bytes | None:
        """The certificate of the client (DER); None if it sent none."""

    @property
    def stage(self) -> Stage:
        """The current stage."""

    def close_gracefully(self) -> None:
        """Close the connection; without a TLS shutdown unless it is idle."""

    def abort(self) -> None:
        """Close the connection at once."""


class ConnectionTable:
    """The connections of one port.

    Args:
        port: the label of the port in metrics.
        limits: how many connections there may be, and their timeouts.
        keep_alive: how many seconds a connection may be idle.
        meters: the registry for the metrics.

    Attributes:
        limits: as above.
    """

    def __init__(self, port: str, limits: Limits, keep_alive: float, meters: MetricRegistry) -> None:
        self._port = port
        self.limits = limits
        self._timeouts: dict[Stage, float] = {
            "tls": limits.tls_timeout,
            "header": limits.header_timeout,
            "body": limits.body_timeout,
            "policies": math.inf,
            "response": limits.body_timeout,
            "idle": keep_alive,
            "close": limits.tls_timeout,
        }
        self._open: set[Connection] = set()
        self._recheck: WeakSet[Connection] = WeakSet()  # their handshakes began before a CA was removed
        self._is_trusted: Callable[[bytes], bool] = bool
        self._by_peer: Counter[str] = Counter()
        self._not_evictable: set[str | None] = set()  # peers without a connection to evict, until the next cleanup
        self._max_open = 0  # since memory was released
        self._gauge = meters.gauge("webhooks_connections", "Open connections.", ("port",))
        self._gauge.set(0, port)
        self._rejected = meters.counter(
            "webhooks_connections_rejected", "Connections rejected, by the limit they exceeded.", ("port", "limit")
        )
        self._closed = meters.counter(
            "webhooks_connections_closed",
            "Connections closed by the server: those whose timeout expired by their stage, those that made room for "
            "others (evicted), and those of clients whose CA was removed (untrusted).",
            ("port", "reason"),
        )
        self._schedule_checks(0.0)

    def watch(self) -> None:
        """Enforce timeouts for as long as the running loop runs."""
        self._schedule_checks(asyncio.get_running_loop().time())
        self._check_due()
        self._clean_up()

    def _schedule_checks(self, now: float) -> None:
        """Schedule a check of all connections now.

        After a check, a connection is scheduled again before its timeout can expire. A timeout starts with the stage.
        """
        self._due = [ref(connection) for connection in self._open]
        slots = 1 + int(min(self._timeouts.values()) / _CHECK_INTERVAL)
        self._slots: deque[list[ref[Connection]]] = deque([] for _ in range(slots))
        self._next_slot = now

    def _check_due(self) -> None:
        """Check the connections that are due, and close those whose timeout has expired."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._next_slot <= now:
            self._due += self._slots.popleft()
            self._slots.append([])
            self._next_slot += _CHECK_INTERVAL
        batch, self._due = self._due[:_CHECK_BATCH], self._due[_CHECK_BATCH:]
        for reference in batch:
            connection = reference()
            if connection in self._open:
                self._slots[self._check(connection, now)].append(reference)
        loop.call_later(_CHECK_PAUSE if self._due else _CHECK_INTERVAL, self._check_due)

    def _check(self, connection: Connection, now: float) -> int:
        """Close a connection if its timeout has expired. Return the slot of its next check."""
        stage = connection.stage
        rest = self._timeouts[stage] - (now - connection.since)
        if rest <= 0:
            self._closed.add(self._port, stage)
            connection.close_gracefully()
        return int(max(0.0, min(rest / _CHECK_INTERVAL, len(self._slots) - 1)))

    def _clean_up(self) -> None:
        self._not_evictable.clear()
        if self._max_open - len(self._open) >= _MIN_CLOSED:
            release_memory()
            self._max_open = len(self._open)
        asyncio.get_running_loop().call_later(_CLEANUP_INTERVAL, self._clean_up)

    def close_idle(self, seconds: float) -> None:
        """From now on, close each connection on which no request arrives for so many seconds."""
        self._timeouts["idle"] = self._timeouts["header"] = seconds
        self._schedule_checks(asyncio.get_running_loop().time())

    def close_untrusted(self, is_trusted: Callable[[bytes], bool]) -> None:
        """Close the connections of clients whose certificate is no longer trusted.

        A handshake verifies by the CAs that were trusted when it began, so a client is checked again after a handshake
        that is in progress now.
        """
        self._is_trusted = is_trusted
        for connection in list(self._open):
            if connection.stage == "tls":
                self._recheck.add(connection)
            else:
                self._check_trust(connection)

    def on_handshake(self, connection: Connection) -> None:
        """Check a client after its handshake, if a CA was removed in the meantime."""
        if connection in self._recheck:
            self._recheck.discard(connection)
            self._check_trust(connection)

    def _check_trust(self, connection: Connection) -> None:
        certificate = connection.certificate
        if certificate is not None and not self._is_trusted(certificate):
            self._closed.add(self._port, "untrusted")
            connection.abort()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, peer: str) -> bool:
        """Return whether there is room for another connection from an address, after evicting others if necessary."""
        limits = self.limits
        if self._by_peer.get(peer, 0) >= limits.max_connections_per_peer and not self.evict(peer):
            self._rejected.add(self._port, "peer")
            return False
        if len(self._open) >= limits.max_connections and not self.evict():
            self._rejected.add(self._port, "all")
            return False
        return True

    def evict(self, peer: str | None = None) -> bool:
        """Close the connections that used the largest part of their timeout. Return whether there were any.

        Connections that wait for policies have no timeout and are never evicted.

        Args:
            peer: the address of their client; None for any address.
        """
        if peer in self._not_evictable:
            return False
        count = max(1, (len(self._open) if peer is None else self._by_peer[peer]) // _EVICTED_SHARE)
        candidates = (item for item in self._used_timeouts() if peer is None or item[1].peer == peer)
        evicted = nlargest(count, candidates, key=itemgetter(0))
        for _, connection in evicted:
            self._closed.add(self._port, "evicted")
            connection.abort()
            self.discard(connection)
        if not evicted:
            self._not_evictable.add(peer)
        return bool(evicted)

    def _used_timeouts(self) -> Iterator[tuple[float, Connection]]:
        """Yield the connections that have a timeout, each with the part of it that has passed."""
        now, timeouts = asyncio.get_running_loop().time(), self._timeouts
        for connection in self._open:
            stage = connection.stage
            if stage != "policies":
                yield (now - connection.since) / timeouts[stage], connection

    def add(self, connection: Connection) -> None:
        """Add a connection that was admitted."""
        self._open.add(connection)
        self._slots[-1].append(ref(connection))  # a weak reference: a closed connection is not kept in memory
        self._by_peer[connection.peer] += 1
        self._max_open = max(self._max_open, len(self._open))
        self._gauge.set(len(self._open), self._port)

    def discard(self, connection: Connection) -> None:
        """Remove a connection if it is in the table."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        self._by_peer[connection.peer] -= 1
        if not self._by_peer[connection.peer]:
            del self._by_peer[connection.peer]
        self._gauge.set(len(self._open), self._port)


def _load_malloc_trim() -> Callable[[int], object]:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library than GNU's
        return lambda _: None
    return trim


_malloc_trim = _load_malloc_trim()


def release_memory() -> None:
    """Return free memory to the system. Takes some milliseconds.

    Closed connections leave about 55 kB each, in small pieces that the C library would keep.
    """
    _malloc_trim(0)

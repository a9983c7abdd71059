"""A connection to a server of the Redis protocol (RESP2), for concurrent requests.

All requests of one iteration of the event loop are sent in one write, and replies arrive in the order of the requests:
many concurrent requests cost little more than one, and no connection pool is needed.
"""

import asyncio
from collections import deque
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from webhooks.errors import reason_for

if TYPE_CHECKING:
    from hiredis import Reader


class RedisError(Exception):
    """Redis is unreachable, too slow, or rejects a command. The message is for the log and contains no secret."""


class ErrorReply(RedisError):
    """An error that the server replied with, such as ``NOSCRIPT No matching script``."""


def encode_arguments(*arguments: str | bytes | int) -> bytes:
    """Encode arguments of a command."""
    encoded = (argument if isinstance(argument, bytes) else str(argument).encode() for argument in arguments)
    return b"".join(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in encoded)


def encode_command(*arguments: str | bytes | int) -> bytes:
    """Encode a command."""
    return b"*%d\r\n%b" % (len(arguments), encode_arguments(*arguments))


class RedisConnection(asyncio.Protocol):
    """A connection. It is closed if a reply is late, so that no reply can be mistaken for that of another request.

    Args:
        reader: the parser of the protocol, which returns `ErrorReply` for errors and raises `RedisError`.

    Attributes:
        lost: done when the connection can no longer be used; the result is the reason.
        closed: done when the transport is closed.
    """

    def __init__(self, reader: "Reader") -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._reader = reader
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._pending: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline = inf

    def request(self, command: bytes, deadline: float) -> asyncio.Future[Any]:
        """Send a command.

        Args:
            command: the encoded command.
            deadline: the deadline of the reply, on the clock of `time.perf_counter`. Without a reply, the connection
                is lost.

        Returns:
            The reply as Python objects, or an `ErrorReply`. Raises `RedisError` if the connection is lost.

        Raises:
            RedisError: the connection is already lost.
        """
        if self.lost.done():
            raise RedisError(self.lost.result())
        reply = self._loop.create_future()
        self._pending.append((reply, deadline))
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(command)
        if deadline < self._timer_deadline:
            self._set_timer(deadline)
        return reply

    def _send(self) -> None:
        if self._transport is not None and not self.lost.done():
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    def _set_timer(self, deadline: float) -> None:
        """Set the timer. One timer is enough for all requests, because nearly all replies arrive long before.

        An event loop reads sockets before it runs timers: after a delay of the loop itself, replies that have arrived
        do not count as late.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer_deadline = deadline
        self._timer = self._loop.call_later(deadline - perf_counter(), self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer_deadline = inf
        earliest = min((deadline for _, deadline in self._pending), default=inf)
        if earliest <= perf_counter():
            self.close("no reply in time")
        elif earliest < inf:
            self._set_timer(earliest)

    def close(self, reason: str) -> None:
        """Close the connection. Pending requests fail with the reason."""
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for reply, _ in self._pending:
            if not reply.done():  # it may be cancelled
                reply.set_exception(RedisError(reason))
        self._pending.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; see `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Deliver replies; see `asyncio.Protocol`."""
        self._reader.feed(data)
        next_reply, pending = self._reader.gets, self._pending
        try:
            while (value := next_reply()) is not False:
                reply, _ = pending.popleft()
                if not reply.done():
                    reply.set_result(value)
        except IndexError:
            self.close(f"a reply without a request: {value}")
        except RedisError:
            self.close("not the Redis protocol")

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection; see `asyncio.Protocol`."""
        self.close("the server closed the connection" if exc is None else reason_for(exc))
        self.closed.set_result(None)

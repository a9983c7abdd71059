"""A connection to a server that speaks the Redis protocol (RESP2), for many who ask at once.

What is asked in one turn of the loop goes out in one piece, and answers come in the order of the questions: many
questions on their way cost little more than one, and no pool is needed.
"""

import asyncio
from collections import deque
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from hiredis import Reader


class StoreError(Exception):
    """The store is away, slow, or refuses what it is asked. The message is for the log and holds no secret."""


class Refusal(StoreError):
    """An error that the store answers with, such as ``NOSCRIPT No matching script``."""


def words(*texts: str | bytes | int) -> bytes:
    """The parts of a command, as they are sent."""
    encoded = (text if isinstance(text, bytes) else str(text).encode() for text in texts)
    return b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in encoded)


def command(*texts: str | bytes | int) -> bytes:
    """A command, as it is sent."""
    return b"*%d\r\n%b" % (len(texts), words(*texts))


class Connection(asyncio.Protocol):
    """One connection. When an answer is late, all of it is given up: none can be taken for that to another question.

    Args:
        reader: of the protocol; its errors are to be `Refusal`.

    Attributes:
        lost: done when it can no longer be asked; the reason.
        closed: done when nothing is left of it.
    """

    def __init__(self, reader: "Reader") -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._reader = reader
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._asked: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf  # the deadline that the timer is for

    def ask(self, question: bytes, deadline: float) -> asyncio.Future[Any]:
        """Ask the store.

        Args:
            question: a command as it is sent.
            deadline: the latest answer, on the clock of `time.perf_counter`; without one, the connection is lost.

        Returns:
            What comes to be the answer, in Python's own types, or a `Refusal`; it fails with `StoreError` when the
            connection is lost.

        Raises:
            StoreError: the connection is lost already.
        """
        if self.lost.done():
            raise StoreError(self.lost.result())
        answer = self._loop.create_future()
        self._asked.append((answer, deadline))
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(question)
        if deadline < self._due:
            self._look_at(deadline)
        return answer

    def _send(self) -> None:
        if self._transport is not None and not self.lost.done():
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    def _look_at(self, deadline: float) -> None:
        """Look then what is late. One timer does for all questions, since nearly all are answered long before.

        Loops read what has come before they look at timers: where they were kept, nothing that is there counts as late.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        self._timer = self._loop.call_later(deadline - perf_counter(), self._look)

    def _look(self) -> None:
        self._due = inf
        oldest = min((deadline for _, deadline in self._asked), default=inf)
        if oldest <= perf_counter():
            self.end("it did not answer in time")
        elif oldest < inf:
            self._look_at(oldest)

    def end(self, reason: str) -> None:
        """Close it; those who wait for answers are told why."""
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for answer, _ in self._asked:
            if not answer.done():  # who asked may have gone
                answer.set_exception(StoreError(reason))
        self._asked.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; see `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Give out the answers that have come."""
        self._reader.feed(data)
        answers, asked = self._reader.gets, self._asked
        try:
            while (answer := answers()) is not False:
                waiting, _ = asked.popleft()
                if not waiting.done():
                    waiting.set_result(answer)
        except IndexError:
            self.end(f"it says, unasked: {answer}")
        except StoreError:
            self.end("it does not speak the Redis protocol")

    def connection_lost(self, exc: Exception | None) -> None:
        """End; see `asyncio.Protocol`."""
        self.end("it closed the connection" if exc is None else described(exc))
        self.closed.set_result(None)


def described(error: Exception) -> str:
    """What went wrong, in one line."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__

"""Writes lines of JSON to a log from a separate thread, so that logging never waits for the reader of the log.

Several processes may write to one pipe. The kernel does not mix writes of up to PIPE_BUF bytes, so no line is longer.
"""

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping
from queue import SimpleQueue
from select import PIPE_BUF
from typing import Any

from webhooks.observability.metrics import Counter

logger = logging.getLogger("webhooks.observability")

MAX_LINE = PIPE_BUF - 1  # bytes, without the line feed
_MAX_PENDING = 10_000  # lines; further ones are dropped and counted
_BATCH_DELAY = 0.01  # seconds; to wake the thread for each line would cost more than all the rest of logging
_CLOSE_TIMEOUT = 1.0  # seconds for the last lines to be read
_MAX_STRING = 16_384  # characters
_CHARACTERS_PER_ITEM = 16  # a string may have this many times the characters that a collection may have items


def encode_record(fields: Mapping[str, Any]) -> bytes:
    """Encode a record as one line of JSON in printable ASCII, without the line feed.

    Long strings and collections are truncated until the line fits into `MAX_LINE`.

    Args:
        fields: a few strings, numbers and booleans, and collections with such items.
    """
    size = _MAX_STRING
    while True:
        text = json.dumps({name: _truncate(value, size) for name, value in fields.items()})
        if len(text) <= MAX_LINE:
            return text.encode()
        size //= 2


def _truncate(value: Any, size: int) -> Any:
    """Keep the start and the end of a long string, and the first items of a collection."""
    if isinstance(value, str) and len(value) > size:
        start, end = value[: size // 2], value[len(value) - size // 2 :]
        return f"{start} ... {len(value)} characters ... {end}"
    if isinstance(value, Mapping):
        return {name: _truncate(item, size) for name, item in list(value.items())[: size // _CHARACTERS_PER_ITEM]}
    if isinstance(value, list):
        return [_truncate(item, size) for item in value[: size // _CHARACTERS_PER_ITEM]]
    return value


class LogWriter:
    """Accepts lines without delay and writes them from its own thread. If a pipe is not read, only that thread waits.

    Args:
        descriptor: the file descriptor to write to.
        dropped: counts the lines that were dropped, because too many were pending or a write failed.
    """

    def __init__(self, descriptor: int, dropped: Counter) -> None:
        self._descriptor = descriptor
        self._dropped = dropped
        self._pending: deque[bytes] = deque()
        self._is_woken = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # reentrant, unlike an Event: a signal handler may log
        self._closing = threading.Event()
        self._has_partial_line = False
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """The number of dropped lines."""
        return int(self._dropped.values.get((), 0))

    def write(self, line: bytes) -> None:
        """Write a line, without the line feed. Can be called from any thread."""
        if len(self._pending) >= _MAX_PENDING:
            self.count_dropped()
            return
        self._pending.append(line)
        if not self._is_woken:
            self._is_woken = True
            self._wake.put(None)

    def count_dropped(self) -> None:
        """Count a line that cannot be written."""
        self._dropped.add()

    def close(self) -> None:
        """Wait at most 1 s until all pending lines are written. Later lines are lost."""
        self._closing.set()
        self._wake.put(None)
        self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        reported, closing = 0, False
        while self._pending or not closing:
            self._wake.get()
            self._closing.wait(_BATCH_DELAY)
            self._is_woken, closing = False, self._closing.is_set()
            while self._pending:
                self._write_batch(self._take_batch())
            if self.dropped > reported:
                reported = self.dropped
                logger.warning("%d log records have been dropped because they could not be written", reported)

    def _take_batch(self) -> list[bytes]:
        """Return the next lines that fit into one write."""
        pending = self._pending
        lines = [pending.popleft()]
        size = len(lines[0]) + 1
        while pending and (size := size + len(pending[0]) + 1) <= PIPE_BUF:
            lines.append(pending.popleft())
        return lines

    def _write_batch(self, lines: list[bytes]) -> None:
        data = b"\n".join((b"", *lines, b"") if self._has_partial_line else (*lines, b""))
        sent = 0
        try:
            while sent < len(data):
                sent += os.write(self._descriptor, data[sent:])
            self._has_partial_line = False
        except OSError:
            self._has_partial_line = self._has_partial_line or sent > 0
            self._dropped.add(amount=len(lines))

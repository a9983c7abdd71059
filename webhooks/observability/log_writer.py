"""Lines of JSON on their way to a log: whoever logs never waits for whoever reads, and no line is torn.

Several processes may write to one pipe. It keeps together what is written at once, up to a limit: so no line is longer.
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

LIMIT = PIPE_BUF - 1  # bytes of a line, without its end
_CAPACITY = 10_000  # lines on their way; beyond it they are dropped, and counted
_GATHERING = 0.01  # seconds; waking the writer for each line would cost whoever logs more than all else
_PATIENCE = 1.0  # seconds for the last lines to be read
_MAX_TEXT = 16_384  # characters of a text, whatever else is on its line
_SHARE = 16  # a text may have so many times the characters that a collection may have values


def line(fields: Mapping[str, Any]) -> bytes:
    """One line of JSON in printable ASCII, without its end. What is long in it is cut until the limit holds.

    Args:
        fields: a few texts, numbers and truth values, and collections of them.
    """
    size = _MAX_TEXT
    while True:
        text = json.dumps({name: _cut(value, size) for name, value in fields.items()})
        if len(text) <= LIMIT:
            return text.encode()
        size //= 2


def _cut(value: Any, size: int) -> Any:
    """A text with so many of its characters, from both ends; a collection with its first values."""
    if isinstance(value, str) and len(value) > size:
        start, end = value[: size // 2], value[len(value) - size // 2 :]
        return f"{start} ... {len(value)} characters ... {end}"
    if isinstance(value, Mapping):
        return {name: _cut(each, size) for name, each in list(value.items())[: size // _SHARE]}
    if isinstance(value, list):
        return [_cut(each, size) for each in value[: size // _SHARE]]
    return value


class LogWriter:
    """Takes lines at once, and writes them from a thread of its own: a pipe that nobody reads stops that thread alone.

    Args:
        descriptor: the file to write to.
        dropped: counts the lines that were lost, since there was no room for them, or they could not be written.
    """

    def __init__(self, descriptor: int, dropped: Counter) -> None:
        self._descriptor = descriptor
        self._dropped = dropped
        self._waiting: deque[bytes] = deque()
        self._woken = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # unlike an Event, it may be used in the midst of its being used
        self._ending = threading.Event()
        self._torn = False
        self._writer = threading.Thread(target=self._write_all, name="logs", daemon=True)
        self._writer.start()

    @property
    def dropped(self) -> int:
        """How many lines were lost."""
        return int(self._dropped.values.get((), 0))

    def put(self, line: bytes) -> None:
        """Take a line, without its end, to be written; from any thread."""
        if len(self._waiting) >= _CAPACITY:
            self.lose()
            return
        self._waiting.append(line)
        if not self._woken:
            self._woken = True
            self._wake.put(None)

    def lose(self) -> None:
        """Count a line that cannot be written."""
        self._dropped.add()

    def finish(self) -> None:
        """Wait until all is written, but not for long. What comes later is lost."""
        self._ending.set()
        self._wake.put(None)
        self._writer.join(_PATIENCE)

    def _write_all(self) -> None:
        told, ending = 0, False
        while self._waiting or not ending:
            self._wake.get()
            self._ending.wait(_GATHERING)
            self._woken, ending = False, self._ending.is_set()
            while self._waiting:
                self._write(self._gathered())
            if self.dropped > told:
                told = self.dropped
                logger.warning("%d records have been dropped, since they could not be written", told)

    def _gathered(self) -> list[bytes]:
        """The next lines, as many as may be written at once."""
        waiting = self._waiting
        lines = [waiting.popleft()]
        size = len(lines[0]) + 1
        while waiting and (size := size + len(waiting[0]) + 1) <= PIPE_BUF:
            lines.append(waiting.popleft())
        return lines

    def _write(self, lines: list[bytes]) -> None:
        data = b"\n".join((b"", *lines, b"") if self._torn else (*lines, b""))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
            self._torn = False
        except OSError:
            self._torn = self._torn or written > 0
            self._dropped.add(amount=len(lines))

"""Logs: JSON, one line a record, to standard error. Whoever logs never waits for whoever reads."""

import atexit
import json
import logging
import queue
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

_CAPACITY = 1_000  # records on their way; beyond it they are dropped, and counted
_FIELDS = ("uid", "policy")  # what records carry beside their message, to be searched for
_MAX_TEXT = 16_384  # characters of one field
_PATIENCE = 1.0  # seconds for the last records to be read


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, which escapes whatever somebody else put into it."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; a traceback becomes one field of it."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self.formatException(record.exc_info)
        secret = getattr(record, "secret", "")
        if secret:
            line = {name: value.replace(secret, "***") for name, value in line.items()}
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps({name: _cut(value) for name, value in line.items()})


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ... {len(text)} characters"


class QueuedHandler(logging.Handler):
    """Writes from a thread of its own, so that a pipe that nobody reads stops that thread alone.

    Attributes:
        dropped: records for which there was no room.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.dropped = 0
        self._stream = stream
        self._lines: queue.Queue[str | None] = queue.Queue(_CAPACITY)
        self._writer = threading.Thread(target=self._write, name="logs", daemon=True)
        self._writer.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record to be written."""
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1
        except Exception:
            self.handleError(record)

    def finish(self) -> None:
        """Wait for what is still to be written, but not for long."""
        try:
            self._lines.put_nowait(None)
        except queue.Full:
            return
        self._writer.join(_PATIENCE)

    def _write(self) -> None:
        told = 0
        for line in iter(self._lines.get, None):
            lines = [line]
            if self.dropped > told:
                told = self.dropped
                record = logging.makeLogRecord({"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING"})
                record.msg = f"{told} records have been dropped, since they could not be written"
                lines.append(self.format(record))
            try:
                self._stream.write("".join(f"{each}\n" for each in lines))
                self._stream.flush()
            except (OSError, ValueError):
                self.dropped += 1


def configure() -> None:
    """Send all logs to standard error, from warnings up."""
    handler = QueuedHandler(sys.stderr)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    atexit.register(handler.finish)


def flush() -> None:
    """Write what is on its way, for a process that ends without ado."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, QueuedHandler):
            handler.finish()

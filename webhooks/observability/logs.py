"""Logs: JSON, one line a record, to standard error; `webhooks.observability.log_writer` writes them."""

import atexit
import json
import logging
import sys
import traceback
from base64 import b64decode
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from webhooks.observability.log_writer import LogWriter, line
from webhooks.observability.metrics import MetricRegistry

_MAX_SECRETS = 100
_MAX_TEXT = 100_000  # characters
_FIELDS = ("uid", "policy", "client")  # what records carry beside their message, to be searched for


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON, which escapes whatever somebody else put into it."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record; a traceback becomes one field of it."""
        fields = {
            "time": msgspec.to_builtins(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(_message(record), getattr(record, "secrets", ())),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = masked(traceback_of(record.exc_info[1]), getattr(record, "secrets", ()))
        fields |= {name: str(getattr(record, name)) for name in _FIELDS if getattr(record, name, "")}
        return line(fields).decode()


def traceback_of(error: BaseException) -> str:
    """Where an exception comes from, as far as it lets itself be looked at: policies raise whatever they like."""
    try:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    except BaseException:  # whatever its own methods raise in turn
        return "an exception with a traceback that cannot be written"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a slip of its author's
        return f"{record.pathname}:{record.lineno} logs what does not go together: {record.msg!r} with {record.args!r}"


def masked(text: str, secrets: Collection[str]) -> str:
    """A text without secrets, as they are or decoded, however Python or JSON write them.

    Where it would take long to find them it is left out.
    """
    if not secrets or not text:
        return text
    if len(secrets) > _MAX_SECRETS or len(text) > _MAX_TEXT:
        return "*** left out: it may tell one of many secrets, or much of one"
    for each in sorted({each for secret in secrets for each in _spelled(secret)} - {""}, key=len, reverse=True):
        text = text.replace(each, "***")
    return text


def _spelled(secret: str) -> Iterator[str]:
    with suppress(ValueError):
        yield from _written(b64decode(secret, validate=True).decode())
    yield from _written(secret)


def _written(text: str) -> Iterator[str]:
    yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])


class LinesHandler(logging.Handler):
    """Sends records on their way as lines."""

    def __init__(self, lines: LogWriter) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record to be written."""
        try:
            text = self.format(record)
        except Exception:  # and no word of it to standard error, for which this thread would wait
            self.lines.lose()
        else:
            self.lines.put(text.encode())


def configure(level: str = "info", meters: MetricRegistry | None = None) -> LogWriter:
    """Send all logs to standard error.

    Args:
        level: the name of the level below which records are left out.
        meters: where those are counted that are lost.

    Returns:
        The way there, for other lines.
    """
    dropped = (meters or MetricRegistry()).counter(
        "webhooks_log_records_dropped", "Records of the logs that could not be written, or not in time."
    )
    lines = LogWriter(sys.stderr.fileno(), dropped)
    root = logging.getLogger()
    root.handlers = [LinesHandler(lines)]
    root.setLevel(level.upper())
    atexit.register(lines.finish)
    return lines


def flush() -> None:
    """Write what is on its way, for a process that ends without ado."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LinesHandler):
            handler.lines.finish()

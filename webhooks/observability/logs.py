"""Formats log records as JSON, one line each, and writes them to standard error through a `LogWriter`."""

import atexit
import logging
import sys
import traceback
from datetime import UTC, datetime

import msgspec

from webhooks.observability.log_writer import LogWriter, encode_record
from webhooks.observability.metrics import MetricRegistry
from webhooks.observability.redaction import redact

_FIELDS = ("uid", "policy", "client")  # optional fields of a record


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. Untrusted text in a record cannot start a new line."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record. A traceback becomes the field ``error``."""
        secrets = getattr(record, "secrets", ())
        fields = {
            "time": msgspec.to_builtins(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(_format_message(record), secrets),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = redact(format_traceback(record.exc_info[1]), secrets)
        fields |= {name: str(getattr(record, name)) for name in _FIELDS if getattr(record, name, "")}
        return encode_record(fields).decode()


def format_traceback(error: BaseException) -> str:
    """Format a traceback. Never raises, even if the methods of the exception do."""
    try:
        return "".join(traceback.format_exception(error)).rstrip("\n")
    except BaseException:  # a policy may raise an exception of any class
        return "an exception whose traceback cannot be formatted"


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the arguments do not fit the format string
        return f"{record.pathname}:{record.lineno}: invalid log call: {record.msg!r} with {record.args!r}"


class LogWriterHandler(logging.Handler):
    """Passes records to a `LogWriter`."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it as dropped if it cannot be formatted."""
        try:
            text = self.format(record)
        except Exception:  # not reported on standard error: this thread would wait for its reader
            self.writer.count_dropped()
        else:
            self.writer.write(text.encode())


def configure(level: str = "info", metrics: MetricRegistry | None = None) -> LogWriter:
    """Send all log records to standard error.

    Args:
        level: the minimum level.
        metrics: the registry for the counter of dropped records.

    Returns:
        The writer, for lines of other origin.
    """
    dropped = (metrics or MetricRegistry()).counter(
        "webhooks_log_records_dropped", "Log records that could not be written, or not in time."
    )
    writer = LogWriter(sys.stderr.fileno(), dropped)
    root = logging.getLogger()
    root.handlers = [LogWriterHandler(writer)]
    root.setLevel(level.upper())
    if level == "info":
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each of our own requests, every few seconds
    atexit.register(writer.close)
    return writer


def flush() -> None:
    """Write all pending records, in a process that exits without running `atexit` handlers."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogWriterHandler):
            handler.writer.close()

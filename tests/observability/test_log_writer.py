"""Log lines are written completely, in order, and without delay for the callers."""

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from select import PIPE_BUF
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.app import prometheus
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.observability import log_writer
from webhooks.observability.log_writer import MAX_LINE, LogWriter, encode_record
from webhooks.observability.metrics import MetricRegistry

MANY = 20_000  # more lines than may be pending


class Pipe:
    """A pipe that keeps the boundaries of writes."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_DIRECT)

    def read(self, size: int = PIPE_BUF + 1) -> bytes:
        return os.read(self.reader, size)

    def close(self) -> None:
        """Close both ends; further writes fail."""
        for descriptor in (self.reader, self.writer):
            with suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def create_writer(descriptor: int) -> tuple[LogWriter, MetricRegistry]:
    """Create a writer, and the registry that counts its dropped lines."""
    registry = MetricRegistry()
    return LogWriter(descriptor, registry.counter("webhooks_dropped", "Dropped.")), registry


# Lines.


def encoded(**fields: Any) -> Any:
    """Encode a record and decode it."""
    text = encode_record(fields)
    assert len(text) <= MAX_LINE
    assert text.isascii()
    assert text.decode().isprintable()
    return json.loads(text)


def test_a_line_contains_all_fields() -> None:
    fields = {"text": "Grüße\n\x7f\u2028", "number": 1.5, "truth": True, "some": ["a", 1], "by_name": {"a": {"b": "c"}}}
    assert encoded(**fields) == fields


@pytest.mark.parametrize("character", ["x", "\x00", "\U0001f600", '"'])
def test_long_strings_keep_both_ends(character: str) -> None:
    fields = encoded(one="first" + 100_000 * character + "last", other="short")
    assert fields["other"] == "short"
    assert fields["one"].startswith(f"first{character}")
    assert fields["one"].endswith(f"{character}last")
    assert f" {100_009} characters " in fields["one"]
    assert len(encode_record(fields)) > MAX_LINE / 4


def test_the_first_items_of_collections_stay() -> None:
    fields = encoded(some=[f"value-{n}" for n in range(10_000)], by_name={f"name-{n}": n for n in range(10_000)}, a="b")
    assert fields["a"] == "b"
    assert fields["some"] == [f"value-{n}" for n in range(len(fields["some"]))]
    assert list(fields["by_name"].values()) == list(range(len(fields["by_name"])))
    assert len(fields["some"]) > 10


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.text() | st.lists(st.text()) | st.text().map(lambda t: 999 * t)))
def test_every_line_is_within_the_limit(fields: dict[str, Any]) -> None:
    assert encoded(**fields).keys() == fields.keys()


# The writer.


def test_lines_are_written_completely_and_in_order(pipe: Pipe) -> None:
    sent = [
        encode_record({"number": number, "text": "x" * (number % MAX_LINE - 100)}) for number in range(0, 60_000, 37)
    ]
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(iter(pipe.read, b"")))
    reader.start()
    writer, _ = create_writer(pipe.writer)
    for line in sent:
        writer.write(line)
    writer.close()
    os.close(pipe.writer)
    reader.join()
    assert b"".join(got) == b"".join(line + b"\n" for line in sent)
    assert max(map(len, got)) <= PIPE_BUF
    assert all(chunk.endswith(b"\n") for chunk in got)
    assert len(got) < len(sent)


def test_lines_of_several_writers_do_not_mix(pipe: Pipe) -> None:
    writers = [create_writer(pipe.writer)[0] for _ in range(4)]
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(iter(pipe.read, b"")))
    reader.start()
    for number in range(500):
        for index, writer in enumerate(writers):
            writer.write(encode_record({"writer": index, "number": number, "text": "x" * (number * 7 % 3000)}))
    for writer in writers:
        writer.close()
    os.close(pipe.writer)
    reader.join()
    records = [json.loads(line) for line in b"".join(got).splitlines()]
    for index in range(4):
        assert [record["number"] for record in records if record["writer"] == index] == list(range(500))


def test_a_pipe_without_a_reader_blocks_no_caller(pipe: Pipe) -> None:
    writer, registry = create_writer(pipe.writer)
    sent = encode_record({"text": "x" * 1000})
    for _ in range(MANY):
        writer.write(sent)
    assert 0 < writer.dropped < MANY
    assert (
        f"webhooks_dropped_total {writer.dropped}.0\n"
        in prometheus.render(MetricsSnapshot(registered=registry.by_name)).decode()
    )
    writer.close()  # gives up after its timeout
    os.close(pipe.reader)
    writer.close()  # returns at once


def test_dropped_lines_are_reported_when_the_pipe_is_read_again(pipe: Pipe) -> None:
    writer, _ = create_writer(pipe.writer)
    handler = logging.Handler()
    reported = threading.Event()
    messages = []

    def emit(record: logging.LogRecord) -> None:
        messages.append(record.getMessage())
        reported.set()
        writer.write(b"reported")

    handler.emit = emit  # type: ignore[method-assign]
    logging.getLogger("webhooks.observability").addHandler(handler)
    try:
        for _ in range(MANY):
            writer.write(b"x" * 1000)
        dropped = writer.dropped
        while not reported.is_set():
            pipe.read()
        writer.close()
    finally:
        logging.getLogger("webhooks.observability").removeHandler(handler)
    assert messages == [f"{dropped} log records have been dropped because they could not be written"]


@pytest.mark.parametrize("broken", ["full", "closed"])
def test_lines_that_cannot_be_written_are_counted(broken: str, pipe: Pipe) -> None:
    if broken == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        descriptor = os.dup(pipe.writer)
        os.close(pipe.reader)
    writer, _ = create_writer(descriptor)
    for _ in range(100):
        writer.write(b"{}")
    writer.close()
    os.close(descriptor)
    assert writer.dropped == 100


def test_a_line_after_a_partial_line_starts_on_a_new_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk becomes full in the middle of a line, and has space again later."""
    disk = bytearray()
    space = [3, 0, 1000]

    def write(_: int, data: bytes) -> int:
        count = min(space[0], len(data))
        if not count:
            space.pop(0)
            raise OSError("no space")
        space[0] -= count
        disk.extend(data[:count])
        return count

    monkeypatch.setattr(log_writer.os, "write", write)
    writer, _ = create_writer(-1)
    for line in (b'{"a": 1}', b'{"b": 2}', b'{"c": 3}'):
        writer._write_batch([line])
    writer.close()
    assert disk == b'{"a\n{"c": 3}\n'
    assert writer.dropped == 2

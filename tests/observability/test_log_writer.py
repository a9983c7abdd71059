"""Lines on their way to a log: whole, in order, and never waited for."""

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

from webhooks.app.review_metrics import MetricsSnapshot, page
from webhooks.observability import log_writer
from webhooks.observability.log_writer import LIMIT, LogWriter, line
from webhooks.observability.metrics import MetricRegistry

MANY = 20_000  # more than there is room for


class Pipe:
    """A pipe that tells what was written at once."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_DIRECT)

    def read(self, size: int = PIPE_BUF + 1) -> bytes:
        return os.read(self.reader, size)

    def close(self) -> None:
        """Close both ends; whoever still writes is told so."""
        for descriptor in (self.reader, self.writer):
            with suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def sending(descriptor: int) -> tuple[LogWriter, MetricRegistry]:
    """Lines that go to a file, and where those are counted that do not."""
    meters = MetricRegistry()
    return LogWriter(descriptor, meters.counter("webhooks_dropped", "Dropped.")), meters


# A line.


def written(**fields: Any) -> Any:
    """A line, read again."""
    text = line(fields)
    assert len(text) <= LIMIT
    assert text.isascii()
    assert text.decode().isprintable()
    return json.loads(text)


def test_a_line_says_what_it_is_given() -> None:
    fields = {"text": "Grüße\n\x7f\u2028", "number": 1.5, "truth": True, "some": ["a", 1], "by_name": {"a": {"b": "c"}}}
    assert written(**fields) == fields


@pytest.mark.parametrize("character", ["x", "\x00", "\U0001f600", '"'])
def test_long_texts_keep_their_ends(character: str) -> None:
    fields = written(one="first" + 100_000 * character + "last", other="short")
    assert fields["other"] == "short"
    assert fields["one"].startswith(f"first{character}")
    assert fields["one"].endswith(f"{character}last")
    assert f" {100_009} characters " in fields["one"]
    assert len(line(fields)) > LIMIT / 4


def test_the_first_of_many_values_stay() -> None:
    fields = written(some=[f"value-{n}" for n in range(10_000)], by_name={f"name-{n}": n for n in range(10_000)}, a="b")
    assert fields["a"] == "b"
    assert fields["some"] == [f"value-{n}" for n in range(len(fields["some"]))]
    assert list(fields["by_name"].values()) == list(range(len(fields["by_name"])))
    assert len(fields["some"]) > 10


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.text() | st.lists(st.text()) | st.text().map(lambda t: 999 * t)))
def test_any_line_holds_the_limit(fields: dict[str, Any]) -> None:
    assert written(**fields).keys() == fields.keys()


# The way.


def test_lines_are_written_in_order_and_whole(pipe: Pipe) -> None:
    sent = [line({"number": number, "text": "x" * (number % LIMIT - 100)}) for number in range(0, 60_000, 37)]
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(iter(pipe.read, b"")))
    reader.start()
    way, _ = sending(pipe.writer)
    for each in sent:
        way.put(each)
    way.finish()
    os.close(pipe.writer)
    reader.join()
    assert b"".join(got) == b"".join(each + b"\n" for each in sent)
    assert max(map(len, got)) <= PIPE_BUF
    assert all(each.endswith(b"\n") for each in got)
    assert len(got) < len(sent)


def test_those_of_several_writers_do_not_mix(pipe: Pipe) -> None:
    ways = [sending(pipe.writer)[0] for _ in range(4)]
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(iter(pipe.read, b"")))
    reader.start()
    for number in range(500):
        for writer, way in enumerate(ways):
            way.put(line({"writer": writer, "number": number, "text": "x" * (number * 7 % 3000)}))
    for way in ways:
        way.finish()
    os.close(pipe.writer)
    reader.join()
    read = [json.loads(each) for each in b"".join(got).splitlines()]
    for writer in range(4):
        assert [each["number"] for each in read if each["writer"] == writer] == list(range(500))


def test_nobody_waits_for_a_pipe_that_nobody_reads(pipe: Pipe) -> None:
    way, meters = sending(pipe.writer)
    sent = line({"text": "x" * 1000})
    for _ in range(MANY):
        way.put(sent)
    assert 0 < way.dropped < MANY
    assert f"webhooks_dropped_total {way.dropped}.0\n" in page(MetricsSnapshot(meters=meters.by_name)).decode()
    way.finish()  # which gives up
    os.close(pipe.reader)
    way.finish()  # which need not any more


def test_what_was_dropped_is_told_when_there_is_room_again(pipe: Pipe) -> None:
    way, _ = sending(pipe.writer)
    handler = logging.Handler()
    told = threading.Event()
    messages = []

    def emit(record: logging.LogRecord) -> None:
        messages.append(record.getMessage())
        told.set()
        way.put(b"told")

    handler.emit = emit  # type: ignore[method-assign]
    logging.getLogger("webhooks.observability").addHandler(handler)
    try:
        for _ in range(MANY):
            way.put(b"x" * 1000)
        dropped = way.dropped
        while not told.is_set():
            pipe.read()
        way.finish()
    finally:
        logging.getLogger("webhooks.observability").removeHandler(handler)
    assert messages == [f"{dropped} records have been dropped, since they could not be written"]


@pytest.mark.parametrize("broken", ["full", "closed"])
def test_what_cannot_be_written_is_counted(broken: str, pipe: Pipe) -> None:
    if broken == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        descriptor = os.dup(pipe.writer)
        os.close(pipe.reader)
    way, _ = sending(descriptor)
    for _ in range(100):
        way.put(b"{}")
    way.finish()
    os.close(descriptor)
    assert way.dropped == 100


def test_a_line_behind_one_that_was_torn_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that becomes full in the middle of a line, and has room again."""
    disk = bytearray()
    room = [3, 0, 1000]

    def write(_: int, data: bytes) -> int:
        taken = min(room[0], len(data))
        if not taken:
            room.pop(0)
            raise OSError("no room")
        room[0] -= taken
        disk.extend(data[:taken])
        return taken

    monkeypatch.setattr(log_writer.os, "write", write)
    way, _ = sending(-1)
    for each in (b'{"a": 1}', b'{"b": 2}', b'{"c": 3}'):
        way._write([each])
    way.finish()
    assert disk == b'{"a\n{"c": 3}\n'
    assert way.dropped == 2

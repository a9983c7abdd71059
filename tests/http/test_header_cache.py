"""Heads that came before: what is taken for one whole request, and that it is the one that the parser sees."""

from collections.abc import Iterator
from typing import Any

import httptools
import pytest
from hypothesis import HealthCheck, assume, example, given, reject, settings
from hypothesis import strategies as st

from webhooks import create_app
from webhooks.http.header_cache import CachedHead, HeaderCache, without_length
from webhooks.settings import Limits

from ..support.builders import admission_body, written
from ..support.transports import Line, connected

LINE = b"POST /admission/mutate?timeout=10s HTTP/1.1\r\n"
HEAD = LINE + b"Host: a\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n"
BODY = written(admission_body())
HEADERS = {b"host": b"a", b"content-length": b"2", b"content-type": b"application/json"}


def of(body: bytes, head: bytes = HEAD) -> bytes:
    return head % len(body) + body


def test_the_length_of_the_body_makes_no_difference() -> None:
    bodies = [b"", b"{}", b"[" * 12_345, b"\r\n\r\nContent-Length: 5\r\n\r\n"]
    found = [without_length(of(body)) for body in bodies]
    assert [pair[1] for pair in found if pair] == bodies
    assert {pair[0] for pair in found if pair} == {HEAD.replace(b"%d", b"").removesuffix(b"\r\n\r\n")}


OTHERS = {
    "nothing": b"",
    "a part of a head": HEAD[:50],
    "a part of a body": of(b"{}")[:-1],
    "a body and more": of(b"{}") + b"P",
    "two requests": of(b"{}") + of(b"{}"),
    "no length": LINE + b"Host: a\r\n\r\n",
    "chunks": LINE + b"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a length in another spelling": HEAD.replace(b"Content-L", b"content-l") % 2 + b"{}",
    "a length with a sign": HEAD.replace(b"%d", b"+2") + b"{}",
    "a length with a space": HEAD.replace(b"%d", b"2 ") + b"{}",
    "a length in other digits": HEAD.replace(b"%d", "\u0662".encode()) + b"{}",
    "a length without digits": HEAD.replace(b"%d", b""),
    "a very long length": HEAD.replace(b"%d", b"0" * 9 + b"2") + b"{}",
    "a length that a lone CR ends": HEAD.replace(b"%d\r\n", b"2\rX: ") + b"{}",
    "a length in the body": LINE + b"Host: a\r\n\r\n\r\nContent-Length: 0\r\n\r\n",
    "a long head": HEAD.replace(b"Host: a", b"Host: " + b"a" * 1024) % 2 + b"{}",
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS)
def test_anything_else_is_for_the_parser(data: bytes) -> None:
    assert without_length(data) is None


class Seen:
    """What the parser sees in some bytes."""

    def __init__(self, data: bytes) -> None:
        self.urls: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.ended = 0
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.urls.append(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.ended += 1

    @property
    def rest(self) -> Any:
        """All but what the length makes different."""
        others = [pair for pair in self.headers if pair[0].lower() != b"content-length"]
        return self.urls, others, len(self.headers), self._parser.should_keep_alive()


PIECES = st.sampled_from(
    [
        *(b"Content-Length: ", b"content-length: ", b"X: ", b"X: Content-Length: ", b"Transfer-Encoding: chunked"),
        *(b"0", b"2", b"12", b"a", b" ", b"\t", b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\r\nContent-Length: 2\r\n"),
    ]
)


LINES = st.sampled_from(
    [
        *(b"X: 1", b"X: Content-Length: 2", b"X-Content-Length: 2", b"Accept: a", b"Content-Type: application/json"),
        *(b"X:", b"X: \t", b"Connection: close", b"Connection: keep-alive", b"Content-Length: 2", b" folded", b"X : 1"),
    ]
) | st.lists(PIECES, max_size=4).map(b"".join)
LENGTHS = st.sampled_from([0, 2, 12])


def with_another_length(data: bytes, key: bytes, length: int) -> bytes:
    """A request with another number in place of the one that is not in its key, and a body of that length."""
    head = data.partition(b"\r\n\r\n")[0]
    digits = len(head) - len(key)
    place = next(place for place in range(len(key) + 1) if head[:place] + head[place + digits :] == key)
    return key[:place] + b"%d" % length + key[place:] + b"\r\n\r\n" + b"{" * length


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # most of what is at random is no request
@given(st.lists(LINES, max_size=3), st.lists(LINES, max_size=3), LENGTHS, LENGTHS)
@example([b"X: Content-Length: 2"], [], 2, 12)
def test_a_head_means_what_the_one_in_the_cache_meant(
    before: list[bytes], after: list[bytes], first: int, second: int
) -> None:
    """Of two heads that differ in that number alone: where the parser takes one, it takes both, and sees the same."""
    lines = [b"Host: a", *before, b"Content-Length: %d" % first, *after, b"\r\n"]
    data = LINE + b"\r\n".join(lines) + b"{" * first
    found = without_length(data)
    assume(found is not None)
    key, body = found
    try:
        known = Seen(data)
    except httptools.HttpParserError:
        reject()  # it is never cached
    assume(known.ended == 1 and known.body == body)
    other = with_another_length(data, key, second)
    assert without_length(other) == (key, b"{" * second)
    seen = Seen(other)
    assert (seen.ended, seen.body, seen.rest) == (1, b"{" * second, known.rest)


def test_heads_are_found_again() -> None:
    cache = HeaderCache()
    head = CachedHead(b"/admission/mutate", b"timeout=10s", HEADERS)
    cache.add(b"key", head)
    assert cache.get(b"key") is head
    assert cache.get(b"another") is None


@pytest.mark.parametrize("name", [b"authorization", b"traceparent", b"transfer-encoding", b"expect", b"connection"])
def test_what_may_differ_or_be_secret_is_not_kept(name: bytes) -> None:
    cache = HeaderCache()
    cache.add(b"key", CachedHead(b"/admission/mutate", b"", HEADERS | {name: b"a"}))
    assert cache.get(b"key") is None


def test_no_caller_fills_the_memory() -> None:
    cache = HeaderCache()
    for number in range(1000):
        cache.add(b"%d" % number, CachedHead(b"", b"", HEADERS))
    known = [number for number in range(1000) if cache.get(b"%d" % number)]
    assert len(known) <= 64
    assert known[-1] == 999


@pytest.fixture
def line() -> Iterator[Line]:
    """To an application that has no policies, and takes no larger body than `BODY`."""
    with connected(create_app([], limits=Limits(max_body=len(BODY)))) as line:
        yield line


def test_a_head_that_came_before_is_not_read(line: Line) -> None:
    protocol, log = line.protocol, line.log
    data = of(BODY)
    counts = []
    for _ in range(5):
        protocol.data_received(data)
        counts.append(protocol.heads_read)
    assert counts == [1, 2, 2, 2, 2]
    protocol.data_received(data * 2)
    protocol.data_received(data.replace(b"Host: a", b"Host: b"))
    assert protocol.heads_read == 5
    protocol._outbox.flush()
    assert len({answer for _, answer in log}) == 1
    assert len(log) == 8


def test_a_path_that_is_gone_is_not_found(line: Line) -> None:
    protocol, app, log = line.protocol, line.app, line.log
    data = of(BODY)
    for _ in range(3):
        protocol.data_received(data)
    protocol._outbox.flush()
    assert len(log) == 3
    app.endpoints_by_path.clear()
    protocol.data_received(data)
    protocol._outbox.flush()
    assert (protocol.heads_read, len(log)) == (3, 3)


def test_nothing_is_answered_behind_the_last_answer(line: Line) -> None:
    protocol, log = line.protocol, line.log
    for _ in range(3):
        protocol.data_received(of(BODY))
    protocol.data_received(of(BODY).replace(b"Host: a", b"Host: a\r\nConnection: close"))
    told = len(log)
    for _ in range(3):
        protocol.data_received(of(BODY))
    protocol._outbox.flush()
    assert (len(log), protocol.heads_read) == (told, 3)


def test_a_body_over_the_limit_is_refused(line: Line) -> None:
    protocol, log = line.protocol, line.log
    for _ in range(3):
        protocol.data_received(of(BODY))
    assert protocol.heads_read == 2
    protocol.data_received(of(BODY + b" "))
    protocol._outbox.flush()
    assert b'"code":413' in log[-1][1]

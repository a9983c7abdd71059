"""The header cache: its keys identify requests that the parser would read in the same way."""

from typing import Any

import httptools
import pytest
from hypothesis import HealthCheck, assume, example, given, reject, settings
from hypothesis import strategies as st

from webhooks.http.header_cache import CachedHead, HeaderCache, split_request

LINE = b"POST /admission/mutate?timeout=10s HTTP/1.1\r\n"
HEAD = LINE + b"Host: a\r\nContent-Length: %d\r\nContent-Type: application/json\r\n\r\n"
HEADERS = {b"host": b"a", b"content-length": b"2", b"content-type": b"application/json"}


def request(body: bytes, head: bytes = HEAD) -> bytes:
    return head % len(body) + body


def test_a_request_is_split_into_its_key_and_its_body() -> None:
    bodies = [b"", b"{}", b"[" * 12_345, b"\r\n\r\nContent-Length: 5\r\n\r\n"]
    parts = [split_request(request(body)) for body in bodies]
    assert [pair[1] for pair in parts if pair] == bodies
    assert {pair[0] for pair in parts if pair} == {HEAD.replace(b"%d", b"").removesuffix(b"\r\n\r\n")}


OTHERS = {
    "nothing": b"",
    "a part of a head": HEAD[:50],
    "a part of a body": request(b"{}")[:-1],
    "a body and more": request(b"{}") + b"P",
    "two requests": request(b"{}") + request(b"{}"),
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
def test_other_data_is_not_split(data: bytes) -> None:
    assert split_request(data) is None


class Parsed:
    """The result of parsing some bytes."""

    def __init__(self, data: bytes) -> None:
        self.urls: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.messages = 0
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.urls.append(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.messages += 1

    @property
    def rest(self) -> Any:
        """Everything but the length and the body."""
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


def with_length(data: bytes, key: bytes, length: int) -> bytes:
    """Return the request with this key, and a body of another length."""
    head = data.partition(b"\r\n\r\n")[0]
    digits = len(head) - len(key)
    place = next(place for place in range(len(key) + 1) if head[:place] + head[place + digits :] == key)
    return key[:place] + b"%d" % length + key[place:] + b"\r\n\r\n" + b"{" * length


@settings(suppress_health_check=[HealthCheck.filter_too_much])  # most random data is not a request
@given(st.lists(LINES, max_size=3), st.lists(LINES, max_size=3), LENGTHS, LENGTHS)
@example([b"X: Content-Length: 2"], [], 2, 12)
def test_requests_with_one_key_mean_the_same(before: list[bytes], after: list[bytes], first: int, second: int) -> None:
    """If the parser accepts one of two requests that differ in the length only, it accepts both, and reads the same."""
    lines = [b"Host: a", *before, b"Content-Length: %d" % first, *after, b"\r\n"]
    data = LINE + b"\r\n".join(lines) + b"{" * first
    parts = split_request(data)
    assume(parts is not None)
    key, body = parts
    try:
        known = Parsed(data)
    except httptools.HttpParserError:
        reject()  # it is not cached
    assume(known.messages == 1 and known.body == body)
    other = with_length(data, key, second)
    assert split_request(other) == (key, b"{" * second)
    seen = Parsed(other)
    assert (seen.messages, seen.body, seen.rest) == (1, b"{" * second, known.rest)


def test_heads_are_cached() -> None:
    cache = HeaderCache()
    head = CachedHead(b"/admission/mutate", b"timeout=10s", HEADERS)
    cache.add(b"key", head)
    assert cache.get(b"key") is head
    assert cache.get(b"another") is None


@pytest.mark.parametrize("name", [b"authorization", b"traceparent", b"transfer-encoding", b"expect", b"connection"])
def test_heads_with_variable_or_secret_headers_are_not_cached(name: bytes) -> None:
    cache = HeaderCache()
    cache.add(b"key", CachedHead(b"/admission/mutate", b"", HEADERS | {name: b"a"}))
    assert cache.get(b"key") is None


def test_the_cache_is_limited() -> None:
    cache = HeaderCache()
    for number in range(1000):
        cache.add(b"%d" % number, CachedHead(b"", b"", HEADERS))
    known = [number for number in range(1000) if cache.get(b"%d" % number)]
    assert len(known) <= 64
    assert known[-1] == 999

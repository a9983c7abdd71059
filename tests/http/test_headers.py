"""Request headers: limits, framing, the properties of the body, and the timeout of the client."""

import pytest

from webhooks.http import headers as request_headers
from webhooks.http.headers import BadRequest, HeaderReader, Headers, check_framing, check_size, parse_timeout
from webhooks.settings import Limits

JSON = {b"content-type": b"application/json"}
HOST = (b"host", b"a")


@pytest.mark.parametrize(
    ("headers", "limit", "expects_continue"),
    [
        ({}, 10_000, False),
        ({b"content-length": b"10000"}, 10_000, False),
        ({b"content-length": b"10001"}, 4096, False),
        ({b"expect": b"100-Continue"}, 10_000, True),
        ({b"expect": b"100-continue", b"content-length": b"10001"}, 0, True),
        ({b"expect": b"nothing"}, 10_000, False),
    ],
)
def test_how_much_is_read(headers: dict[bytes, bytes], limit: int, expects_continue: bool) -> None:
    body = HeaderReader(10_000, 4096).read(JSON | headers)
    assert (body.error, body.limit, body.expects_continue) == (None, limit, expects_continue)


def test_a_body_limit_below_the_prefix() -> None:
    assert HeaderReader(1000, 4096).read({**JSON, b"content-length": b"1001"}).limit == 1000
    assert str(HeaderReader(1000, 4096).too_large()) == "the body is larger than 1000 bytes"


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ([HOST], "1.1"),
        ([HOST, (b"transfer-encoding", b"chunked")], "1.1"),
        ([HOST, (b"transfer-encoding", b"Chunked")], "1.1"),
        ([HOST, (b"accept", b"a"), (b"accept", b"b")], "1.1"),
        ([(b"host", b"")], "1.1"),
        ([], "1.0"),
        ([HOST], "1.0"),
    ],
)
def test_unambiguous_requests(headers: Headers, version: str) -> None:
    check_framing(dict(headers), headers, version)


@pytest.mark.parametrize(
    ("headers", "version", "message"),
    [
        ([], "1.1", "must have a Host"),
        ([HOST, HOST], "1.1", "two Host headers"),
        ([HOST, (b"accept", b"a"), (b"host", b"b")], "1.1", "two Host headers"),
        ([HOST, HOST], "1.0", "two Host headers"),
        ([HOST, (b"transfer-encoding", b"gzip, chunked")], "1.1", "chunked"),
        ([HOST, (b"transfer-encoding", b", chunked")], "1.1", "chunked"),
        ([HOST, (b"transfer-encoding", b"chunked")], "1.0", r"HTTP/1\.0"),
        ([HOST], "0.9", r"HTTP/1\.1"),
        ([HOST], "2.0", r"HTTP/1\.1"),
    ],
)
def test_ambiguous_requests(headers: Headers, version: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message) as raised:
        check_framing(dict(headers), headers, version)
    assert raised.value.code == 400


def test_headers_over_the_limits() -> None:
    limits = Limits(max_headers=2, max_header_bytes=30)
    check_size(b"/" * 11, [(b"a", b"b" * 5), (b"c", b"d" * 4)], limits)
    for url, headers in ((b"/" * 12, [(b"a", b"b" * 5), (b"c", b"d" * 4)]), (b"", [(b"a", b"")] * 3)):
        with pytest.raises(BadRequest) as raised:
            check_size(url, headers, limits)
        assert raised.value.code == 431


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"timeout=10s", 10),
        (b"a=b&timeout=1m0s&c", 30),
        (b"timeout=500ms", 0.5),
        (b"", None),
        (b"timeout=", None),
        (b"timeout=x", None),
        (b"timeout=%ff", None),
        (b"timeout=-1s", None),
        (b"timeouts=1s", None),
        (b"timeout=1s&" + b"a" * 100, 1),
    ],
)
def test_the_timeout_of_the_client(query: bytes, seconds: float | None) -> None:
    for _ in range(2):  # the second time from the cache
        assert parse_timeout(query) == seconds


def test_the_cache_of_timeouts_is_limited() -> None:
    for number in range(1000):
        assert parse_timeout(b"timeout=1s&%d" % number) == 1
    assert len(request_headers._timeouts) <= 256

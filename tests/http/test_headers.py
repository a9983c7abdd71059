"""What stands before a body, and what it must not be."""

import pytest

from webhooks.http.headers import BadRequest, Headers, HeadReader, check_framing, check_size
from webhooks.settings import Limits

JSON = {b"content-type": b"application/json"}
HOST = (b"host", b"a")


@pytest.mark.parametrize(
    ("headers", "limit", "waits"),
    [
        ({}, 10_000, False),
        ({b"content-length": b"10000"}, 10_000, False),
        ({b"content-length": b"10001"}, 4096, False),
        ({b"expect": b"100-Continue"}, 10_000, True),
        ({b"expect": b"100-continue", b"content-length": b"10001"}, 0, True),
        ({b"expect": b"nothing"}, 10_000, False),
    ],
)
def test_how_much_is_read(headers: dict[bytes, bytes], limit: int, waits: bool) -> None:
    head = HeadReader(10_000).read(JSON | headers)
    assert (head.refusal, head.limit, head.waits) == (None, limit, waits)


def test_a_limit_below_what_uids_are_looked_for_in() -> None:
    assert HeadReader(1000).read({**JSON, b"content-length": b"1001"}).limit == 1000
    assert str(HeadReader(1000).too_large()) == "the body is larger than 1000 bytes"


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
def test_heads_that_are_clear(headers: Headers, version: str) -> None:
    check_framing(dict(headers), headers, version)


@pytest.mark.parametrize(
    ("headers", "version", "says"),
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
def test_heads_that_are_not(headers: Headers, version: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as bad:
        check_framing(dict(headers), headers, version)
    assert bad.value.code == 400


def test_heads_that_are_too_large() -> None:
    limits = Limits(max_headers=2, max_header_bytes=30)
    check_size(b"/" * 11, [(b"a", b"b" * 5), (b"c", b"d" * 4)], limits)
    for url, headers in ((b"/" * 12, [(b"a", b"b" * 5), (b"c", b"d" * 4)]), (b"", [(b"a", b"")] * 3)):
        with pytest.raises(BadRequest) as bad:
            check_size(url, headers, limits)
        assert bad.value.code == 431

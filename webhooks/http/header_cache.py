"""A cache of parsed request heads: request lines with their headers.

Parsing costs a call for each header, and clients repeat theirs. If a head equals a cached one byte by byte, except for
the value of Content-Length, it means the same.
"""

from collections.abc import Mapping

import msgspec

_CONTENT_LENGTH = b"\r\nContent-Length: "
_END_OF_HEAD = b"\r\n\r\n"
_MAX_DIGITS = 9
_MAX_HEAD = 1024  # bytes
_MAX_ENTRIES = 64

# The headers that API servers send with each review. Others may differ each time, or be secrets that must not be kept.
_CACHEABLE = frozenset((b"host", b"user-agent", b"content-length", b"accept", b"content-type", b"accept-encoding"))


class CachedHead(msgspec.Struct):
    """A parsed request head.

    Attributes:
        path: the path, undecoded.
        query: the query, undecoded.
        headers: by their names in lower case. Content-Length is that of the request that was parsed.
    """

    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]


class HeaderCache:
    """Heads of accepted requests by their bytes without the value of Content-Length."""

    def __init__(self) -> None:
        self._heads: dict[bytes, CachedHead] = {}

    def get(self, key: bytes) -> CachedHead | None:
        """Return the head with these bytes, if it is cached."""
        return self._heads.get(key)

    def add(self, key: bytes, head: CachedHead) -> None:
        """Cache a head, unless a header may differ each time or be secret. A full cache is emptied first."""
        if not head.headers.keys() <= _CACHEABLE:
            return
        if len(self._heads) == _MAX_ENTRIES:
            self._heads.clear()
        self._heads[key] = head


def split_request(data: bytes) -> tuple[bytes, bytes] | None:
    """Split a request into its head without the value of Content-Length, and its body.

    Args:
        data: received bytes that start with a request.

    Returns:
        None if the bytes are not exactly one request with a Content-Length.
    """
    end = data.find(_END_OF_HEAD, 0, _MAX_HEAD)
    start = data.find(_CONTENT_LENGTH, 0, end) + len(_CONTENT_LENGTH)
    stop = data.find(b"\r\n", start, start + _MAX_DIGITS + 2)
    if end < 0 or start < len(_CONTENT_LENGTH) or stop < 0:
        return None
    length, body = data[start:stop], data[end + len(_END_OF_HEAD) :]
    if not length.isdigit() or int(length) != len(body):
        return None
    return data[:start] + data[stop:end], body

"""Heads of requests that were read before: what a caller writes before each review, but for the length of the body.

To read a head costs a call for each header in it, and callers repeat theirs. A head that is, byte for byte but for that
number, one that was read and found good means what that one meant.
"""

from collections.abc import Mapping

import msgspec

_LENGTH = b"\r\nContent-Length: "
_END = b"\r\n\r\n"
_DIGITS = 9
_MAX_HEAD = 1024  # bytes
_MAX_HEADS = 64

# What API servers send each time. Among others there may be one that differs each time, or a secret to be forgotten.
_REPEATED = frozenset((b"host", b"user-agent", b"content-length", b"accept", b"content-type", b"accept-encoding"))


class CachedHead(msgspec.Struct):
    """A head that was read.

    Attributes:
        path: where it asks.
        query: undecoded.
        headers: by their names in lower case; that of the body's length is as it was when the head was read.
    """

    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]


class HeaderCache:
    """Heads that were read and found good, by their bytes without the length of the body."""

    def __init__(self) -> None:
        self._heads: dict[bytes, CachedHead] = {}

    def get(self, key: bytes) -> CachedHead | None:
        """The head that has these bytes, if it was read before."""
        return self._heads.get(key)

    def add(self, key: bytes, head: CachedHead) -> None:
        """Keep a head, if nothing in it may differ each time or be secret; a full cache begins anew."""
        if not head.headers.keys() <= _REPEATED:
            return
        if len(self._heads) == _MAX_HEADS:
            self._heads.clear()
        self._heads[key] = head


def without_length(data: bytes) -> tuple[bytes, bytes] | None:
    """The bytes of a head without the length of the body, and the body; None if this is not one whole request.

    Args:
        data: what came, from the beginning of a request.
    """
    end = data.find(_END, 0, _MAX_HEAD)
    start = data.find(_LENGTH, 0, end) + len(_LENGTH)
    stop = data.find(b"\r\n", start, start + _DIGITS + 2)
    if end < 0 or start < len(_LENGTH) or stop < 0:
        return None
    length, body = data[start:stop], data[end + len(_END) :]
    if not length.isdigit() or int(length) != len(body):
        return None
    return data[:start] + data[stop:end], body

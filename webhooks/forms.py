"""Forms of heads: what a caller writes before each of its reviews, but for the length of the body.

To read a head costs a call for each header in it, and callers repeat theirs. A head that is, byte for byte but for that
number, one that was read and found good means what that one meant.
"""

from collections.abc import Mapping

import msgspec

_LENGTH = b"\r\nContent-Length: "
_END = b"\r\n\r\n"
_DIGITS = 9
_MAX_HEAD = 1024  # bytes
_MAX_FORMS = 64

# What API servers send each time. With others there may be one that differs each time, or a secret to be forgotten.
_REPEATED = frozenset((b"host", b"user-agent", b"content-length", b"accept", b"content-type", b"accept-encoding"))


class Form(msgspec.Struct):
    """What heads of one form have in common.

    Attributes:
        path: where they ask.
        query: undecoded.
        headers: by their names in lower case, as they were in the first such head.
    """

    path: bytes
    query: bytes
    headers: Mapping[bytes, bytes]


class Forms:
    """The forms of heads that were read and found good."""

    def __init__(self) -> None:
        self._known: dict[bytes, Form] = {}

    def get(self, key: bytes) -> Form | None:
        """The form whose bytes these are, if it is known."""
        return self._known.get(key)

    def add(self, key: bytes, form: Form) -> None:
        """Remember a form, if it is one that comes again, and no more of them than few callers have."""
        if not form.headers.keys() <= _REPEATED:
            return
        if len(self._known) == _MAX_FORMS:
            self._known.clear()
        self._known[key] = form


def split(data: bytes) -> tuple[bytes, bytes] | None:
    """The bytes that all heads of a form have, and the body behind this one; None if this is not one whole request.

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

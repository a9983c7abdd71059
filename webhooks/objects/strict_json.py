"""JSON, strictly: what decodes here means the same to every reader, and survives being written again.

Refused beyond what JSON itself refuses: duplicate keys, nesting over 200 levels, integers outside int64, and more
values than a real object has. Checking that on every request must not cost more than decoding does, so it is done by a
proof: a document that, written again, is what was read to the byte, repeated no key and rounded no number. Callers
write as we do, compactly, so the proof nearly always holds; when it does not, a slow and exact reader decides.
"""

import json
import re
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import orjson

from webhooks.errors import MalformedReview

MAX_DEPTH = 200
MAX_VALUES = 500_000
_ENCODER_DEPTH = 255  # the level that orjson refuses to write; an empty container at the end it does not count
_ENVELOPE_DEPTH = 2  # a review's objects lie this deep in its body
OBJECT_DEPTH = MAX_DEPTH - _ENVELOPE_DEPTH
LARGE = 256 * 1024  # bytes; below, a document cannot hold too many values to matter: its reader counts those of others

_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


class _Nest(threading.local):
    """Lists around a document, so deep that the encoder's own limit is met at ours."""

    def __init__(self) -> None:
        self.inner: list[Any] = [None]
        self.outer: list[Any] = self.inner
        for _ in range(_ENCODER_DEPTH - MAX_DEPTH + _ENVELOPE_DEPTH - 1):
            self.outer = [self.outer]


_nest = _Nest()
_NEST_WIDTH = _ENCODER_DEPTH - MAX_DEPTH + _ENVELOPE_DEPTH


UNREAD: Any = object()


class Document(msgspec.Struct, eq=False):
    """One JSON value inside a review: kept as it came until somebody reads it.

    Args:
        raw: as it came, or what gives that.
    """

    # A struct is made quickest, and every review has some.
    raw: bytes | msgspec.Raw | Callable[[], bytes | msgspec.Raw]
    _tree: Any = UNREAD
    _malformed: MalformedReview | None = None
    _sealed: bytes | None = None

    def __repr__(self) -> str:  # what is in it may be secret
        return f"<{type(self).__name__}>"

    @property
    def tree(self) -> Any:
        """The value, decoded when first asked for, and shared by all who ask: not to be changed.

        Raises:
            MalformedReview: as `load` does, and the same each time.
        """
        if self._tree is UNREAD:
            if self._malformed is not None:
                raise self._malformed
            try:
                self._tree, self._sealed = self._read()
            except MalformedReview as malformed:
                self._malformed = malformed
                raise
        return self._tree

    def written(self) -> bytes:
        """The value as JSON: as it came, or where it was made here, as it is now."""
        return bytes(self._as_it_came()) or orjson.dumps(self.tree)

    def _as_it_came(self) -> bytes | msgspec.Raw:
        return self.raw() if callable(self.raw) else self.raw

    def _read(self) -> tuple[Any, bytes | None]:
        return _read(bytes(self._as_it_came()), OBJECT_DEPTH)

    def lend(self) -> Any:
        """The tree, to somebody who must not change it: `intact` tells whether that was so."""
        tree = self.tree  # which seals itself if the proof has written it already
        if self._sealed is None:
            self._sealed = orjson.dumps(tree)
        return tree

    def intact(self) -> bool:
        """Whether nobody to whom the tree was lent has changed it."""
        return self._sealed is None or orjson.dumps(self.tree) == self._sealed


def load(raw: bytes, depth: int = OBJECT_DEPTH) -> Any:
    """Decode a document, strictly.

    Args:
        raw: the document.
        depth: how many levels it may be nested.

    Raises:
        MalformedReview: with code 400 for what is no acceptable JSON, 422 for what is beyond the limits.
    """
    tree, _ = _read(raw, depth)
    return tree


def _read(raw: bytes, depth: int) -> tuple[Any, bytes | None]:
    """A document decoded, and written again where the proof did so."""
    _refuse_many(raw)
    try:
        tree = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return load_exactly(raw, depth), None
    nested = _write(tree)
    if nested is not None:
        if len(nested) == len(raw) + 2 * _NEST_WIDTH and nested.startswith(raw, _NEST_WIDTH):
            return tree, raw  # not a piece of the other: one copy less of what may be large
        if b"\\u" in raw and _as_go_writes(written := nested[_NEST_WIDTH:-_NEST_WIDTH]) == raw:
            return tree, written
    return load_exactly(raw, depth), None


def _write(tree: Any) -> bytes | None:
    """A document in its nest, written; None where it cannot be."""
    nest = _nest
    nest.inner[0] = tree
    try:
        return orjson.dumps(nest.outer, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:  # too deep, or an integer beyond 53 bits
        return None
    finally:
        nest.inner[0] = None


def _as_go_writes(written: bytes) -> bytes:
    """With the escapes that Go puts in place of some characters; these stand nowhere but in texts."""
    for character, escape in _GO_ESCAPES:
        written = written.replace(character, escape)
    return written


def _refuse_many(raw: bytes) -> None:
    if len(raw) > LARGE and raw.count(b",") > MAX_VALUES and _TEXT.sub(b"", raw).count(b",") > MAX_VALUES:
        raise MalformedReview(f"more than {MAX_VALUES} values", code=422)


def load_exactly(raw: bytes, depth: int = OBJECT_DEPTH) -> Any:
    """The slow reader: every rule checked for itself.

    Raises:
        MalformedReview: as `load` does.
    """
    _refuse_many(raw)
    try:
        text = raw.decode()
        tree = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_int64)
    except RecursionError:
        raise MalformedReview(f"nested deeper than {MAX_DEPTH} levels", code=422) from None
    except UnicodeDecodeError as error:
        raise MalformedReview(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise MalformedReview(f"not JSON: {error.msg} at character {error.pos}") from None
    _refuse_deep(tree, depth)
    try:
        orjson.loads(raw)  # refuses lone surrogates, which the other reader takes
    except orjson.JSONDecodeError as error:
        raise MalformedReview(f"not JSON: {error.msg}") from None
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedReview(f"duplicate key {repeated(pairs)[:64]!r}")
    return members


def repeated(pairs: list[tuple[str, Any]]) -> str:
    """The first key that is there again, among pairs of which some are."""
    seen: set[str] = set()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _no_constant(name: str) -> NoReturn:
    raise MalformedReview(f"{name} is no JSON value")


def _int64(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else None
    if value is None or not -(2**63) <= value < 2**63:
        raise MalformedReview("an integer outside the range of int64", code=422)
    return value


def _refuse_deep(tree: Any, depth: int) -> None:
    level = [tree]
    for _ in range(depth + 1):
        level = [node for node in level if isinstance(node, dict | list)]
        if not level:
            return
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    raise MalformedReview(f"nested deeper than {MAX_DEPTH} levels", code=422)

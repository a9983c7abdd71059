"""Strict JSON: a document that is accepted here has the same meaning for every reader, and survives re-encoding.

Rejected, in addition to invalid JSON: duplicate keys, more than 200 levels of nesting, integers outside int64, and more
than 500,000 values. The checks must not cost more than decoding, so they use a round trip: if the decoded document
re-encodes to the same bytes, it has no duplicate key and no rounded number. API servers send compact JSON, so this
nearly always works. If it does not, a slow and exact reader decides.
"""

import json
import re
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import orjson

from webhooks.errors import MalformedReview
from webhooks.objects.json_pointer import MAX_DEPTH

MAX_VALUES = 500_000
_ENCODER_DEPTH = 255  # the level that orjson does not encode; it does not count an empty container at the last level
_ENVELOPE_DEPTH = 2  # the level of the objects of a review in its body
OBJECT_DEPTH = MAX_DEPTH - _ENVELOPE_DEPTH
LARGE = 256 * 1024  # bytes; values are counted only in larger documents

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


class _Wrapper(threading.local):
    """Nested lists around a document: with them, the depth limit of the encoder applies at our own limit."""

    def __init__(self) -> None:
        self.inner: list[Any] = [None]
        self.outer: list[Any] = self.inner
        for _ in range(_WRAPPER_DEPTH - 1):
            self.outer = [self.outer]


_WRAPPER_DEPTH = _ENCODER_DEPTH - MAX_DEPTH + _ENVELOPE_DEPTH
_wrapper = _Wrapper()

NOT_LOADED: Any = object()


class LazyDocument(msgspec.Struct, eq=False):
    """A JSON value in a review, which is decoded when it is first read.

    Args:
        raw: the received bytes, or a function that returns them; empty if the value was created here.
    """

    # Each review has several documents, and a struct is the fastest object to create.
    raw: bytes | msgspec.Raw | Callable[[], bytes | msgspec.Raw]
    _tree: Any = NOT_LOADED
    _malformed: MalformedReview | None = None
    _snapshot: bytes | None = None

    def __repr__(self) -> str:  # without the value, which may be secret
        return f"<{type(self).__name__}>"

    @property
    def tree(self) -> Any:
        """The decoded value, which is shared: do not change it.

        Raises:
            MalformedReview: see `load`; the same error for each call.
        """
        if self._tree is NOT_LOADED:
            if self._malformed is not None:
                raise self._malformed
            try:
                self._tree, self._snapshot = self._load()
            except MalformedReview as malformed:
                self._malformed = malformed
                raise
        return self._tree

    def to_json(self) -> bytes:
        """Return the value as JSON: the received bytes, or the current value if it was created here."""
        return bytes(self._get_raw()) or orjson.dumps(self.tree)

    def _get_raw(self) -> bytes | msgspec.Raw:
        return self.raw() if callable(self.raw) else self.raw

    def _load(self) -> tuple[Any, bytes | None]:
        return _load(bytes(self._get_raw()), OBJECT_DEPTH)

    def borrow(self) -> Any:
        """Return the tree to code that must not change it. `is_unmodified` checks that it did not."""
        tree = self.tree  # loading it may have made the snapshot already
        if self._snapshot is None:
            self._snapshot = orjson.dumps(tree)
        return tree

    def is_unmodified(self) -> bool:
        """Check that the tree has not changed since it was borrowed."""
        return self._snapshot is None or orjson.dumps(self.tree) == self._snapshot


def load(raw: bytes, depth: int = OBJECT_DEPTH) -> Any:
    """Decode a document strictly.

    Args:
        raw: the document.
        depth: the maximum level of nesting.

    Raises:
        MalformedReview: the document is not valid or has a duplicate key (code 400), or exceeds a limit (code 422).
    """
    tree, _ = _load(raw, depth)
    return tree


def _load(raw: bytes, depth: int) -> tuple[Any, bytes | None]:
    """Return the decoded document, and its encoding if the check has produced that."""
    _check_size(raw)
    try:
        tree = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return load_exactly(raw, depth), None
    wrapped = _encode_wrapped(tree)
    if wrapped is not None:
        if len(wrapped) == len(raw) + 2 * _WRAPPER_DEPTH and wrapped.startswith(raw, _WRAPPER_DEPTH):
            return tree, raw  # no slice: that would copy a document that may be large
        if b"\\u" in raw and _escape_as_go(encoded := wrapped[_WRAPPER_DEPTH:-_WRAPPER_DEPTH]) == raw:
            return tree, encoded
    return load_exactly(raw, depth), None


def _encode_wrapped(tree: Any) -> bytes | None:
    """Encode a document inside the wrapper; None if it is too deep or has an integer of more than 53 bits."""
    wrapper = _wrapper
    wrapper.inner[0] = tree
    try:
        return orjson.dumps(wrapper.outer, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:
        return None
    finally:
        wrapper.inner[0] = None


def _escape_as_go(encoded: bytes) -> bytes:
    """Escape the characters that the JSON encoder of Go escapes. They can occur only inside strings."""
    for character, escape in _GO_ESCAPES:
        encoded = encoded.replace(character, escape)
    return encoded


def _check_size(raw: bytes) -> None:
    if len(raw) > LARGE and raw.count(b",") > MAX_VALUES and _STRING.sub(b"", raw).count(b",") > MAX_VALUES:
        raise MalformedReview(f"more than {MAX_VALUES} values", code=422)


def load_exactly(raw: bytes, depth: int = OBJECT_DEPTH) -> Any:
    """Decode a document with the slow reader, which checks every rule explicitly.

    Raises:
        MalformedReview: see `load`.
    """
    _check_size(raw)
    try:
        text = raw.decode()
        tree = json.loads(
            text, object_pairs_hook=_build_object, parse_constant=_reject_constant, parse_int=_parse_int64
        )
    except RecursionError:
        raise MalformedReview(f"nested deeper than {MAX_DEPTH} levels", code=422) from None
    except UnicodeDecodeError as error:
        raise MalformedReview(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise MalformedReview(f"not JSON: {error.msg} at character {error.pos}") from None
    _check_depth(tree, depth)
    try:
        orjson.loads(raw)  # rejects lone surrogates, which `json` accepts
    except orjson.JSONDecodeError as error:
        raise MalformedReview(f"not JSON: {error.msg}") from None
    return tree


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedReview(f"duplicate key {first_duplicate(pairs)[:64]!r}")
    return members


def first_duplicate(pairs: list[tuple[str, Any]]) -> str:
    """Return the first key that occurs again in these pairs; there must be one."""
    seen: set[str] = set()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _reject_constant(name: str) -> NoReturn:
    raise MalformedReview(f"{name} is not a JSON value")


def _parse_int64(digits: str) -> int:
    value = int(digits) if len(digits) <= 20 else None
    if value is None or not -(2**63) <= value < 2**63:
        raise MalformedReview("an integer outside the range of int64", code=422)
    return value


def _check_depth(tree: Any, depth: int) -> None:
    level = [tree]
    for _ in range(depth + 1):
        level = [node for node in level if isinstance(node, dict | list)]
        if not level:
            return
        level = [child for node in level for child in (node.values() if isinstance(node, dict) else node)]
    raise MalformedReview(f"nested deeper than {MAX_DEPTH} levels", code=422)

"""Decodes only the parts of an object that JSON Patch operations need; all other parts stay raw.

To change one field of a large object, the rest does not have to become Python values. The containers on the paths are
decoded as strictly as a whole object: each must re-encode to the bytes it was read from. In the other parts, only the
syntax is checked, as in objects that no policy reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhooks.errors import MalformedReview, PatchError
from webhooks.objects.json_pointer import ARRAY_INDEX, parse_pointer
from webhooks.objects.strict_json import LARGE, OBJECT_DEPTH, load

_LOCAL = frozenset(("add", "remove", "replace", "test"))  # "move" and "copy" use a second path
_OBJECT, _ARRAY = b"{["

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _IncompleteError(Exception):
    """The whole object must be decoded."""


# Errors are reported when the whole object is decoded, and when the operations are applied to it.
_ERRORS = (
    _IncompleteError,
    MalformedReview,
    PatchError,
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
)


def decode_partially(raw: bytes | msgspec.Raw, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return a tree in which only the parts are decoded that operations need; None if the whole object is needed.

    If an operation cannot be applied to the tree, the reason may be that a part is raw.

    Args:
        raw: the object.
        operations: operations that have not been applied yet.
    """
    if len(raw) > LARGE:
        return None
    try:
        tree = _decode_level(raw)
        for operation in operations:
            if not _is_local(operation):
                return None
            tokens = parse_pointer(operation["path"])
            if not tokens:
                return None
            _decode_path(tree, tokens)
    except _ERRORS:
        return None
    return tree


def _is_local(operation: Any) -> bool:
    """Check that an operation reads and writes only at its path."""
    if type(operation) is not dict or type(operation.get("path")) is not str:
        return False
    return type(operation.get("op")) is str and operation["op"] in _LOCAL


def _decode_path(node: Any, tokens: Sequence[str]) -> None:
    """Decode one level of each container on a path, and the complete value at its end."""
    last = len(tokens) - 1
    for number, token in enumerate(tokens):
        key = _find_key(node, token)
        if key is None:
            return
        child = node[key]
        if type(child) is msgspec.Raw:
            child = node[key] = _decode_level(child) if number < last else _decode(child, len(tokens))
        elif number == last and type(child) in (dict, list):
            raise _IncompleteError  # another operation may need only parts of this value
        node = child


def _decode(raw: msgspec.Raw, level: int) -> Any:
    """Decode a value at this level of nesting."""
    text = bytes(raw)
    if level + text.count(b"{") + text.count(b"[") > OBJECT_DEPTH:
        raise _IncompleteError  # it may be nested too deeply
    return load(text)


def _find_key(node: Any, token: str) -> Any:
    """Return the key or index of a member; None if it does not exist."""
    if type(node) is dict:
        return token if token in node else None
    if type(node) is list and ARRAY_INDEX.fullmatch(token) and int(token) < len(node):
        return int(token)
    return None


def _decode_level(raw: bytes | msgspec.Raw) -> Any:
    """Decode an object or an array, but not its members; decode any other value completely."""
    text = bytes(raw)
    if text[0] == _OBJECT:
        tree: Any = _decode_object(text)
    elif text[0] == _ARRAY:
        tree = _decode_array(text)
    else:
        return load(text)
    if _encode(tree) != text:
        raise _IncompleteError
    return tree

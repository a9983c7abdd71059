"""Partial trees: what JSON Patch operations lead to is decoded, and all else in an object stays as it came.

To change one field of a large object, the rest of it need not become Python values. What lies on the way is decoded as
strictly as a whole object is: each object and array there, written again, is what was read. In the rest, as in objects
that nobody reads, syntax is all that is checked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhooks.errors import MalformedReview, PatchError
from webhooks.objects.json_patch import INDEX, tokens_of
from webhooks.objects.strict_json import LARGE, OBJECT_DEPTH, load

_SIMPLE = frozenset(("add", "remove", "replace", "test"))  # the others may put in one place what stood in another
_OBJECT, _ARRAY = b"{["

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _UnsureError(Exception):
    """The whole has to be decoded to tell."""


# It is for the reader of the whole to say what is wrong, and for those who apply operations.
_UNSURE = (
    _UnsureError,
    MalformedReview,
    PatchError,
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
)


def partial_tree(raw: bytes | msgspec.Raw, operations: Sequence[Mapping[str, Any]]) -> Any:
    """A tree to which operations can be applied; what they do not lead to is still raw in it.

    None where that cannot be told without the whole. Where they do not apply, that may be for want of the whole too.

    Args:
        raw: an object.
        operations: none of which has been applied yet.
    """
    if len(raw) > LARGE:
        return None
    try:
        tree = _opened(raw)
        for operation in operations:
            if not _is_simple(operation):
                return None
            tokens = tokens_of(operation["path"])
            if not tokens:
                return None
            _reach(tree, tokens)
    except _UNSURE:
        return None
    return tree


def _is_simple(operation: Any) -> bool:
    """Whether it is one that looks nowhere else than at its path."""
    if type(operation) is not dict or type(operation.get("path")) is not str:
        return False
    return type(operation.get("op")) is str and operation["op"] in _SIMPLE


def _reach(node: Any, tokens: Sequence[str]) -> None:
    """Decode what the tokens lead through, and the whole of what they lead to."""
    last = len(tokens) - 1
    for number, token in enumerate(tokens):
        key = _key(node, token)
        if key is None:
            return
        child = node[key]
        if type(child) is msgspec.Raw:
            child = node[key] = _opened(child) if number < last else _decoded(child, len(tokens))
        elif number == last and type(child) in (dict, list):
            raise _UnsureError  # other operations may have led into it
        node = child


def _decoded(raw: msgspec.Raw, level: int) -> Any:
    """A value that lies so many levels deep."""
    text = bytes(raw)
    if level + text.count(b"{") + text.count(b"[") > OBJECT_DEPTH:
        raise _UnsureError  # it may be nested too deeply there
    return load(text)


def _key(node: Any, token: str) -> Any:
    """The name or number of that member, if there is one."""
    if type(node) is dict:
        return token if token in node else None
    if type(node) is list and INDEX.fullmatch(token) and int(token) < len(node):
        return int(token)
    return None


def _opened(raw: bytes | msgspec.Raw) -> Any:
    """An object or array whose members are raw, or any other value."""
    text = bytes(raw)
    if text[0] == _OBJECT:
        tree: Any = _decode_object(text)
    elif text[0] == _ARRAY:
        tree = _decode_array(text)
    else:
        return load(text)
    if _encode(tree) != text:
        raise _UnsureError
    return tree

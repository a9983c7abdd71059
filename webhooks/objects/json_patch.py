"""Applies JSON Patch operations (RFC 6902) to JSON trees of plain Python values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from webhooks.errors import PatchError
from webhooks.objects.json_diff import MAX_OPERATIONS, encode_sorted, is_same
from webhooks.objects.json_pointer import ARRAY_INDEX, MAX_DEPTH, parse_pointer

MAX_COPIED_BYTES = 3 * 1024 * 1024  # the largest request that an API server accepts


def apply(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return a document after these operations (RFC 6902 section 4), without changing the original.

    Only the containers on the paths of operations are copied. Everything else is shared with the original, and added
    values are shared with the operations. If no operation changes anything, the result is the original itself.

    Raises:
        PatchError: an operation is malformed, cannot be applied, fails its test, or exceeds a limit: `MAX_OPERATIONS`
            operations, `MAX_COPIED_BYTES` duplicated by "copy", `MAX_DEPTH` levels of nesting. The message has the
            index and the path of the operation.
    """
    if not isinstance(operations, (list, tuple)):
        raise PatchError("a patch must be an array of operations")
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(f"{len(operations)} operations; the maximum is {MAX_OPERATIONS}")
    patcher = _Patcher(document)
    for index, operation in enumerate(operations):
        try:
            patcher.apply(operation)
        except PatchError as error:
            raise PatchError(f"operation {index}{_describe(operation)}: {error}") from None
    if patcher.has_moved_values:
        _check_depth(patcher.root, 0)
    return patcher.root


def _describe(operation: Any) -> str:
    if not isinstance(operation, Mapping):
        return ""
    parts = (operation.get(field) for field in ("op", "path"))
    return f" ({' '.join(repr(text[:200]) for text in parts if isinstance(text, str))})"


class _Patcher:
    """A document that operations are applied to.

    Attributes:
        root: the document so far.
        owned: the containers that were copied here, by id. Only these may be changed. The parents of an owned
            container are owned too.
        copied: the bytes that "copy" has duplicated.
        has_moved_values: whether nesting may have become deeper without a new value.
    """

    def __init__(self, document: Any) -> None:
        self.root = document
        self.owned: dict[int, Any] = {}
        self.copied = 0
        self.has_moved_values = False

    def apply(self, operation: Any) -> None:
        if type(operation) is not dict and not isinstance(operation, Mapping):
            raise PatchError("not an object")
        name = operation.get("op")
        method = _METHODS.get(name) if isinstance(name, str) else None
        if method is None:
            raise PatchError("unknown op")
        method(self, operation)

    def add(self, operation: Mapping[str, Any]) -> None:
        tokens = _parse_path(operation, "path")
        self.insert(tokens, _get_value(operation, tokens))

    def remove(self, operation: Mapping[str, Any]) -> None:
        self.pop_value(_parse_path(operation, "path"))

    def replace(self, operation: Mapping[str, Any]) -> None:
        tokens = _parse_path(operation, "path")
        value = _get_value(operation, tokens)
        if not tokens:
            self.root = value
            return
        parent, keys = self.resolve(tokens[:-1])
        key = _resolve_key(parent, tokens[-1])
        if not is_same(parent[key], value):
            self.writable(keys)[key] = value

    def move(self, operation: Mapping[str, Any]) -> None:
        source, target = _parse_path(operation, "from"), _parse_path(operation, "path")
        if source == target:
            self.find(source)
            return
        if target[: len(source)] == source:
            raise PatchError("cannot move a value into itself")
        self.has_moved_values = True
        self.insert(target, self.pop_value(source))

    def copy(self, operation: Mapping[str, Any]) -> None:
        source, target = _parse_path(operation, "from"), _parse_path(operation, "path")
        value = self.find(source)
        self.count_copied(value)
        self.disown(value)
        self.has_moved_values = True
        self.insert(target, value)

    def test(self, operation: Mapping[str, Any]) -> None:
        tokens = _parse_path(operation, "path")
        expected = _get_value(operation, tokens)
        if not _is_equal(self.find(tokens), expected):
            raise PatchError("the value differs")

    def find(self, tokens: list[str]) -> Any:
        node, _ = self.resolve(tokens)
        return node

    def resolve(self, tokens: list[str]) -> tuple[Any, list[Any]]:
        """Return the value at a path, and the keys and indices of the path."""
        node, keys = self.root, []
        for token in tokens:
            key = token if type(node) is dict and token in node else _resolve_key(node, token)
            keys.append(key)
            node = node[key]
        return node, keys

    def insert(self, tokens: list[str], value: Any) -> None:
        if not tokens:
            self.root = value
            return
        last = tokens[-1]
        parent, keys = self.resolve(tokens[:-1])
        if isinstance(parent, dict):
            if last not in parent or not is_same(parent[last], value):
                self.writable(keys)[last] = value
        elif isinstance(parent, list):
            position = _insert_position(parent, last)
            self.writable(keys).insert(position, value)
        else:
            raise PatchError("the parent is neither an object nor an array")

    def pop_value(self, tokens: list[str]) -> Any:
        if not tokens:
            raise PatchError("cannot remove the whole document")
        parent, keys = self.resolve(tokens[:-1])
        last = _resolve_key(parent, tokens[-1])
        return self.writable(keys).pop(last)

    def writable(self, keys: list[Any]) -> Any:
        """Return the container at these keys. It and its parents are copied, unless they are owned already."""
        owned = self.owned
        node = self.root
        if id(node) not in owned:
            node = self.root = node.copy()
            owned[id(node)] = node
        for key in keys:
            child = node[key]
            if id(child) not in owned:
                child = node[key] = child.copy()
                owned[id(child)] = child
            node = child
        return node

    def disown(self, node: Any) -> None:
        """Give up ownership of a value that is about to have two places: each must be copied before a change."""
        pending = [node]
        while pending:
            node = pending.pop()
            if self.owned.pop(id(node), None) is not None:
                pending.extend(_containers(node))

    def count_copied(self, value: Any) -> None:
        try:
            self.copied += len(encode_sorted(value))
        except RecursionError:
            raise PatchError(f"nested deeper than {MAX_DEPTH} levels") from None
        if self.copied > MAX_COPIED_BYTES:
            raise PatchError(f"more than {MAX_COPIED_BYTES} bytes copied")


_METHODS: dict[str, Callable[[_Patcher, Mapping[str, Any]], None]] = {
    "add": _Patcher.add,
    "remove": _Patcher.remove,
    "replace": _Patcher.replace,
    "move": _Patcher.move,
    "copy": _Patcher.copy,
    "test": _Patcher.test,
}


def _parse_path(operation: Mapping[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str):
        raise PatchError(f"{field} is missing" if field not in operation else f"{field} is not a string")
    return parse_pointer(text, field)


def _get_value(operation: Mapping[str, Any], tokens: list[str]) -> Any:
    if "value" not in operation:
        raise PatchError("value is missing")
    value = operation["value"]
    if isinstance(value, (dict, list)):
        _check_depth(value, len(tokens))
    return value


def _check_depth(value: Any, above: int) -> None:
    pending = [(node, above) for node in _containers([value])]
    while pending:
        node, depth = pending.pop()
        if depth >= MAX_DEPTH:
            raise PatchError(f"nested deeper than {MAX_DEPTH} levels")
        pending.extend((child, depth + 1) for child in _containers(node))


def _containers(node: Any) -> Iterator[Any]:
    children = node.values() if isinstance(node, dict) else node
    return (child for child in children if isinstance(child, (dict, list)))


def _resolve_key(node: Any, token: str) -> Any:
    """Return the key or index of an existing member."""
    if isinstance(node, dict):
        if token not in node:
            raise PatchError(f"no member {token[:200]!r}")
        return token
    if not isinstance(node, list):
        raise PatchError(f"no member {token[:200]!r}: the parent is neither an object nor an array")
    index = _parse_index(token)
    if index >= len(node):
        raise PatchError(f"index {index} is beyond the array of {len(node)}")
    return index


def _insert_position(array: list[Any], text: str) -> int:
    index = len(array) if text == "-" else _parse_index(text)
    if index > len(array):
        raise PatchError(f"index {index} is beyond the array of {len(array)}")
    return index


def _parse_index(token: str) -> int:
    if not ARRAY_INDEX.fullmatch(token):
        raise PatchError(f"{token[:200]!r} is not an array index")
    return int(token)


def _is_equal(actual: Any, expected: Any) -> bool:
    """Compare as RFC 6902 section 4.6 requires: numbers by value. A boolean is not a number."""
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_is_equal, actual, expected))
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(_is_equal(actual[key], expected[key]) for key in actual)
    return bool(actual == expected)

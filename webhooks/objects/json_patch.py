"""JSON Patch (RFC 6902) over JSON Pointer (RFC 6901): what changed between two trees, and applying it.

Pure JSON: plain dicts and lists, strings, numbers, booleans and None. `diff` costs nothing where two trees
share a subtree, and `apply` copies only the containers on the paths it touches.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NoReturn

import orjson

from webhooks.errors import PatchError

Operation = dict[str, Any]

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024  # what an API server accepts as one request
MAX_DEPTH = 200

_ABSENT: Any = object()

# Down to this depth subtrees are compared as wholes first and arrays are aligned. Each level may then read
# all that is below it once more, so hostile nesting is walked once and plainly.
_THOROUGH_DEPTH = 16
_MAX_CELLS = 4096  # about 1 ms of aligning

# The price of each way to turn one array into another: edits within an element are the smallest operations.
_STEP = 4
_EDIT_SAME_NAME = 1
_EDIT = 2

_CONTAINERS = frozenset((dict, list))
_EXACT = frozenset((str, int, bool))  # types whose equality is exact among themselves

INDEX = re.compile(r"0|[1-9][0-9]{0,15}")  # RFC 6901 section 4


def pointer(*tokens: str | int) -> str:
    """The JSON Pointer that leads through these members and indices, escaped as RFC 6901 section 3 asks.

    No token at all is the whole document, "".
    """
    return "".join(f"/{_escaped(str(token))}" for token in tokens)


def _escaped(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def tokens_of(text: str, field: str = "path") -> list[str]:
    """The tokens of a JSON Pointer (RFC 6901): names of members, and indices as text.

    Args:
        text: the pointer.
        field: what a message calls it.

    Raises:
        PatchError: it is none, or leads too deep.
    """
    if not text:
        return []
    if text[0] != "/" or text.count("~") != text.count("~0") + text.count("~1"):
        _refuse(f"{field} is no JSON pointer")
    if text.count("/") > MAX_DEPTH:
        _refuse(f"{field} leads more than {MAX_DEPTH} levels deep")
    tokens = text[1:].split("/")
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens] if "~" in text else tokens


def diff(before: Any, after: Any) -> list[Operation]:
    """The operations that, applied in order, turn one tree into the other; none where they are the same.

    Types count: true is not 1 and 1 is not 1.0, although Python says so. A member that is null is not a
    missing one. Objects are compared member by member; arrays are aligned first, so that an element put in
    the middle is one operation and one changed field is one operation. Values may be shared with `after`.
    More than `MAX_OPERATIONS` become one replacement of the whole.

    Raises:
        PatchError: the trees are nested too deeply to be compared.
    """
    operations: list[Operation] = []
    try:
        _compare(before, after, "", 0, operations)
    except RecursionError:
        raise PatchError("nested too deeply to be compared") from None
    if len(operations) > MAX_OPERATIONS:
        return [{"op": "replace", "path": "", "value": after}]
    return operations


def _compare(before: Any, after: Any, path: str, depth: int, operations: list[Operation]) -> None:
    if before is after:
        return
    kind = type(before)
    if kind is not type(after) or kind not in _CONTAINERS:
        if not _same(before, after):
            operations.append({"op": "replace", "path": path, "value": after})
        return
    if depth >= MAX_DEPTH:
        raise PatchError(f"nested more than {MAX_DEPTH} levels deep")
    if depth < _THOROUGH_DEPTH and _same(before, after):
        return
    if kind is dict:
        _compare_objects(before, after, path, depth, operations)
    else:
        _compare_arrays(before, after, path, depth, operations)


def _same(before: Any, after: Any) -> bool:
    if before is after:
        return True
    if type(before) is not type(after) or before != after:
        return False
    # Python's equality stops at the first difference, but it takes True for 1 and -0.0 for 0.0.
    return type(before) in _EXACT or _encoded(before) == _encoded(after)


def _encoded(value: Any) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, or nesting beyond what orjson takes
        return json.dumps(value, sort_keys=True).encode()


def _compare_objects(
    before: dict[str, Any], after: dict[str, Any], path: str, depth: int, operations: list[Operation]
) -> None:
    if len(before) + len(after) > 1 and before.keys().isdisjoint(after):
        operations.append({"op": "replace", "path": path, "value": after})
        return
    for key, old in before.items():
        new = after.get(key, _ABSENT)
        if new is old:
            continue
        place = f"{path}/{_escaped(key)}"
        if new is _ABSENT:
            operations.append({"op": "remove", "path": place})
        else:
            _compare(old, new, place, depth + 1, operations)
    for key, new in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": new})


def _compare_arrays(before: list[Any], after: list[Any], path: str, depth: int, operations: list[Operation]) -> None:
    if len(before) + len(after) > 1 and not (before and after):
        operations.append({"op": "replace", "path": path, "value": after})
        return
    thorough = depth < _THOROUGH_DEPTH
    index = _common_start(before, after) if thorough else 0
    for old, new in _alignment(before[index:], after[index:]) if thorough else _pairs(before, after):
        place = f"{path}/{index}"
        if new is _ABSENT:
            operations.append({"op": "remove", "path": place})
            continue  # the next element has moved to this index
        if old is _ABSENT:
            operations.append({"op": "add", "path": place, "value": new})
        else:
            _compare_elements(old, new, place, depth + 1, operations)
        index += 1


def _compare_elements(old: Any, new: Any, path: str, depth: int, operations: list[Operation]) -> None:
    nested: list[Operation] = []
    _compare(old, new, path, depth, nested)
    if len(nested) > 1 and isinstance(old, dict) and old.get("name") != new.get("name"):
        nested = [{"op": "replace", "path": path, "value": new}]  # another thing, not the old one edited
    operations += nested


def _common_start(before: Sequence[Any], after: Sequence[Any]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if not _same(old, new):
            break
        count += 1
    return count


def _pairs(before: list[Any], after: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip_longest(before, after, fillvalue=_ABSENT))


def _alignment(before: list[Any], after: list[Any]) -> list[tuple[Any, Any]]:
    """Old and new elements side by side as they are to be edited, without those that end both arrays."""
    tail = _common_start(before[::-1], after[::-1])
    before, after = before[: len(before) - tail], after[: len(after) - tail]
    if not 1 < len(before) * len(after) <= _MAX_CELLS or _renamed_nowhere(before, after):
        return _pairs(before, after)
    prices = _prices(before, after)
    return _cheapest(before, after, prices, _totals(prices))


def _renamed_nowhere(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(
        _price(old, new) == _EDIT_SAME_NAME for old, new in zip(before, after, strict=True)
    )


def _prices(before: list[Any], after: list[Any]) -> list[list[int]]:
    olds, news = [_encoded(old) for old in before], [_encoded(new) for new in after]
    return [
        [0 if old_text == new_text else _price(old, new) for new, new_text in zip(after, news, strict=True)]
        for old, old_text in zip(before, olds, strict=True)
    ]


def _price(old: Any, new: Any) -> int:
    if isinstance(old, dict) and isinstance(new, dict):
        if "name" not in old and "name" not in new:
            return _EDIT
        return _EDIT_SAME_NAME if old.get("name") == new.get("name") else _STEP
    return _EDIT if isinstance(old, list) and isinstance(new, list) else _STEP


def _totals(prices: list[list[int]]) -> list[list[int]]:
    """The edit-distance table: the price of turning the first i elements into the first j."""
    above = [_STEP * column for column in range(len(prices[0]) + 1)]
    table = [above]
    for number, line in enumerate(prices, start=1):
        left = _STEP * number
        row = [left]
        for price, diagonal, up in zip(line, above, above[1:], strict=False):
            left = min(diagonal + price, up + _STEP, left + _STEP)
            row.append(left)
        table.append(row)
        above = row
    return table


def _cheapest(
    before: list[Any], after: list[Any], prices: list[list[int]], totals: list[list[int]]
) -> list[tuple[Any, Any]]:
    row, column = len(before), len(after)
    pairs: list[tuple[Any, Any]] = []
    while row or column:
        here = totals[row][column]
        if row and column and here == totals[row - 1][column - 1] + prices[row - 1][column - 1]:
            row, column = row - 1, column - 1
            pairs.append((before[row], after[column]))
        elif row and here == totals[row - 1][column] + _STEP:
            row -= 1
            pairs.append((before[row], _ABSENT))
        else:
            column -= 1
            pairs.append((_ABSENT, after[column]))
    return pairs[::-1]


def apply(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """The document after these operations (RFC 6902 section 4); the document given stays as it is.

    All that no operation touches is shared with the document, and what operations put in is shared with them. Where no
    operation changes anything, the answer is the document itself.

    Raises:
        PatchError: an operation is malformed, does not apply, fails its test or goes beyond the limits: at
            most `MAX_OPERATIONS` of them, `MAX_COPIED_BYTES` multiplied by "copy" and `MAX_DEPTH` levels of
            nesting. The message names the operation by its index and path.
    """
    if not isinstance(operations, (list, tuple)):
        raise PatchError("a patch is an array of operations")
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(f"{len(operations)} operations, the most is {MAX_OPERATIONS}")
    work = _Work(document)
    for index, operation in enumerate(operations):
        try:
            work.perform(operation)
        except PatchError as error:
            raise PatchError(f"operation {index}{_described(operation)}: {error}") from None
    if work.rearranged:
        _refuse_depth(work.root, 0)
    return work.root


def _described(operation: Any) -> str:
    if not isinstance(operation, Mapping):
        return ""
    told = (operation.get(field) for field in ("op", "path"))
    return f" ({' '.join(repr(text[:200]) for text in told if isinstance(text, str))})"


class _Work:
    """A document under change: `owned` holds the containers made here, the only ones that may be written to.

    Whatever leads to an owned container is owned too.
    """

    def __init__(self, document: Any) -> None:
        self.root = document
        self.owned: dict[int, Any] = {}
        self.copied = 0
        self.rearranged = False

    def perform(self, operation: Any) -> None:
        if type(operation) is not dict and not isinstance(operation, Mapping):
            _refuse("not an object")
        name = operation.get("op")
        method = _METHODS.get(name) if isinstance(name, str) else None
        if method is None:
            _refuse("no such op")
        method(self, operation)

    def add(self, operation: Mapping[str, Any]) -> None:
        tokens = _tokens(operation, "path")
        self.put(tokens, _value(operation, tokens))

    def remove(self, operation: Mapping[str, Any]) -> None:
        self.take(_tokens(operation, "path"))

    def replace(self, operation: Mapping[str, Any]) -> None:
        tokens = _tokens(operation, "path")
        value = _value(operation, tokens)
        if not tokens:
            self.root = value
            return
        parent, keys = self.route(tokens[:-1])
        key = _member(parent, tokens[-1])
        if not _same(parent[key], value):
            self.writable(keys)[key] = value

    def move(self, operation: Mapping[str, Any]) -> None:
        source, target = _tokens(operation, "from"), _tokens(operation, "path")
        if source == target:
            self.find(source)
            return
        if target[: len(source)] == source:
            _refuse("nothing moves into itself")
        self.rearranged = True
        self.put(target, self.take(source))

    def copy(self, operation: Mapping[str, Any]) -> None:
        source, target = _tokens(operation, "from"), _tokens(operation, "path")
        value = self.find(source)
        self.count(value)
        self.disown(value)
        self.rearranged = True
        self.put(target, value)

    def test(self, operation: Mapping[str, Any]) -> None:
        tokens = _tokens(operation, "path")
        expected = _value(operation, tokens)
        if not _alike(self.find(tokens), expected):
            _refuse("the value there is another")

    def find(self, tokens: list[str]) -> Any:
        node, _ = self.route(tokens)
        return node

    def route(self, tokens: list[str]) -> tuple[Any, list[Any]]:
        """What the tokens lead to, and the keys and indices on the way."""
        node, keys = self.root, []
        for token in tokens:
            key = token if type(node) is dict and token in node else _member(node, token)
            keys.append(key)
            node = node[key]
        return node, keys

    def put(self, tokens: list[str], value: Any) -> None:
        if not tokens:
            self.root = value
            return
        last = tokens[-1]
        parent, keys = self.route(tokens[:-1])
        if isinstance(parent, dict):
            if last not in parent or not _same(parent[last], value):
                self.writable(keys)[last] = value
        elif isinstance(parent, list):
            position = _position(parent, last)
            self.writable(keys).insert(position, value)
        else:
            _refuse("what should hold it is neither an object nor an array")

    def take(self, tokens: list[str]) -> Any:
        if not tokens:
            _refuse("the whole document cannot be removed")
        parent, keys = self.route(tokens[:-1])
        last = _member(parent, tokens[-1])
        return self.writable(keys).pop(last)

    def writable(self, keys: list[Any]) -> Any:
        """The container that the keys lead to, made here like all that lead to it."""
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
        # A value that now stands in two places must be copied again before either is written to.
        pending = [node]
        while pending:
            node = pending.pop()
            if self.owned.pop(id(node), None) is not None:
                pending.extend(_containers(node))

    def count(self, value: Any) -> None:
        try:
            self.copied += len(_encoded(value))
        except RecursionError:
            _refuse(f"nested more than {MAX_DEPTH} levels deep")
        if self.copied > MAX_COPIED_BYTES:
            _refuse(f"more than {MAX_COPIED_BYTES} bytes copied")


_METHODS: dict[str, Callable[[_Work, Mapping[str, Any]], None]] = {
    "add": _Work.add,
    "remove": _Work.remove,
    "replace": _Work.replace,
    "move": _Work.move,
    "copy": _Work.copy,
    "test": _Work.test,
}


def _refuse(reason: str) -> NoReturn:
    raise PatchError(reason)


def _tokens(operation: Mapping[str, Any], field: str) -> list[str]:
    text = operation.get(field)
    if not isinstance(text, str):
        _refuse(f"no {field}" if field not in operation else f"{field} is not a string")
    return tokens_of(text, field)


def _value(operation: Mapping[str, Any], tokens: list[str]) -> Any:
    if "value" not in operation:
        _refuse("no value")
    value = operation["value"]
    if isinstance(value, (dict, list)):
        _refuse_depth(value, len(tokens))
    return value


def _refuse_depth(value: Any, above: int) -> None:
    pending = [(node, above) for node in _containers([value])]
    while pending:
        node, depth = pending.pop()
        if depth >= MAX_DEPTH:
            _refuse(f"nested more than {MAX_DEPTH} levels deep")
        pending.extend((child, depth + 1) for child in _containers(node))


def _containers(node: Any) -> Iterator[Any]:
    children = node.values() if isinstance(node, dict) else node
    return (child for child in children if isinstance(child, (dict, list)))


def _member(node: Any, token: str) -> Any:
    """The key or index of a member that exists."""
    if isinstance(node, dict):
        if token not in node:
            _refuse(f"nothing named {token[:200]!r}")
        return token
    if not isinstance(node, list):
        _refuse(f"{token[:200]!r} is looked for in what is neither an object nor an array")
    index = _index(token)
    if index >= len(node):
        _refuse(f"index {index} in an array of {len(node)}")
    return index


def _position(array: list[Any], place: str) -> int:
    index = len(array) if place == "-" else _index(place)
    if index > len(array):
        _refuse(f"index {index} in an array of {len(array)}")
    return index


def _index(token: str) -> int:
    if not INDEX.fullmatch(token):
        _refuse(f"{token[:200]!r} is no index")
    return int(token)


def _alike(found: Any, expected: Any) -> bool:
    """Equality as RFC 6902 section 4.6 means it: numbers by value, and a boolean is no number."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_alike, found, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_alike(found[key], expected[key]) for key in found)
    return bool(found == expected)

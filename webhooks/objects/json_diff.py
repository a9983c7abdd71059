"""Computes the JSON Patch (RFC 6902) between two JSON trees.

A tree consists of plain dicts and lists, strings, numbers, booleans and None. A subtree that both trees share is not
read.
"""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import orjson

from webhooks.errors import PatchError
from webhooks.objects.json_pointer import MAX_DEPTH, escape

Operation = dict[str, Any]

MAX_OPERATIONS = 10_000  # of a patch, computed or applied

_ABSENT: Any = object()

# Down to this level, subtrees are first compared as a whole and arrays are aligned. Each level may then read
# everything below it once more, so deeper levels are compared in a single pass.
_MAX_THOROUGH_DEPTH = 16
_MAX_ALIGNED_PAIRS = 4096  # about 1 ms

# Costs of edits of an array. Changing an element is the smallest operation.
_INSERT_OR_REMOVE = 4
_CHANGE_SAME_NAME = 1
_CHANGE = 2

_CONTAINERS = frozenset((dict, list))
_EXACT = frozenset((str, int, bool))  # equal values of one of these types are the same


def diff(before: Any, after: Any) -> list[Operation]:
    """Return the operations that change one tree into another; an empty list if the trees are the same.

    Types matter: true, 1 and 1.0 differ, although they are equal in Python, and a null member differs from a missing
    one. Objects are compared member by member. Arrays are aligned first: one inserted element is one operation, and
    so is one changed field of an element. Operations may share values with `after`. If more than `MAX_OPERATIONS` are
    needed, the result is one that replaces the whole tree.

    Raises:
        PatchError: the trees are nested more than `MAX_DEPTH` levels deep.
    """
    operations: list[Operation] = []
    try:
        _diff_values(before, after, "", 0, operations)
    except RecursionError:
        raise PatchError(f"nested deeper than {MAX_DEPTH} levels") from None
    if len(operations) > MAX_OPERATIONS:
        return [{"op": "replace", "path": "", "value": after}]
    return operations


def _diff_values(before: Any, after: Any, path: str, depth: int, operations: list[Operation]) -> None:
    if before is after:
        return
    type_ = type(before)
    if type_ is not type(after) or type_ not in _CONTAINERS:
        if not is_same(before, after):
            operations.append({"op": "replace", "path": path, "value": after})
        return
    if depth >= MAX_DEPTH:
        raise PatchError(f"nested deeper than {MAX_DEPTH} levels")
    if depth < _MAX_THOROUGH_DEPTH and is_same(before, after):
        return
    if type_ is dict:
        _diff_objects(before, after, path, depth, operations)
    else:
        _diff_arrays(before, after, path, depth, operations)


def is_same(before: Any, after: Any) -> bool:
    """Check whether two trees are equal, with the same types."""
    if before is after:
        return True
    if type(before) is not type(after) or before != after:
        return False
    # The comparison above stops at the first difference, but True equals 1 and -0.0 equals 0.0 in Python.
    return type(before) in _EXACT or encode_sorted(before) == encode_sorted(after)


def encode_sorted(value: Any) -> bytes:
    """Encode a tree as JSON with sorted keys."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, or nesting beyond the limit of orjson
        return json.dumps(value, sort_keys=True).encode()


def _diff_objects(
    before: dict[str, Any], after: dict[str, Any], path: str, depth: int, operations: list[Operation]
) -> None:
    if len(before) + len(after) > 1 and before.keys().isdisjoint(after):
        operations.append({"op": "replace", "path": path, "value": after})
        return
    for key, old in before.items():
        new = after.get(key, _ABSENT)
        if new is old:
            continue
        member_path = f"{path}/{escape(key)}"
        if new is _ABSENT:
            operations.append({"op": "remove", "path": member_path})
        else:
            _diff_values(old, new, member_path, depth + 1, operations)
    for key, new in after.items():
        if key not in before:
            operations.append({"op": "add", "path": f"{path}/{escape(key)}", "value": new})


def _diff_arrays(before: list[Any], after: list[Any], path: str, depth: int, operations: list[Operation]) -> None:
    if len(before) + len(after) > 1 and not (before and after):
        operations.append({"op": "replace", "path": path, "value": after})
        return
    thorough = depth < _MAX_THOROUGH_DEPTH
    index = _count_equal_start(before, after) if thorough else 0
    for old, new in _align(before[index:], after[index:]) if thorough else _pair_by_index(before, after):
        element_path = f"{path}/{index}"
        if new is _ABSENT:
            operations.append({"op": "remove", "path": element_path})
            continue  # the next element has moved to this index
        if old is _ABSENT:
            operations.append({"op": "add", "path": element_path, "value": new})
        else:
            _diff_elements(old, new, element_path, depth + 1, operations)
        index += 1


def _diff_elements(old: Any, new: Any, path: str, depth: int, operations: list[Operation]) -> None:
    nested: list[Operation] = []
    _diff_values(old, new, path, depth, nested)
    if len(nested) > 1 and isinstance(old, dict) and old.get("name") != new.get("name"):
        nested = [{"op": "replace", "path": path, "value": new}]  # a different element, not a change of the old one
    operations += nested


def _count_equal_start(before: Sequence[Any], after: Sequence[Any]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if not is_same(old, new):
            break
        count += 1
    return count


def _pair_by_index(before: list[Any], after: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip_longest(before, after, fillvalue=_ABSENT))


def _align(before: list[Any], after: list[Any]) -> list[tuple[Any, Any]]:
    """Pair the old and new elements of arrays at the lowest cost, without the equal elements at the end of both."""
    tail = _count_equal_start(before[::-1], after[::-1])
    before, after = before[: len(before) - tail], after[: len(after) - tail]
    if not 1 < len(before) * len(after) <= _MAX_ALIGNED_PAIRS or _have_same_names(before, after):
        return _pair_by_index(before, after)
    costs = _edit_costs(before, after)
    return _cheapest_alignment(before, after, costs, _cost_table(costs))


def _have_same_names(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(
        _edit_cost(old, new) == _CHANGE_SAME_NAME for old, new in zip(before, after, strict=True)
    )


def _edit_costs(before: list[Any], after: list[Any]) -> list[list[int]]:
    old_texts, new_texts = [encode_sorted(old) for old in before], [encode_sorted(new) for new in after]
    return [
        [0 if old_text == new_text else _edit_cost(old, new) for new, new_text in zip(after, new_texts, strict=True)]
        for old, old_text in zip(before, old_texts, strict=True)
    ]


def _edit_cost(old: Any, new: Any) -> int:
    if isinstance(old, dict) and isinstance(new, dict):
        if "name" not in old and "name" not in new:
            return _CHANGE
        return _CHANGE_SAME_NAME if old.get("name") == new.get("name") else _INSERT_OR_REMOVE
    return _CHANGE if isinstance(old, list) and isinstance(new, list) else _INSERT_OR_REMOVE


def _cost_table(costs: list[list[int]]) -> list[list[int]]:
    """Return the edit-distance table: the cost of changing the first i old elements into the first j new ones."""
    above = [_INSERT_OR_REMOVE * column for column in range(len(costs[0]) + 1)]
    table = [above]
    for number, line in enumerate(costs, start=1):
        left = _INSERT_OR_REMOVE * number
        row = [left]
        for cost, diagonal, up in zip(line, above, above[1:], strict=False):
            left = min(diagonal + cost, up + _INSERT_OR_REMOVE, left + _INSERT_OR_REMOVE)
            row.append(left)
        table.append(row)
        above = row
    return table


def _cheapest_alignment(
    before: list[Any], after: list[Any], costs: list[list[int]], table: list[list[int]]
) -> list[tuple[Any, Any]]:
    """Follow the edit-distance table back from the last elements to the first."""
    row, column = len(before), len(after)
    pairs: list[tuple[Any, Any]] = []
    while row or column:
        cost = table[row][column]
        if row and column and cost == table[row - 1][column - 1] + costs[row - 1][column - 1]:
            row, column = row - 1, column - 1
            pairs.append((before[row], after[column]))
        elif row and cost == table[row - 1][column] + _INSERT_OR_REMOVE:
            row -= 1
            pairs.append((before[row], _ABSENT))
        else:
            column -= 1
            pairs.append((_ABSENT, after[column]))
    return pairs[::-1]

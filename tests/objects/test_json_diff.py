import copy

import jsonpatch
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webhooks.errors import PatchError
from webhooks.objects import json_diff
from webhooks.objects.json_diff import diff
from webhooks.objects.json_patch import apply

from ..support.json_trees import ARRAYS, KEYS, TREES, exact, nested


@st.composite
def edited(draw):
    before = draw(TREES)
    after = copy.deepcopy(before)
    for _ in range(draw(st.integers(0, 4))):
        after = edit(draw, after)
    return before, after


def edit(draw, tree):
    if not isinstance(tree, (dict, list)) or draw(st.integers(0, 5)) == 0:
        return draw(TREES)
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    how = draw(st.sampled_from(["inside", "inside", "remove", "add"]))
    if how == "add" or not keys:
        if isinstance(tree, dict):
            tree[draw(KEYS)] = draw(TREES)
        else:
            tree.insert(draw(st.integers(0, len(tree))), draw(TREES))
        return tree
    key = draw(st.sampled_from(keys))
    if how == "remove":
        del tree[key]
    else:
        tree[key] = edit(draw, tree[key])
    return tree


def check_round_trip(before, after):
    kept = exact(before), exact(after)
    operations = diff(before, after)
    theirs = jsonpatch.apply_patch(copy.deepcopy(before), copy.deepcopy(operations))
    assert exact(theirs) == kept[1]
    assert exact(apply(before, operations)) == kept[1]
    assert (operations == []) == (kept[0] == kept[1])
    assert (exact(before), exact(after)) == kept


@given(TREES, TREES)
@settings(max_examples=150, deadline=None)
def test_diff_turns_any_tree_into_any_other(before, after):
    check_round_trip(before, after)


@given(edited())
@settings(max_examples=250, deadline=None)
@example(([True, 1, 1.0], [1, 1.0, True]))
@example(({"a": 0.0}, {"a": -0.0}))
@example(({"a": {"b": 2**70}}, {"a": {"b": 2**70 + 1}}))
def test_diff_of_edited_trees(pair):
    check_round_trip(*pair)


@given(ARRAYS, ARRAYS)
@settings(max_examples=200, deadline=None)
def test_diff_aligns_arrays(before, after):
    check_round_trip({"items": before}, {"items": after})


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
@settings(max_examples=100, deadline=None)
def test_arrays_of_scalars_need_the_minimum_of_operations(before, after):
    distance = list(range(len(after) + 1))
    for i, old in enumerate(before, 1):
        corner, distance[0] = distance[0], i
        for j, new in enumerate(after, 1):
            best = min(corner + (old != new), distance[j] + 1, distance[j - 1] + 1)
            corner, distance[j] = distance[j], best
    emptied_or_filled = before != after and not (before and after)
    assert len(diff(before, after)) == (1 if emptied_or_filled else distance[-1])


@given(ARRAYS, ARRAYS)
@settings(max_examples=80, deadline=None)
def test_diff_without_alignment_is_correct(before, after):
    limit, json_diff._MAX_ALIGNED_PAIRS = json_diff._MAX_ALIGNED_PAIRS, 0
    try:
        check_round_trip(before, after)
    finally:
        json_diff._MAX_ALIGNED_PAIRS = limit


@given(TREES)
@settings(max_examples=60, deadline=None)
def test_equal_trees_need_no_operations(tree):
    assert diff(tree, tree) == []
    assert diff(tree, copy.deepcopy(tree)) == []


@pytest.mark.parametrize("levels", [5, 20, 60, 198])
def test_diff_of_nested_trees(levels):
    before, after = {"x": True, "y": {}, "z": []}, {"x": 1, "y": {}, "z": []}
    operations = diff(nested(levels, before), nested(levels, after))
    assert len(operations) == 1
    assert operations[0]["value"] == 1


@pytest.mark.parametrize("levels", [200, 320, 3000])
def test_diff_of_too_deep_trees_is_rejected(levels):
    with pytest.raises(PatchError, match="deep"):
        diff(nested(levels, {"x": 1}), nested(levels, {"x": 2}))


def test_shared_subtrees_are_not_read():
    shared = nested(3000, {})
    assert diff({"a": shared, "b": 1}, {"a": shared, "b": 2}) == [{"op": "replace", "path": "/b", "value": 2}]


def test_too_many_operations_become_one():
    before = {str(number): number for number in range(10_001)}
    after = {str(number): -1 for number in range(10_001)}
    assert diff(before, after) == [{"op": "replace", "path": "", "value": after}]


MINIMAL = {
    "nothing": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, []),
    "order of members": ({"a": 1, "b": [{"c": 1, "d": 2}]}, {"b": [{"d": 2, "c": 1}], "a": 1}, []),
    "whole": ([1], {"a": 1}, [{"op": "replace", "path": "", "value": {"a": 1}}]),
    "whole scalar": (1, 2, [{"op": "replace", "path": "", "value": 2}]),
    "true is not one": (
        {"a": 1, "b": 0},
        {"a": True, "b": 0},
        [{"op": "replace", "path": "/a", "value": True}],
    ),
    "one is not 1.0": ({"a": [1]}, {"a": [1.0]}, [{"op": "replace", "path": "/a/0", "value": 1.0}]),
    "null is a value": ({"a": 1}, {"a": None}, [{"op": "replace", "path": "/a", "value": None}]),
    "null is not absent": ({"a": 1}, {"a": 1, "b": None}, [{"op": "add", "path": "/b", "value": None}]),
    "absent is not null": ({"a": 1, "b": None}, {"a": 1}, [{"op": "remove", "path": "/b"}]),
    "escapes": ({"k": 1}, {"k": 1, "a/b~c": 2}, [{"op": "add", "path": "/a~1b~0c", "value": 2}]),
    "empty key": ({"k": 1, "": 1}, {"k": 1, "": 2}, [{"op": "replace", "path": "/", "value": 2}]),
    "emptied object": ({"l": {"a": 1, "b": 2}}, {"l": {}}, [{"op": "replace", "path": "/l", "value": {}}]),
    "emptied array": ({"l": [1, 2, 3]}, {"l": []}, [{"op": "replace", "path": "/l", "value": []}]),
    "filled array": ({"l": []}, {"l": [1, 2]}, [{"op": "replace", "path": "/l", "value": [1, 2]}]),
    "first member": ({"l": {}}, {"l": {"a": 1}}, [{"op": "add", "path": "/l/a", "value": 1}]),
    "first element": ({"l": []}, {"l": [1]}, [{"op": "add", "path": "/l/0", "value": 1}]),
    "last member": ({"l": {"a": 1}}, {"l": {}}, [{"op": "remove", "path": "/l/a"}]),
    "insert first": ([1, 2, 3], [0, 1, 2, 3], [{"op": "add", "path": "/0", "value": 0}]),
    "insert in the middle": ([1, 2, 3], [1, 9, 2, 3], [{"op": "add", "path": "/1", "value": 9}]),
    "append": ([1, 2, 3], [1, 2, 3, 4], [{"op": "add", "path": "/3", "value": 4}]),
    "remove in the middle": ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
    "remove two": ([1, 2, 3, 4], [1, 4], [{"op": "remove", "path": "/1"}, {"op": "remove", "path": "/1"}]),
    "replace in the middle": ([1, 2, 3], [1, 7, 3], [{"op": "replace", "path": "/1", "value": 7}]),
    "one of equals": ([5, 5, 5], [5, 5], [{"op": "remove", "path": "/2"}]),
    "edit of one field": (
        [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}],
        [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}],
        [{"op": "replace", "path": "/1/image", "value": "y"}],
    ),
    "edits of all elements": (
        [{"name": "a"}, {"name": "b"}],
        [{"name": "a", "tty": True}, {"name": "b", "tty": True}],
        [{"op": "add", "path": "/0/tty", "value": True}, {"op": "add", "path": "/1/tty", "value": True}],
    ),
    "element added beside an edited one": (
        [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}],
        [{"name": "s", "image": "x"}, {"name": "a", "image": "y"}, {"name": "b", "image": "x"}],
        [
            {"op": "add", "path": "/0", "value": {"name": "s", "image": "x"}},
            {"op": "replace", "path": "/1/image", "value": "y"},
        ],
    ),
    "element removed beside an edited one": (
        [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}, {"name": "c", "image": "x"}],
        [{"name": "b", "image": "y"}, {"name": "c", "image": "y"}],
        [
            {"op": "remove", "path": "/0"},
            {"op": "replace", "path": "/0/image", "value": "y"},
            {"op": "replace", "path": "/1/image", "value": "y"},
        ],
    ),
    "another element in its place": (
        [{"name": "a", "image": "x", "tty": True}],
        [{"name": "b", "image": "y"}],
        [{"op": "replace", "path": "/0", "value": {"name": "b", "image": "y"}}],
    ),
    "element without a name": (
        [{"port": 1}, {"port": 2, "kind": "tcp"}],
        [{"port": 1}, {"port": 3, "kind": "tcp"}],
        [{"op": "replace", "path": "/1/port", "value": 3}],
    ),
    "arrays in an array": ([[1, 2], [3]], [[1, 2], [3, 4]], [{"op": "add", "path": "/1/1", "value": 4}]),
    "middle of a long array": (
        list(range(5000)),
        [*range(2500), "new", *range(2500, 5000)],
        [{"op": "add", "path": "/2500", "value": "new"}],
    ),
}


@pytest.mark.parametrize("name", MINIMAL)
def test_diff_is_minimal(name):
    before, after, operations = MINIMAL[name]
    assert exact(diff(before, after)) == exact(operations)
    assert exact(apply(before, operations)) == exact(after)


def test_a_large_object_with_one_label_more():
    before = {
        "metadata": {"labels": {f"l{number}": "v" for number in range(50)}},
        "spec": [{"name": "a"}] * 90,
    }
    after = orjson.loads(orjson.dumps(before))
    after["metadata"]["labels"]["team/owner"] = "x"
    assert diff(before, after) == [{"op": "add", "path": "/metadata/labels/team~1owner", "value": "x"}]

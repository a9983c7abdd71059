import copy
import itertools

import jsonpatch
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webhooks.errors import PatchError
from webhooks.objects import json_patch
from webhooks.objects.json_patch import apply, diff, pointer

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0**70]),
    st.sampled_from([2**64, -(2**80)]),
    st.sampled_from(["", "a", "é", "1"]),
)
KEYS = st.sampled_from(["a", "b", "name", "", "/", "~", "~1", "0", "-", "é"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
ELEMENTS = st.one_of(
    st.integers(0, 3),
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"image": st.sampled_from("xy")}),
    st.fixed_dictionaries({"port": st.integers(0, 2)}),
)
ARRAYS = st.lists(ELEMENTS, max_size=8)


def exact(tree):
    """A spelling in which only the same trees are the same: True is not 1 and 1 is not 1.0."""
    if isinstance(tree, dict):
        return {key: exact(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [exact(value) for value in tree]
    return type(tree).__name__, repr(tree)


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
def test_diff_follows_edits(pair):
    check_round_trip(*pair)


@given(ARRAYS, ARRAYS)
@settings(max_examples=200, deadline=None)
def test_diff_aligns_arrays(before, after):
    check_round_trip({"items": before}, {"items": after})


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
@settings(max_examples=100, deadline=None)
def test_arrays_of_scalars_take_the_fewest_operations(before, after):
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
def test_diff_without_alignment_is_still_right(before, after):
    limit, json_patch._MAX_CELLS = json_patch._MAX_CELLS, 0
    try:
        check_round_trip(before, after)
    finally:
        json_patch._MAX_CELLS = limit


@given(TREES)
@settings(max_examples=60, deadline=None)
def test_the_same_tree_needs_nothing(tree):
    assert diff(tree, tree) == []
    assert diff(tree, copy.deepcopy(tree)) == []


def nested(levels, leaf):
    for level in range(levels):
        leaf = {"a": leaf} if level % 2 else [leaf]
    return leaf


@pytest.mark.parametrize("levels", [5, 20, 60, 198])
def test_diff_reaches_deep(levels):
    before, after = {"x": True, "y": {}, "z": []}, {"x": 1, "y": {}, "z": []}
    operations = diff(nested(levels, before), nested(levels, after))
    assert len(operations) == 1
    assert operations[0]["value"] == 1


@pytest.mark.parametrize("levels", [200, 320, 3000])
def test_diff_refuses_what_is_too_deep(levels):
    with pytest.raises(PatchError, match="deep"):
        diff(nested(levels, {"x": 1}), nested(levels, {"x": 2}))


def test_shared_subtrees_are_never_looked_at():
    shared = nested(3000, {})
    assert diff({"a": shared, "b": 1}, {"a": shared, "b": 2}) == [{"op": "replace", "path": "/b", "value": 2}]


def test_more_operations_than_apply_takes_become_one():
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


@pytest.mark.parametrize(
    ("tokens", "text"),
    [((), ""), (("",), "/"), (("a", 0, "b"), "/a/0/b"), (("a/b", "m~n", "~1"), "/a~1b/m~0n/~01")],
)
def test_pointer(tokens, text):
    assert pointer(*tokens) == text
    tree = leaf = {}
    for token in tokens:
        leaf[str(token)] = leaf = {}
    assert apply(tree, [{"op": "test", "path": text, "value": {}}]) is tree


def add(path, value):
    return {"op": "add", "path": path, "value": value}


# The cases that RFC 6902 shows in its appendix A, with contents of our own.
APPENDIX = {
    "A.1 add a member": ({"x": 1}, [add("/y", 2)], {"x": 1, "y": 2}),
    "A.2 add an element": ({"x": [1, 3]}, [add("/x/1", 2)], {"x": [1, 2, 3]}),
    "A.3 remove a member": ({"x": 1, "y": 2}, [{"op": "remove", "path": "/y"}], {"x": 1}),
    "A.4 remove an element": ({"x": [1, 2, 3]}, [{"op": "remove", "path": "/x/1"}], {"x": [1, 3]}),
    "A.5 replace": ({"x": 1, "y": 2}, [{"op": "replace", "path": "/x", "value": 3}], {"x": 3, "y": 2}),
    "A.6 move a member": (
        {"x": {"p": 1, "q": 2}, "y": {"r": 3}},
        [{"op": "move", "from": "/x/q", "path": "/y/s"}],
        {"x": {"p": 1}, "y": {"r": 3, "s": 2}},
    ),
    "A.7 move an element": (
        {"x": [1, 2, 3, 4]},
        [{"op": "move", "from": "/x/1", "path": "/x/3"}],
        {"x": [1, 3, 4, 2]},
    ),
    "A.8 test": (
        {"x": "y", "z": ["a", 2, "c"]},
        [{"op": "test", "path": "/x", "value": "y"}, {"op": "test", "path": "/z/1", "value": 2}],
        {"x": "y", "z": ["a", 2, "c"]},
    ),
    "A.9 test fails": ({"x": "y"}, [{"op": "test", "path": "/x", "value": "z"}], PatchError),
    "A.10 add a nested object": ({"x": 1}, [add("/y", {"z": {}})], {"x": 1, "y": {"z": {}}}),
    "A.11 unknown members": ({"x": 1}, [{**add("/y", 2), "why": 3}], {"x": 1, "y": 2}),
    "A.12 nowhere to add": ({"x": 1}, [add("/y/z", 2)], PatchError),
    "A.14 escapes": ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    "A.15 text is no number": ({"~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}], PatchError),
    "A.16 add an array": ({"x": [1]}, [add("/x/-", [2, 3])], {"x": [1, [2, 3]]}),
    "add over a member": ({"x": 1}, [add("/x", None)], {"x": None}),
    "add the whole": ({"x": 1}, [add("", [1])], [1]),
    "replace the whole": ({"x": 1}, [{"op": "replace", "path": "", "value": 0}], 0),
    "add after the last": ([1], [add("/1", 2)], [1, 2]),
    "a member named -": ({"-": 1}, [{"op": "remove", "path": "/-"}], {}),
    "a member named 00": ({"00": 1}, [{"op": "replace", "path": "/00", "value": 2}], {"00": 2}),
    "an empty name": ({"": {"": 1}}, [{"op": "remove", "path": "//"}], {"": {}}),
    "move to the whole": ({"x": {"y": 1}}, [{"op": "move", "from": "/x", "path": ""}], {"y": 1}),
    "move to itself": ({"x": 1}, [{"op": "move", "from": "/x", "path": "/x"}], {"x": 1}),
    "move to a like name": ({"x": 1}, [{"op": "move", "from": "/x", "path": "/xy"}], {"xy": 1}),
    "copy into itself": ({"x": {}}, [{"op": "copy", "from": "/x", "path": "/x/z"}], {"x": {"z": {}}}),
    "copy the whole": ({"x": 1}, [{"op": "copy", "from": "", "path": "/y"}], {"x": 1, "y": {"x": 1}}),
    "copies are apart": (
        {"x": {"y": []}},
        [add("/x/y/-", 0), {"op": "copy", "from": "/x", "path": "/z"}, add("/x/y/-", 1), add("/z/y/-", 2)],
        {"x": {"y": [0, 1]}, "z": {"y": [0, 2]}},
    ),
    "copies of copies are apart": (
        {"x": {"y": {}}},
        [
            add("/x/y/a", 1),
            {"op": "copy", "from": "/x/y", "path": "/p"},
            {"op": "copy", "from": "/x", "path": "/q"},
            add("/p/b", 2),
            add("/q/y/c", 3),
            {"op": "move", "from": "/q", "path": "/r"},
            add("/r/y/d", 4),
        ],
        {"x": {"y": {"a": 1}}, "p": {"a": 1, "b": 2}, "r": {"y": {"a": 1, "c": 3, "d": 4}}},
    ),
    "test numbers by value": ([1, 2.0], [{"op": "test", "path": "", "value": [1.0, 2]}], [1, 2.0]),
    "test ignores order": (
        {"x": 1, "y": 2},
        [{"op": "test", "path": "", "value": {"y": 2, "x": 1}}],
        {"x": 1, "y": 2},
    ),
    "test null": ({"x": None}, [{"op": "test", "path": "/x", "value": None}], {"x": None}),
    "true is no number": ({"x": [True]}, [{"op": "test", "path": "/x", "value": [1]}], PatchError),
    "zero is not false": ({"x": 0}, [{"op": "test", "path": "/x", "value": False}], PatchError),
    "test of more members": ({"x": 1}, [{"op": "test", "path": "", "value": {"x": 1, "y": 1}}], PatchError),
    "test of fewer elements": ([1, 2], [{"op": "test", "path": "", "value": [1]}], PatchError),
    "test of an object for an array": ([], [{"op": "test", "path": "", "value": {}}], PatchError),
    "test what is absent": ({}, [{"op": "test", "path": "/x", "value": None}], PatchError),
    "remove what is absent": ({}, [{"op": "remove", "path": "/x"}], PatchError),
    "replace what is absent": ({}, [{"op": "replace", "path": "/x", "value": 1}], PatchError),
    "remove the whole": ({}, [{"op": "remove", "path": ""}], PatchError),
    "move the whole": ({}, [{"op": "move", "from": "", "path": "/x"}], PatchError),
    "move into itself": ({"x": {"y": {}}}, [{"op": "move", "from": "/x", "path": "/x/y/z"}], PatchError),
    "move what is absent to itself": ({}, [{"op": "move", "from": "/x", "path": "/x"}], PatchError),
    "copy what is absent": ({}, [{"op": "copy", "from": "/x", "path": "/y"}], PatchError),
    "index too high to add": ([1], [add("/2", 0)], PatchError),
    "index too high to replace": ([1], [{"op": "replace", "path": "/1", "value": 0}], PatchError),
    "remove after the last": ([1], [{"op": "remove", "path": "/-"}], PatchError),
    "copy from after the last": ([1], [{"op": "copy", "from": "/-", "path": "/0"}], PatchError),
    "leading zero": ([1, 2], [{"op": "remove", "path": "/01"}], PatchError),
    "negative index": ([1, 2], [{"op": "remove", "path": "/-1"}], PatchError),
    "signed index": ([1, 2], [add("/+1", 0)], PatchError),
    "fractional index": ([1, 2], [add("/1e0", 0)], PatchError),
    "foreign digit": ([1, 2], [add("/\u0661", 0)], PatchError),
    "index with a line end": ([1, 2], [add("/1\n", 0)], PatchError),
    "endless index": ([1], [add("/" + "9" * 5000, 0)], PatchError),
    "within a scalar": ({"x": "abc"}, [{"op": "test", "path": "/x/0", "value": "a"}], PatchError),
    "put into a scalar": ({"x": "abc"}, [add("/x/0", "a")], PatchError),
    "remove from null": ({"x": None}, [{"op": "remove", "path": "/x/y"}], PatchError),
}


@pytest.mark.parametrize("name", APPENDIX)
def test_apply(name):
    document, operations, expected = APPENDIX[name]
    kept = copy.deepcopy((document, operations))
    if expected is PatchError:
        with pytest.raises(PatchError, match=r"^operation 0 \("):
            apply(document, operations)
    else:
        assert exact(apply(document, operations)) == exact(expected)
    assert exact(kept) == exact((document, operations))


@pytest.mark.parametrize(
    "operation",
    [
        None,
        "add",
        ["add", "/x", 1],
        {},
        {"op": "frobnicate", "path": "/x"},
        {"op": "ADD", "path": "/x", "value": 1},
        {"op": ["add"], "path": "/x", "value": 1},
        {"op": None, "path": "/x"},
        {"op": "add", "value": 1},
        {"op": "add", "path": "/x"},
        {"op": "add", "path": None, "value": 1},
        {"op": "add", "path": ["x"], "value": 1},
        {"op": "add", "path": "x", "value": 1},
        {"op": "add", "path": " /x", "value": 1},
        {"op": "add", "path": "/x~2", "value": 1},
        {"op": "add", "path": "/x~", "value": 1},
        {"op": "replace", "path": ""},
        {"op": "test", "path": ""},
        {"op": "move", "path": "/x"},
        {"op": "copy", "path": "/x", "from": 1},
        {"op": "copy", "from": "/x"},
    ],
)
def test_malformed_operations_are_refused(operation):
    with pytest.raises(PatchError, match=r"^operation 1\b"):
        apply({"x": 1}, [{"op": "test", "path": "/x", "value": 1}, operation])


@pytest.mark.parametrize("operations", [None, {}, "[]", 3])
def test_a_patch_is_an_array(operations):
    with pytest.raises(PatchError):
        apply({}, operations)


def test_the_message_names_the_operation():
    with pytest.raises(PatchError) as caught:
        apply({}, [add("/a", 1), {"op": "remove", "path": "/b/c"}])
    assert str(caught.value) == "operation 1 ('remove' '/b/c'): nothing named 'b'"


def test_messages_stay_short():
    with pytest.raises(PatchError) as caught:
        apply({}, [{"op": "remove", "path": "/" + "x" * 100_000}])
    assert len(str(caught.value)) < 600


def test_the_number_of_operations_is_limited():
    assert apply([], [add("/-", 0)] * 10_000) == [0] * 10_000
    with pytest.raises(PatchError, match="10001"):
        apply([], [add("/-", 0)] * 10_001)


def test_what_copy_multiplies_is_limited():
    double = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(40)]
    with pytest.raises(PatchError, match="bytes copied"):
        apply({"text": "x" * 100}, double)
    once = {"op": "copy", "from": "/text", "path": "/more"}
    assert apply({"text": "x" * 1_000_000}, [once] * 3)["more"]
    with pytest.raises(PatchError, match="operation 3 "):
        apply({"text": "x" * 1_000_000}, [once] * 4)


def test_big_integers_may_be_copied():
    assert apply({"a": [2**70]}, [{"op": "copy", "from": "/a", "path": "/b"}])["b"] == [2**70]


def within(value):
    return [add("", {}), add("/a", value)]


@pytest.mark.parametrize(
    ("document", "operations"),
    [
        ({}, within(nested(5000, 1))),
        ({}, within(nested(200, 1))),
        ({}, [{"op": "test", "path": "", "value": nested(5000, 1)}]),
        ({}, [{"op": "replace", "path": "", "value": nested(201, 1)}]),
        ({}, [add("/a" * number, {}) for number in range(1, 1000)]),
        ({"a": nested(5000, 1)}, [{"op": "copy", "from": "/a", "path": "/b"}]),
    ],
)
def test_nesting_is_limited(document, operations):
    with pytest.raises(PatchError, match="deep"):
        apply(document, operations)


def test_moves_cannot_nest_without_end():
    chain = nested(0, {})
    for _ in range(120):
        chain = {"a": chain}
    document = {"x": chain, "y": copy.deepcopy(chain)}
    with pytest.raises(PatchError, match="deep"):
        apply(document, [{"op": "move", "from": "/x", "path": "/y" + "/a" * 120 + "/b"}])
    assert apply(document, [{"op": "move", "from": "/x", "path": "/y" + "/a" * 70 + "/b"}])


def test_deep_values_within_the_limit_apply():
    deep = nested(199, 1)
    assert apply({"b": 1}, [add("/a", deep)])["a"] is deep
    assert apply(deep, [{"op": "test", "path": "", "value": copy.deepcopy(deep)}]) is deep


def test_apply_copies_only_the_touched_path():
    document = {"a": {"b": [1]}, "c": {"d": []}, "e": {}}
    result = apply(document, [add("/a/x", 1), {"op": "move", "from": "/e", "path": "/f"}])
    assert result["a"]["b"] is document["a"]["b"]
    assert result["c"] is document["c"]
    assert result["f"] is document["e"]
    assert "x" not in document["a"]


def test_values_of_operations_stay_as_they_are():
    value = {"b": []}
    operations = [add("/a", value), add("/a/b/-", 1), add("/a/c", 2), add("/z", value), add("/z/b/-", 3)]
    assert apply({}, operations) == {"a": {"b": [1], "c": 2}, "z": {"b": [3]}}
    assert value == {"b": []}


def paths(tree, above=()):
    yield above
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in members:
        yield from paths(value, (*above, key))


@st.composite
def patches(draw):
    document = draw(TREES)
    work, operations = document, []
    for _ in range(draw(st.integers(1, 6))):
        places = [pointer(*tokens) for tokens in itertools.islice(paths(work), 40)]
        place = st.sampled_from(places) | st.builds("{}/{}".format, st.sampled_from(places), st.sampled_from("ab01-"))
        operation = {"op": draw(st.sampled_from(sorted(json_patch._METHODS))), "path": draw(place)}
        operation["from"] = draw(place)
        operation["value"] = draw(TREES)
        operations.append(operation)
        try:
            work = apply(work, [operation])
        except PatchError:
            break
    return document, operations


@given(patches())
@settings(max_examples=250, deadline=None)
def test_apply_agrees_with_jsonpatch(case):
    document, operations = case
    kept = exact(document), exact(operations)
    try:
        ours = apply(document, operations)
    except PatchError:
        ours = None
    else:
        assert exact(ours) == exact(jsonpatch.apply_patch(document, copy.deepcopy(operations)))
    # One at a time, nothing is owned from the operation before: sharing must make no difference.
    work = document
    try:
        for operation in operations:
            work = apply(work, [operation])
    except PatchError:
        assert ours is None
    else:
        assert exact(ours) == exact(work)
    assert (exact(document), exact(operations)) == kept


@given(TREES, st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), TREES), max_size=3))
@settings(max_examples=60, deadline=None)
def test_nonsense_is_refused_and_no_other_error_leaks(document, operations):
    try:
        assert apply(document, operations) is document
    except PatchError:
        assert operations


def test_a_large_object_with_one_label_more():
    before = {
        "metadata": {"labels": {f"l{number}": "v" for number in range(50)}},
        "spec": [{"name": "a"}] * 90,
    }
    after = orjson.loads(orjson.dumps(before))
    after["metadata"]["labels"]["team/owner"] = "x"
    assert diff(before, after) == [add("/metadata/labels/team~1owner", "x")]

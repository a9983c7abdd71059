import copy
import itertools

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.errors import PatchError
from webhooks.objects import json_patch
from webhooks.objects.json_patch import apply
from webhooks.objects.json_pointer import pointer

from ..support.json_trees import TREES, exact, nested


def add(path, value):
    return {"op": "add", "path": path, "value": value}


# The cases of appendix A of RFC 6902, with other contents.
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
def test_malformed_operations_are_rejected(operation):
    with pytest.raises(PatchError, match=r"^operation 1\b"):
        apply({"x": 1}, [{"op": "test", "path": "/x", "value": 1}, operation])


@pytest.mark.parametrize("operations", [None, {}, "[]", 3])
def test_a_patch_must_be_an_array(operations):
    with pytest.raises(PatchError):
        apply({}, operations)


def test_the_message_names_the_operation():
    with pytest.raises(PatchError) as caught:
        apply({}, [add("/a", 1), {"op": "remove", "path": "/b/c"}])
    assert str(caught.value) == "operation 1 ('remove' '/b/c'): no member 'b'"


def test_messages_stay_short():
    with pytest.raises(PatchError) as caught:
        apply({}, [{"op": "remove", "path": "/" + "x" * 100_000}])
    assert len(str(caught.value)) < 600


def test_the_number_of_operations_is_limited():
    assert apply([], [add("/-", 0)] * 10_000) == [0] * 10_000
    with pytest.raises(PatchError, match="10001"):
        apply([], [add("/-", 0)] * 10_001)


def test_copied_bytes_are_limited():
    double = [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(40)]
    with pytest.raises(PatchError, match="bytes copied"):
        apply({"text": "x" * 100}, double)
    once = {"op": "copy", "from": "/text", "path": "/more"}
    assert apply({"text": "x" * 1_000_000}, [once] * 3)["more"]
    with pytest.raises(PatchError, match="operation 3 "):
        apply({"text": "x" * 1_000_000}, [once] * 4)


def test_big_integers_can_be_copied():
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


def test_moves_cannot_exceed_the_depth():
    chain = nested(0, {})
    for _ in range(120):
        chain = {"a": chain}
    document = {"x": chain, "y": copy.deepcopy(chain)}
    with pytest.raises(PatchError, match="deep"):
        apply(document, [{"op": "move", "from": "/x", "path": "/y" + "/a" * 120 + "/b"}])
    assert apply(document, [{"op": "move", "from": "/x", "path": "/y" + "/a" * 70 + "/b"}])


def test_deep_values_within_the_limit_are_accepted():
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


def test_values_of_operations_are_not_changed():
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
    # Applied one at a time, no container is owned from a previous operation: the result must be the same.
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
def test_random_operations_raise_no_other_error(document, operations):
    try:
        assert apply(document, operations) is document
    except PatchError:
        assert operations

import copy
import enum
import heapq
import itertools
import json
import operator
import pickle
import random
import types
from collections import OrderedDict, defaultdict

import jsonpatch
import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.objects.copy_on_write import CowDict, CowList, copy_on_write, materialize
from webhooks.objects.json_diff import diff

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, 1.5]) | st.text(max_size=2)
KEYS = st.sampled_from(["a", "b", "c", "d", "/"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


def text(tree):
    return orjson.dumps(tree)


def is_plain(tree):
    if isinstance(tree, dict):
        return type(tree) is dict and all(type(key) is str and is_plain(value) for key, value in tree.items())
    if isinstance(tree, list):
        return type(tree) is list and all(map(is_plain, tree))
    return tree is None or type(tree) in (str, int, float, bool)


def pod():
    return {
        "metadata": {"labels": {"app": "shop"}, "annotations": {}},
        "spec": {
            "containers": [
                {"name": "a", "image": "x", "env": [{"name": "e", "value": "1"}]},
                {"name": "b", "image": "y", "ports": [{"containerPort": 80}]},
            ],
            "matrix": [[3], [1], [2]],
            "volumes": [{"name": "v"}],
        },
    }


def spoil(value):
    """Change a container on all levels, so that a container that is shared by mistake is noticed."""
    if isinstance(value, dict):
        for inner in list(value.values()):
            spoil(inner)
        value["spoilt"] = True
    elif isinstance(value, (list, tuple)):
        for inner in value:
            spoil(inner)
        if isinstance(value, list):
            value.append("spoilt")
    return value


def attempt(action):
    try:
        return action()
    except (KeyError, IndexError, TypeError, ValueError) as error:
        return type(error).__name__


def read_pattern(value):
    match value:
        case {"a": inner, **rest}:
            return spoil([inner, rest])
        case [first, *others]:
            return spoil([first, others])
    return None


def keyword(**named):
    return named


def extend_in_place(value, start):
    same = start
    start += value
    return same


def update_in_place(value, start):
    same = start
    start |= value
    return same


# Operations on dicts and lists. Each takes the container, a key or index that may not exist, and a value of the policy,
# and returns the value that was read.
DICT_READS = {
    "item": lambda d, k, v: d[k],
    "get": lambda d, k, v: d.get(k),
    "get default": lambda d, k, v: d.get(k, v),
    "setdefault": lambda d, k, v: d.setdefault(k, v),
    "pop": lambda d, k, v: d.pop(k),
    "pop default": lambda d, k, v: d.pop(k, v),
    "popitem": lambda d, k, v: d.popitem(),
    "values": lambda d, k, v: list(d.values()),
    "items": lambda d, k, v: [inner for _, inner in d.items()],
    "reversed items": lambda d, k, v: [inner for _, inner in reversed(d.items())],
    "view mapping": lambda d, k, v: d.keys().mapping[k],
    "view mapping copy": lambda d, k, v: d.values().mapping.copy(),
    "copy": lambda d, k, v: d.copy(),
    "copy.copy": lambda d, k, v: copy.copy(d),
    "deepcopy": lambda d, k, v: copy.deepcopy(d),
    "pickle": lambda d, k, v: pickle.loads(pickle.dumps(d)),
    "dict": lambda d, k, v: dict(d),
    "dict with": lambda d, k, v: dict(d, extra=v),
    "unpacked": lambda d, k, v: {**d},
    "keywords": lambda d, k, v: keyword(**d),
    "or": lambda d, k, v: d | {k: v},
    "or a draft": lambda d, k, v: d | d,
    "ror": lambda d, k, v: {"z": v} | d,
    "ior": lambda d, k, v: update_in_place(d, {"z": v}),
    "update": lambda d, k, v: (lambda plain: plain.update(d) or plain)({}),
    "comprehension": lambda d, k, v: {key: d[key] for key in d},
    "type": lambda d, k, v: type(d)(d),
    "type of pairs": lambda d, k, v: type(d)((key, inner) for key, inner in d.items()),
    "itemgetter": lambda d, k, v: operator.itemgetter(k)(d),
    "namespace": lambda d, k, v: vars(types.SimpleNamespace(**d)),
    "ordered": lambda d, k, v: OrderedDict(d),
    "filled in": lambda d, k, v: (lambda plain: plain.update(d) or plain)(defaultdict(list)),
    "pattern": lambda d, k, v: read_pattern(d),
}
DICT_WRITES = {
    "set": lambda d, k, v: operator.setitem(d, k, v),
    "delete": lambda d, k, v: operator.delitem(d, k),
    "update self": lambda d, k, v: d.update({k: v}),
    "ior self": lambda d, k, v: operator.ior(d, {k: v}) is d,
    "clear": lambda d, k, v: d.clear(),
    "rename": lambda d, k, v: operator.setitem(d, "moved", d.pop(k)),
    "twice": lambda d, k, v: operator.setitem(d, "again", [d[k]]),
    "wrapped": lambda d, k, v: operator.setitem(d, "own", {"inside": [dict(d.items()), v]}),
    "contains": lambda d, k, v: (k in d, len(d), bool(d), list(d), list(reversed(d)), v in d.values()),
    "fromkeys": lambda d, k, v: d.fromkeys([k], 1),
}
LIST_READS = {
    "item": lambda x, i, v: x[i],
    "slice": lambda x, i, v: x[i:],
    "step": lambda x, i, v: x[::-1],
    "iterate": lambda x, i, v: [inner for inner in x if inner is not None],
    "reversed": lambda x, i, v: list(reversed(x)),
    "pop": lambda x, i, v: x.pop(),
    "pop at": lambda x, i, v: x.pop(i),
    "copy": lambda x, i, v: x.copy(),
    "copy.copy": lambda x, i, v: copy.copy(x),
    "deepcopy": lambda x, i, v: copy.deepcopy(x),
    "pickle": lambda x, i, v: pickle.loads(pickle.dumps(x)),
    "list": lambda x, i, v: list(x),
    "tuple": lambda x, i, v: tuple(x),
    "type": lambda x, i, v: type(x)(x),
    "starred": lambda x, i, v: [*x, v],
    "add": lambda x, i, v: operator.add(x, [v]),
    "radd": lambda x, i, v: operator.add([v], x),
    "iadd": lambda x, i, v: extend_in_place(x, [v]),
    "mul": lambda x, i, v: x * 2,
    "rmul": lambda x, i, v: 2 * x,
    "enumerate": lambda x, i, v: [inner for _, inner in enumerate(x)],
    "zip": lambda x, i, v: [inner for inner, _ in zip(x, x, strict=True)],
    "map": lambda x, i, v: list(map(spoil, x)),
    "filter": lambda x, i, v: list(filter(None, x)),
    "chain": lambda x, i, v: list(itertools.chain(x)),
    "sorted": lambda x, i, v: sorted(x, key=str),
    "min": lambda x, i, v: min(x, key=str),
    "max": lambda x, i, v: max(x, key=str),
    "choice": lambda x, i, v: random.Random(1).choice(x),
    "slice assigned": lambda x, i, v: (lambda plain: operator.setitem(plain, slice(0, 1), x) or plain)([v]),
    "heappop": lambda x, i, v: heapq.heappop(x),
    "pattern": lambda x, i, v: read_pattern(x),
}
LIST_WRITES = {
    "set": lambda x, i, v: operator.setitem(x, i, v),
    "set slice": lambda x, i, v: operator.setitem(x, slice(i, None), [v, v]),
    "delete": lambda x, i, v: operator.delitem(x, i),
    "delete slice": lambda x, i, v: operator.delitem(x, slice(0, i)),
    "insert": lambda x, i, v: x.insert(i, v),
    "append": lambda x, i, v: x.append(v),
    "extend": lambda x, i, v: x.extend([v]),
    "extend by itself": lambda x, i, v: x.extend(copy.deepcopy(x)),
    "remove": lambda x, i, v: x.remove(v),
    "reverse": lambda x, i, v: x.reverse(),
    "clear": lambda x, i, v: x.clear(),
    "imul": lambda x, i, v: operator.imul(x, 2) is x,
    "iadd self": lambda x, i, v: operator.iadd(x, [v]) is x,
    "sort": lambda x, i, v: x.sort(key=str),
    "sort that changes": lambda x, i, v: x.sort(key=lambda inner: str(spoil(inner))),
    "shuffle": lambda x, i, v: random.Random(1).shuffle(x),
    "contains": lambda x, i, v: (v in x, len(x), bool(x), x.count(v)),
    "index": lambda x, i, v: x.index(v),
}
READS = {dict: DICT_READS, list: LIST_READS}
WRITES = {dict: DICT_WRITES, list: LIST_WRITES}


@st.composite
def steps(draw):
    """Draw operations: the path of a container, the number of an operation, and its arguments."""
    return [
        (
            draw(st.lists(st.integers(0, 4), max_size=4)),
            draw(st.integers(0, 999)),
            draw(KEYS),
            draw(st.integers(-2, 4)),
            draw(TREES),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 7)))
    ]


def container(tree, turns):
    for turn in turns:
        keys = tree if isinstance(tree, dict) else range(len(tree))
        inner = [key for key in keys if isinstance(tree[key], (dict, list))]
        if not inner:
            break
        tree = tree[inner[turn % len(inner)]]
    return tree


def perform(tree, step, value):
    turns, number, key, index, _, change = step
    target = container(tree, turns)
    kind = dict if isinstance(target, dict) else list
    known = {**READS[kind], **{f"write {name}": action for name, action in WRITES[kind].items()}}
    name = sorted(known)[number % len(known)]
    seen = attempt(lambda: known[name](target, key if kind is dict else index, value))
    return spoil(seen) if change and not name.startswith("write") else seen


def spelled(value):
    return text(value) if is_json(value) else repr(value)


def is_json(value):
    return isinstance(value, (dict, list, str, int, float, type(None)))


@given(st.dictionaries(KEYS, TREES, max_size=5) | st.lists(TREES, max_size=4), steps())
@settings(max_examples=300, deadline=None)
def test_a_copy_behaves_like_a_deep_copy(tree, program):
    before, twin = text(tree), copy.deepcopy(tree)
    shared = copy.deepcopy(tree)
    work = copy_on_write(shared)
    for step in program:
        value = step[4]
        left = perform(work, step, copy.deepcopy(value))
        right = perform(twin, step, copy.deepcopy(value))
        assert spelled(left) == spelled(right)
        assert text(work) == text(twin)
        assert work == twin
        assert text(shared) == before
    result = materialize(work)
    assert result == twin
    assert orjson.dumps(result, option=orjson.OPT_SORT_KEYS) == orjson.dumps(twin, option=orjson.OPT_SORT_KEYS)
    assert is_plain(result)
    assert (diff(shared, result) == []) == (
        orjson.dumps(tree, option=orjson.OPT_SORT_KEYS) == orjson.dumps(twin, option=orjson.OPT_SORT_KEYS)
    )
    spoil(work)
    assert result == twin
    assert text(shared) == before


@pytest.mark.parametrize("name", DICT_READS)
@pytest.mark.parametrize("key", ["a", "b", "missing"])
def test_every_read_of_a_dict_returns_private_containers(name, key):
    tree = {"b": [{"x": []}], "a": {"y": {"z": 1}}}
    before, twin = text(tree), copy.deepcopy(tree)
    work = copy_on_write(tree)
    left = attempt(lambda: spoil(DICT_READS[name](work, key, {"own": 1})))
    right = attempt(lambda: spoil(DICT_READS[name](twin, key, {"own": 1})))
    assert left == right
    assert text(tree) == before
    assert text(work) == text(twin)
    assert materialize(work) == twin


@pytest.mark.parametrize("name", LIST_READS)
def test_every_read_of_a_list_returns_private_containers(name):
    tree = {"list": [[3, {}], [1, {}], [2, {}]]}
    before, twin = text(tree), copy.deepcopy(tree)
    work = copy_on_write(tree)
    left = attempt(lambda: spoil(LIST_READS[name](work["list"], 1, [0])))
    right = attempt(lambda: spoil(LIST_READS[name](twin["list"], 1, [0])))
    assert left == right
    assert text(tree) == before
    assert text(work) == text(twin)
    assert materialize(work) == twin


def test_methods_that_copy_return_plain_types():
    work = copy_on_write(pod())
    assert type(work.copy()) is type(dict(work)) is type(work | {}) is type({} | work) is type(type(work)()) is dict
    row = work["spec"]["matrix"]
    made = [row.copy(), row[:], operator.add(row, []), operator.add([], row), row * 1, type(row)()]
    assert {type(one) for one in made} == {list}
    assert type(pickle.loads(pickle.dumps(work))) is dict
    assert is_plain(pickle.loads(pickle.dumps(work)))
    assert is_plain(copy.deepcopy(work))


def test_two_reads_return_the_same_wrapper():
    work = copy_on_write(pod())
    labels = work["metadata"]["labels"]
    assert isinstance(labels, CowDict)
    assert labels is work["metadata"].get("labels") is dict(work["metadata"])["labels"]
    assert labels is next(iter(work["metadata"].values()))
    work["spec"]["containers"][0]["tty"] = True
    assert isinstance(work["spec"]["containers"], CowList)
    assert next(iter(work["spec"]["containers"]))["tty"]


def test_parts_that_were_not_read_are_shared():
    tree = pod()
    work = copy_on_write(tree)
    work["metadata"]["labels"]["x"] = "y"
    result = materialize(work)
    assert is_plain(result)
    assert result["spec"] is tree["spec"]
    assert result["metadata"]["annotations"] is tree["metadata"]["annotations"]
    assert diff(tree, result) == [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]


def test_neighbours_of_an_edited_element_are_shared():
    tree = pod()
    work = copy_on_write(tree)
    work["spec"]["containers"].insert(0, {"name": "s"})
    work["spec"]["containers"][1]["image"] = "z"
    result = materialize(work)
    assert result["spec"]["containers"][2] is tree["spec"]["containers"][1]
    assert result["spec"]["containers"][1]["env"] is tree["spec"]["containers"][0]["env"]
    assert result["spec"]["volumes"] is tree["spec"]["volumes"]
    assert [operation["op"] for operation in diff(tree, result)] == ["add", "replace"]


def test_parts_that_were_only_read_become_the_base():
    tree = pod()
    work = copy_on_write(tree)
    json.dumps(work)
    assert materialize(work) is tree
    assert materialize(work["spec"]["containers"]) is tree["spec"]["containers"]


def test_parts_that_were_changed_back_become_the_base():
    tree = pod()
    work = copy_on_write(tree)
    work["metadata"]["labels"]["app"] = "".join(["sh", "op"])
    work["spec"]["containers"].append(1)
    work["spec"]["containers"].pop()
    work["spec"] = work.pop("spec")
    assert materialize(work) is tree


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), (0, False), (None, False)])
def test_equal_is_not_always_unchanged(old, new):
    for tree in ({"a": old}, [old]):
        work = copy_on_write(tree)
        work["a" if isinstance(tree, dict) else 0] = new
        assert repr(materialize(work)) == repr(tree).replace(repr(old), repr(new))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_integers_beyond_64_bits_are_rejected(number):
    with pytest.raises(TypeError, match="int64"):
        materialize({"a": number})


@pytest.mark.parametrize("scalar", [None, True, 3, 2**63 - 1, 1.5, "text"])
def test_scalars_are_not_wrapped(scalar):
    assert copy_on_write(scalar) is scalar
    assert materialize(scalar) == scalar


def test_added_values_are_copied():
    own = {"list": [1]}
    work = copy_on_write(pod())
    work["own"] = own
    assert work["own"] is own
    result = materialize(work)
    own["list"].append(2)
    assert result["own"] == {"list": [1]}


def test_wrappers_inside_added_containers():
    tree = pod()
    work = copy_on_write(tree)
    work["all"] = {"here": [work["spec"], work["metadata"]["labels"]]}
    work["metadata"]["labels"]["x"] = "y"
    result = materialize(work)
    assert is_plain(result)
    assert result["all"]["here"][0] is tree["spec"]
    assert result["all"]["here"][1] == {"app": "shop", "x": "y"}
    assert materialize([work["metadata"]]) == [result["metadata"]]


def test_subclasses_of_json_types_become_those_types():
    class Rule(enum.StrEnum):
        ALWAYS = "Always"

    class Old(str, enum.Enum):  # noqa: UP042
        NEVER = "Never"

    class Level(enum.IntEnum):
        ONE = 1

    class Share(float):
        pass

    work = copy_on_write({})
    work |= {"a": Rule.ALWAYS, "b": Old.NEVER, "c": Level.ONE, "d": OrderedDict({Rule.ALWAYS: Share(0.5)})}
    result = materialize(work)
    assert is_plain(result)
    assert result == {"a": "Always", "b": "Never", "c": 1, "d": {"Always": 0.5}}


def cycle():
    own = {}
    own["a"] = [own]
    return own


def deep(levels):
    tree = []
    for _ in range(levels - 1):
        tree = [tree]
    return tree


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ((1, 2), "tuple"),
        ({1}, "set"),
        (b"x", "bytes"),
        (object(), "object"),
        ({1: 2}.keys(), "dict_keys"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1j, "complex"),
        ({1: 2}, "the key 1 is not a string"),
        ({None: 2}, "the key None"),
        ({("a",): 2}, "the key"),
        ("\ud800", "Unicode"),
        ({"\ud800": 1}, "Unicode"),
        (cycle(), "deep"),
        (deep(199), "deep"),
        (deep(5000), "deep"),
    ],
)
def test_other_values_are_rejected_with_their_pointer(value, reason):
    work = copy_on_write(pod())
    work["spec"]["containers"][1]["a/b"] = value
    with pytest.raises(TypeError, match=r"^at '/spec/containers/1/a~1b") as caught:
        materialize(work)
    assert reason in str(caught.value)
    with pytest.raises(TypeError):
        materialize({"spec": [work, value]})


def test_a_key_of_another_type_is_rejected():
    work = copy_on_write({"a": 1})
    work[2] = 3
    with pytest.raises(TypeError, match=r"^at '': the key 2 is not a string"):
        materialize(work)


def test_a_tree_that_contains_itself_is_rejected():
    work = copy_on_write(pod())
    work["metadata"]["self"] = work
    with pytest.raises(TypeError, match="contains itself"):
        materialize(work)
    twin = copy.deepcopy(work)
    assert twin["metadata"]["self"] is twin
    again = pickle.loads(pickle.dumps(work))
    assert again["metadata"]["self"] is again


def test_200_levels_are_accepted():
    assert materialize(deep(200)) == deep(200)
    assert materialize(copy_on_write(deep(100))) == deep(100)


def test_subtrees_that_were_not_read_are_not_traversed():
    class Untouchable(dict):
        def __getattribute__(self, name):
            raise AssertionError

    tree = {"a": {"b": 1}, "c": Untouchable(), "deep": {"d": deep(3000)}}
    work = copy_on_write(tree)
    work["a"]["b"] = 2
    assert materialize(work)["c"] is tree["c"]
    assert materialize(work)["deep"] is tree["deep"]


@pytest.mark.parametrize("reached", [False, True])
def test_encoders_see_the_current_content(reached):
    tree = pod()
    work, twin = copy_on_write(tree), copy.deepcopy(tree)
    if reached:
        list(work["spec"].values())
    for one in (work, twin):
        one["metadata"]["labels"]["x"] = None
        one["spec"]["containers"][0]["env"].append({"name": "f"})
    assert orjson.dumps(work) == orjson.dumps(twin)
    assert msgspec.json.encode(work) == msgspec.json.encode(twin)
    assert json.dumps(work) == json.dumps(twin)
    assert json.dumps(work, indent=1, sort_keys=True) == json.dumps(twin, indent=1, sort_keys=True)
    assert repr(work) == repr(twin)
    assert str(work["spec"]["containers"]) == str(twin["spec"]["containers"])


def test_comparison_with_plain_trees():
    tree = pod()
    work = copy_on_write(tree)
    assert work == tree
    assert tree == work
    assert work["spec"] != {}
    assert {"name": "v"} in work["spec"]["volumes"]
    assert work["spec"]["volumes"].index({"name": "v"}) == 0
    assert copy_on_write(tree) == work
    assert sorted(work["spec"]["matrix"]) == [[1], [2], [3]]
    assert (len(work), bool(copy_on_write({})), "spec" in work, list(work)) == (2, False, True, ["metadata", "spec"])


@pytest.mark.parametrize("in_place", [False, True])
def test_jsonpatch_can_be_applied_to_a_copy(in_place):
    operations = [
        {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        {"op": "move", "from": "/spec/containers/0", "path": "/spec/containers/1"},
        {"op": "copy", "from": "/spec/volumes", "path": "/spec/more"},
        {"op": "remove", "path": "/spec/more/0/name"},
        {"op": "replace", "path": "/spec/matrix/0/0", "value": 9},
    ]
    tree = pod()
    before, work = text(tree), copy_on_write(tree)
    result = jsonpatch.apply_patch(work, operations, in_place=in_place)
    assert materialize(result) == jsonpatch.apply_patch(pod(), operations)
    assert (materialize(work) is tree) is not in_place
    assert text(tree) == before


def test_two_copies_are_independent():
    tree = pod()
    first, second = copy_on_write(tree), copy_on_write(tree)
    first["metadata"]["labels"]["x"] = "1"
    assert "x" not in second["metadata"]["labels"]


def test_a_copy_of_a_result_does_not_change_it():
    work = copy_on_write(pod())
    work["metadata"]["labels"]["x"] = "1"
    settled = materialize(work)
    again = copy_on_write(settled)
    again["metadata"]["labels"]["x"] = "2"
    assert settled["metadata"]["labels"]["x"] == "1"
    assert materialize(again)["spec"] is settled["spec"]

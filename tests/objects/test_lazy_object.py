from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.errors import MalformedReview, PatchError
from webhooks.objects import lazy_object
from webhooks.objects.lazy_object import NULL, LazyObject
from webhooks.objects.strict_json import load
from webhooks.reviews import admission_codec
from webhooks.reviews.admission import shared_object

from ..support.builders import Json, admission_body, encode_body, pod

KEYS = st.sampled_from(["a", "b/c", "d~e", "app.kubernetes.io/name", ""])
TEXTS = st.dictionaries(KEYS, st.sampled_from(["", "x", "<y>", "é"]), max_size=3)
ANYTHING = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.just([]) | st.just({})
CONTAINERS = st.lists(
    st.fixed_dictionaries({}, optional={"name": st.text(max_size=3) | ANYTHING, "image": st.just("app:1") | ANYTHING}),
    max_size=3,
)
VOLUMES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(max_size=3) | ANYTHING,
            "emptyDir": ANYTHING,
            "image": st.fixed_dictionaries({}, optional={"reference": st.just("a:1") | ANYTHING, "other": ANYTHING})
            | ANYTHING,
        },
    )
    | ANYTHING,
    max_size=3,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=3) | ANYTHING,
        "generateName": st.text(max_size=3) | ANYTHING,
        "labels": TEXTS | ANYTHING,
        "annotations": TEXTS | ANYTHING,
        "uid": ANYTHING,
        "unknown": ANYTHING,
    },
)
PODS = st.fixed_dictionaries(
    {"kind": st.just("Pod"), "apiVersion": st.sampled_from(["v1", "example.com/v1"]), "metadata": METADATA},
    optional={
        "spec": ANYTHING
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": CONTAINERS | ANYTHING,
                "initContainers": CONTAINERS,
                "volumes": VOLUMES | ANYTHING,
                "nodeName": ANYTHING,
            },
        )
    },
)
MAPS = ["/metadata/labels", "/metadata/annotations"]
ENDS = ["", "/a", "/b~1c", "/d~0e", "/", "/-", "/none/of/it"]
PLACES = [
    *("", "/kind", "/status", "/metadata", "/metadata/name", "/metadata/uid", "/metadata/unknown/a"),
    *("/spec", "/spec/nodeName", "/spec/none", "/spec/none/of/it", "/spec/volumes/1", "/spec/containers"),
    *(f"/spec/containers/{end}" for end in ("0", "1", "-", "01", "name", "0/image", "0/other", "1/image", "-/image")),
]
VALUES = st.sampled_from(["x", "", None, 1, True, {}, {"a": "x"}, {"a": 1}, [], [{"image": "b:1"}], {"image": "app:1"}])


def operations_at(places: list[str], names: list[str]) -> st.SearchStrategy[list[Json]]:
    where = st.sampled_from(places)
    one = st.fixed_dictionaries({"op": st.sampled_from(names), "path": where, "from": where, "value": VALUES})
    return st.lists(one, min_size=1, max_size=3)


SIMPLE = ["add", "replace", "remove", "test"]
OPERATIONS = (
    operations_at([map_ + end for map_ in MAPS for end in ENDS], SIMPLE)
    | operations_at(PLACES, SIMPLE)
    | operations_at([*PLACES, *MAPS], [*SIMPLE, "move", "copy"])
)


def both(tree: Json) -> tuple[LazyObject, LazyObject]:
    """Return an object as received, and the same object decoded."""
    raw = encode_body(tree).strip()
    return LazyObject(raw, kind=tree["kind"]), LazyObject.from_tree(load(raw))


def read_all(obj: LazyObject) -> list[Any]:
    """Read everything from an object; an error counts as a result."""
    reads: list[Callable[[], Any]] = [
        lambda: obj.metadata_text("name"),
        lambda: obj.metadata_text("generateName"),
        obj.labels,
        obj.annotations,
        lambda: [(c.name, c.image, c.kind, c.pointer, c.spec) for c in obj.containers(lambda: obj.tree)],
        lambda: [(volume.name, volume.image, volume.kind, volume.pointer) for volume in obj.image_volumes()],
        lambda: obj.tree,
    ]
    return [_result(read) for read in reads]


def _result(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (MalformedReview, PatchError, ValueError) as error:
        return type(error), str(error)


@given(PODS)
def test_an_outline_and_the_decoded_object_are_equal(tree: Json) -> None:
    received, decoded = both(tree)
    assert read_all(received) == read_all(decoded)


@given(PODS, OPERATIONS)
def test_a_patch_has_the_same_effect_on_a_decoded_object(tree: Json, operations: list[Json]) -> None:
    received, decoded = both(tree)
    result, expected = (_result(lambda obj=obj: obj.apply_patch(operations)) for obj in (received, decoded))
    if isinstance(expected, LazyObject):
        assert read_all(result) == read_all(expected)
        assert (result is received) == (expected is decoded)
    else:
        assert result == expected


@given(PODS, st.permutations(["uid", "kind", "operation", "object", "oldObject"]), st.sampled_from(["", "\n", " "]))
def test_an_object_is_the_same_however_its_envelope_was_decoded(tree: Json, order: list[str], end: str) -> None:
    body = admission_body("UPDATE", tree, old=pod("old"))
    request = {**{name: body["request"][name] for name in order}, **body["request"]}
    raw = encode_body({**body, "request": request}).strip() + end.encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(admission_codec, "seen_kinds", {"Pod"})
        at_once = _result(lambda: shared_object(admission_codec.CODEC.decode(raw)))
        patched.setattr(admission_codec, "seen_kinds", set())
        later = _result(lambda: shared_object(admission_codec.CODEC.decode(raw)))
    assert isinstance(later, LazyObject)
    assert read_all(at_once) == read_all(later) == read_all(LazyObject.from_tree(later.tree))


def test_setting_a_label_decodes_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    obj, _ = both(pod(labels={"app": "web"}))
    monkeypatch.setattr(lazy_object.LazyDocument, "tree", property(lambda _: pytest.fail("was decoded")))
    assert obj.labels() == {"app": "web"}
    assert [container.image for container in obj.containers(dict)] == ["registry.k8s.io/app:1"]
    assert obj.image_volumes() == []
    changed = obj.apply_patch([{"op": "add", "path": "/metadata/labels/tier", "value": "front"}])
    assert changed.labels() == {"app": "web", "tier": "front"}
    assert obj.labels() == {"app": "web"}


def test_patching_a_field_decodes_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    obj, _ = both(pod(labels={"app": "web"}, nodeName="a"))
    with monkeypatch.context() as patched:
        patched.setattr(lazy_object.LazyDocument, "tree", property(lambda _: pytest.fail("was decoded")))
        changed = obj.apply_patch([{"op": "replace", "path": "/spec/nodeName", "value": "b"}])
        assert changed is not obj
        assert obj.apply_patch([{"op": "replace", "path": "/spec/nodeName", "value": "a"}]) is obj
        assert changed.labels() == {"app": "web"}
        assert [container.image for container in changed.containers(dict)] == ["registry.k8s.io/app:1"]
    assert changed.tree["spec"]["nodeName"] == "b"
    assert obj.tree["spec"]["nodeName"] == "a"


@pytest.mark.parametrize("path", ["/metadata/namespace", "/metadata/labels/a"])
def test_an_object_that_was_found_to_be_malformed_is_not_patched(path: str) -> None:
    raw = b'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{}},"spec":{"affinity":{"a":1,"a":2}}}'
    obj = LazyObject(raw, kind="Pod")
    operations = [{"op": "add", "path": path, "value": "a"}]
    assert obj.apply_patch(operations) is not obj
    with pytest.raises(MalformedReview, match="duplicate key"):
        obj.tree  # noqa: B018
    with pytest.raises(MalformedReview, match="duplicate key"):
        obj.apply_patch(operations)


def test_the_repr_does_not_show_the_object() -> None:
    tree = pod(containers=[{"name": "app", "image": "a:1", "env": [{"name": "PASSWORD", "value": "hunter2"}]}])
    for obj in both(tree):
        containers = obj.containers(lambda tree=obj.tree: tree)
        assert containers[0].spec["env"]
        assert "hunter2" not in repr([obj, containers])


def test_labels_are_copies() -> None:
    for obj in both(pod(labels={"app": "web"})):
        obj.labels().clear()
        assert obj.labels() == {"app": "web"}


@pytest.mark.parametrize("value", [None, [], "pod", 1])
def test_the_result_of_a_patch_must_be_an_object(value: Any) -> None:
    for obj in both(pod()):
        with pytest.raises(PatchError, match="the result is not an object"):
            obj.apply_patch([{"op": "replace", "path": "", "value": value}])


def test_the_null_object_is_empty() -> None:
    assert not NULL.present
    assert NULL.tree is None
    assert (NULL.labels(), NULL.annotations(), NULL.metadata_text("name"), NULL.containers(dict)) == ({}, {}, "", [])

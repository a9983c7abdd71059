from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.errors import MalformedReview, PatchError
from webhooks.objects import lazy_object
from webhooks.objects.lazy_object import NULL, Object
from webhooks.objects.strict_json import load
from webhooks.reviews import admission
from webhooks.reviews.admission import object_of

from ..support.builders import Json, admission_body, pod, written

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


def both(tree: Json) -> tuple[Object, Object]:
    """An object as it comes, and the same decoded whole."""
    raw = written(tree).strip()
    return Object(raw, kind=tree["kind"]), Object.of(load(raw))


def told(found: Object) -> list[Any]:
    """All that helpers tell of an object, errors too."""
    asked: list[Callable[[], Any]] = [
        lambda: found.text("name"),
        lambda: found.text("generateName"),
        found.labels,
        found.annotations,
        lambda: [
            (each.name, each.image, each.kind, each.pointer, each.spec) for each in found.containers(lambda: found.tree)
        ],
        lambda: [(each.name, each.image, each.kind, each.pointer) for each in found.image_volumes()],
        lambda: found.tree,
    ]
    return [_result(each) for each in asked]


def _result(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (MalformedReview, PatchError, ValueError) as error:
        return type(error), str(error)


@given(PODS)
def test_an_outline_tells_what_the_whole_tells(tree: Json) -> None:
    outlined, whole = both(tree)
    assert told(outlined) == told(whole)


@given(PODS, OPERATIONS)
def test_a_patch_does_to_an_object_as_it_came_what_it_does_to_the_whole(tree: Json, operations: list[Json]) -> None:
    outlined, whole = both(tree)
    mine, its = (_result(lambda each=each: each.patched(operations)) for each in (outlined, whole))
    if isinstance(its, Object):
        assert told(mine) == told(its)
        assert (mine is outlined) == (its is whole)
    else:
        assert mine == its


@given(PODS, st.permutations(["uid", "kind", "operation", "object", "oldObject"]), st.sampled_from(["", "\n", " "]))
def test_an_object_is_the_same_however_its_envelope_was_decoded(tree: Json, order: list[str], end: str) -> None:
    body = admission_body("UPDATE", tree, old=pod("old"))
    request = {**{name: body["request"][name] for name in order}, **body["request"]}
    raw = written({**body, "request": request}).strip() + end.encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(admission, "wanted", {"Pod"})
        at_once = _result(lambda: object_of(admission.decode(raw)))
        patched.setattr(admission, "wanted", set())
        later = _result(lambda: object_of(admission.decode(raw)))
    assert isinstance(later, Object)
    assert told(at_once) == told(later) == told(Object.of(later.tree))


def test_what_is_only_labelled_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = both(pod(labels={"app": "web"}))
    monkeypatch.setattr(lazy_object.Document, "tree", property(lambda _: pytest.fail("was decoded")))
    assert found.labels() == {"app": "web"}
    assert [each.image for each in found.containers(dict)] == ["registry.k8s.io/app:1"]
    assert found.image_volumes() == []
    changed = found.patched([{"op": "add", "path": "/metadata/labels/tier", "value": "front"}])
    assert changed.labels() == {"app": "web", "tier": "front"}
    assert found.labels() == {"app": "web"}


def test_what_is_patched_elsewhere_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = both(pod(labels={"app": "web"}, nodeName="a"))
    with monkeypatch.context() as patched:
        patched.setattr(lazy_object.Document, "tree", property(lambda _: pytest.fail("was decoded")))
        changed = found.patched([{"op": "replace", "path": "/spec/nodeName", "value": "b"}])
        assert changed is not found
        assert found.patched([{"op": "replace", "path": "/spec/nodeName", "value": "a"}]) is found
        assert changed.labels() == {"app": "web"}
        assert [each.image for each in changed.containers(dict)] == ["registry.k8s.io/app:1"]
    assert changed.tree["spec"]["nodeName"] == "b"
    assert found.tree["spec"]["nodeName"] == "a"


@pytest.mark.parametrize("path", ["/metadata/namespace", "/metadata/labels/a"])
def test_a_malformed_object_is_not_patched_once_it_was_read(path: str) -> None:
    raw = b'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{}},"spec":{"affinity":{"a":1,"a":2}}}'
    found = Object(raw, kind="Pod")
    operations = [{"op": "add", "path": path, "value": "a"}]
    assert found.patched(operations) is not found
    with pytest.raises(MalformedReview, match="duplicate key"):
        found.tree  # noqa: B018
    with pytest.raises(MalformedReview, match="duplicate key"):
        found.patched(operations)


def test_what_is_in_an_object_is_not_shown() -> None:
    tree = pod(containers=[{"name": "app", "image": "a:1", "env": [{"name": "PASSWORD", "value": "hunter2"}]}])
    for found in both(tree):
        containers = found.containers(lambda tree=found.tree: tree)
        assert containers[0].spec["env"]
        assert "hunter2" not in repr([found, containers])


def test_labels_are_copies() -> None:
    for found in both(pod(labels={"app": "web"})):
        found.labels().clear()
        assert found.labels() == {"app": "web"}


@pytest.mark.parametrize("value", [None, [], "pod", 1])
def test_a_patch_leaves_an_object(value: Any) -> None:
    for found in both(pod()):
        with pytest.raises(PatchError, match="nothing is left of the object"):
            found.patched([{"op": "replace", "path": "", "value": value}])


def test_where_there_is_no_object_there_is_nothing_in_it() -> None:
    assert not NULL.present
    assert NULL.tree is None
    assert (NULL.labels(), NULL.annotations(), NULL.text("name"), NULL.containers(dict)) == ({}, {}, "", [])

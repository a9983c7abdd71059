import json
from collections import Counter
from typing import Any

import pytest

from webhooks.objects import typed_decoding
from webhooks.objects.lazy_object import LazyObject
from webhooks.objects.typed_decoding import Outline, affects_outline, build_outline, decode_typed, fallbacks

from ..support.builders import Json, encode_body, pod, recorded_bodies

POINTERS = {
    "Pod": ("v1", "/spec"),
    "Deployment": ("apps/v1", "/spec/template/spec"),
    "ReplicaSet": ("apps/v1", "/spec/template/spec"),
    "StatefulSet": ("apps/v1", "/spec/template/spec"),
    "DaemonSet": ("apps/v1", "/spec/template/spec"),
    "ReplicationController": ("v1", "/spec/template/spec"),
    "Job": ("batch/v1", "/spec/template/spec"),
    "CronJob": ("batch/v1", "/spec/jobTemplate/spec/template/spec"),
}
RECORDED = {
    f"{name} {field}": (request[field], request["kind"]["kind"])
    for name, body in recorded_bodies("/mutate", "/validate").items()
    for request in [body["request"]]
    for field in ("object", "oldObject")
    if request[field] is not None and request["kind"]["kind"] in POINTERS
}


def raw(tree: Any) -> bytes:
    return encode_body(tree).strip()


def outlined(raw: bytes, kind: str) -> Outline | None:
    typed = decode_typed(raw, kind)
    return None if typed is None else build_outline(typed, kind)


def with_pod(kind: str) -> Json:
    """Return an object of a kind that contains a pod spec."""
    api_version, pointer = POINTERS[kind]
    tree: Any = pod()["spec"]
    for key in reversed(pointer.split("/")[1:]):
        tree = {key: tree}
    return {"kind": kind, "apiVersion": api_version, "metadata": {"name": "web", "labels": {"a": "b"}}, **tree}


@pytest.mark.parametrize("name", RECORDED)
def test_objects_from_real_servers_have_an_outline(name: str) -> None:
    tree, kind = RECORDED[name]
    outline = outlined(raw(tree), kind)
    assert outline is not None
    assert (outline.labels or None) == tree["metadata"].get("labels")
    assert (outline.annotations or None) == tree["metadata"].get("annotations")
    assert outline.name == tree["metadata"]["name"]


@pytest.mark.parametrize("kind", POINTERS)
def test_every_kind_with_a_pod_has_an_outline(kind: str) -> None:
    outline = outlined(raw(with_pod(kind)), kind)
    assert outline is not None
    assert (outline.name, outline.labels, outline.pointer) == ("web", {"a": "b"}, POINTERS[kind][1])
    assert [(container.name, container.image) for container in outline.pod.containers] == [
        ("app", "registry.k8s.io/app:1")
    ]


@pytest.mark.parametrize("kind", POINTERS)
def test_an_object_may_have_no_pod_spec(kind: str) -> None:
    tree = with_pod(kind)
    del tree["spec"]
    outline = outlined(raw(tree), kind)
    assert outline is not None
    assert not outline.pod


def test_the_order_of_fields_does_not_matter() -> None:
    tree = {key: value for key, value in reversed(with_pod("Pod").items())}  # noqa: C416
    assert outlined(raw(tree), "Pod") is not None


UNCERTAIN = {
    "another kind": b'{"kind":"Service","apiVersion":"v1","metadata":{"name":"web"}}',
    "a custom kind of that name": b'{"kind":"Pod","apiVersion":"example.com/v1","metadata":{"name":"web"}}',
    "no kind": b'{"apiVersion":"v1","metadata":{"name":"web"}}',
    "no version": b'{"kind":"Pod","metadata":{"name":"web"}}',
    "no metadata": b'{"kind":"Pod","apiVersion":"v1"}',
    "an unknown field": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"new":1}',
    "an unknown field of metadata": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","new":1}}',
    "a key twice": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{},"spec":{}}',
    "a key twice in metadata": b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","name":"web"}}',
    "a label twice": b'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"b","a":"b"}}}',
    "a label twice, once escaped": rb'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"b","\u0061":"b"}}}',
    "an image twice": b'{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"containers":[{"image":"","image":""}]}}',
    "labels that are not strings": b'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":1}}}',
    "a container that is not an object": b'{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"containers":[1]}}',
    "a null spec": b'{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":null}',
    "a lone surrogate": rb'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"\ud800"}}}',
    "a space": b'{"kind":"Pod","apiVersion":"v1", "metadata":{}}',
    "an incomplete object": b'{"kind":"Pod","apiVersion":"v1","metadata":{}',
    "a large object": raw(pod(labels={str(number): "x" * 60 for number in range(5000)})),
}


@pytest.mark.parametrize("name", UNCERTAIN)
def test_an_object_that_must_be_decoded_has_no_outline(name: str) -> None:
    assert outlined(UNCERTAIN[name], "Pod") is None


@pytest.mark.parametrize(
    ("kind", "path", "independent"),
    [
        ("Pod", "/spec/nodeName", True),
        ("Pod", "/spec/containersOfAnotherKind", True),
        ("Pod", "/spec/securityContext/seccompProfile", True),
        ("Pod", "/metadata/uid", True),
        ("Pod", "/status", True),
        ("Pod", "/metadata/labels/a", False),
        ("Pod", "/metadata/name", False),
        ("Pod", "/metadata", False),
        ("Pod", "/spec", False),
        ("Pod", "/spec/containers", False),
        ("Pod", "/spec/initContainers/0/image", False),
        ("Pod", "/kind", False),
        ("Pod", "", False),
        ("Deployment", "/spec/replicas", True),
        ("Deployment", "/spec/containers", True),
        ("Deployment", "/spec/template/metadata/labels/a", True),
        ("Deployment", "/spec/template", False),
        ("Deployment", "/spec/template/spec/containers/0", False),
        ("ConfigMap", "/data/a", False),
    ],
)
def test_which_operations_affect_an_outline(kind: str, path: str, independent: bool) -> None:
    assert affects_outline(kind, [{"op": "add", "path": path}]) is not independent
    assert affects_outline(kind, [{"op": "add", "path": path}, {"op": "add", "path": "/metadata/name"}])


def test_a_name_in_another_case_is_another_name() -> None:
    tree = {**pod(), "Spec": {}}
    assert outlined(json.dumps(tree, separators=(",", ":")).encode(), "Pod") is None


def count_fallbacks(raw: bytes, kind: str = "Pod") -> Counter[tuple[str, ...]]:
    """Read the metadata and the images of an object, and return the fallbacks that this has added."""
    before = Counter(fallbacks)
    obj = LazyObject(raw, kind=kind)
    obj.labels()
    obj.image_volumes()
    return Counter(fallbacks) - before


def test_fallbacks_are_counted_from_zero_for_each_kind() -> None:
    assert fallbacks.keys() == {(kind,) for kind in POINTERS}


@pytest.mark.parametrize("kind", POINTERS)
def test_an_object_with_an_unknown_field_is_counted_by_kind(kind: str) -> None:
    tree = with_pod(kind)
    assert count_fallbacks(raw(tree), kind) == {}
    tree["spec"]["fieldOfTheFuture"] = True
    assert count_fallbacks(raw(tree), kind) == {(kind,): 1}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "app", "image": "a:1", "fieldOfTheFuture": 1}]},
        {"volumes": [{"name": "data", "sourceOfTheFuture": {}}]},
        {"volumes": [{"name": "data", "image": {"reference": "a:1", "fieldOfTheFuture": 1}}]},
    ],
)
def test_an_unknown_field_of_a_part_is_counted_once(spec: Json) -> None:
    assert count_fallbacks(raw(pod(**spec))) == {("Pod",): 1}


@pytest.mark.parametrize("name", sorted(UNCERTAIN.keys() - {"an unknown field", "an unknown field of metadata"}))
def test_other_objects_that_must_be_decoded_are_not_counted(name: str) -> None:
    before = dict(fallbacks)
    decode_typed(UNCERTAIN[name], "Pod")
    assert fallbacks == before


def test_the_types_that_find_unknown_fields_are_not_built_before_the_first_fallback() -> None:
    typed_decoding._strict_decoders.cache_clear()
    assert count_fallbacks(raw(pod())) == {}
    assert typed_decoding._strict_decoders.cache_info().currsize == 0

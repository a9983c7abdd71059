import json
from typing import Any

import pytest

from webhooks.objects.typed_decoding import Outline, decode_known, outline_of, touches

from ..support.builders import Json, pod, recorded, written

PLACES = {
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
    for name, body in recorded("/mutate", "/validate").items()
    for request in [body["request"]]
    for field in ("object", "oldObject")
    if request[field] is not None and request["kind"]["kind"] in PLACES
}


def raw(tree: Any) -> bytes:
    return written(tree).strip()


def outlined(raw: bytes, kind: str) -> Outline | None:
    known = decode_known(raw, kind)
    return None if known is None else outline_of(known, kind)


def bearing(kind: str) -> Json:
    """An object of a kind, around a pod spec."""
    api_version, pointer = PLACES[kind]
    tree: Any = pod()["spec"]
    for key in reversed(pointer.split("/")[1:]):
        tree = {key: tree}
    return {"kind": kind, "apiVersion": api_version, "metadata": {"name": "web", "labels": {"a": "b"}}, **tree}


@pytest.mark.parametrize("name", RECORDED)
def test_what_real_servers_send_has_an_outline(name: str) -> None:
    tree, kind = RECORDED[name]
    outline = outlined(raw(tree), kind)
    assert outline is not None
    assert (outline.labels or None) == tree["metadata"].get("labels")
    assert (outline.annotations or None) == tree["metadata"].get("annotations")
    assert outline.name == tree["metadata"]["name"]


@pytest.mark.parametrize("kind", PLACES)
def test_every_kind_that_bears_a_pod_has_one(kind: str) -> None:
    outline = outlined(raw(bearing(kind)), kind)
    assert outline is not None
    assert (outline.name, outline.labels, outline.pointer) == ("web", {"a": "b"}, PLACES[kind][1])
    assert [(each.name, each.image) for each in outline.pod.containers] == [("app", "registry.k8s.io/app:1")]


@pytest.mark.parametrize("kind", PLACES)
def test_an_object_may_end_before_its_pod(kind: str) -> None:
    tree = bearing(kind)
    del tree["spec"]
    outline = outlined(raw(tree), kind)
    assert outline is not None
    assert not outline.pod


def test_the_order_of_fields_does_not_matter() -> None:
    tree = {key: value for key, value in reversed(bearing("Pod").items())}  # noqa: C416
    assert outlined(raw(tree), "Pod") is not None


NONE = {
    "another kind": b'{"kind":"Service","apiVersion":"v1","metadata":{"name":"web"}}',
    "somebody else's kind of that name": b'{"kind":"Pod","apiVersion":"example.com/v1","metadata":{"name":"web"}}',
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
    "labels that are no texts": b'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":1}}}',
    "a container that is none": b'{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":{"containers":[1]}}',
    "no specification": b'{"kind":"Pod","apiVersion":"v1","metadata":{},"spec":null}',
    "a lone surrogate": rb'{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"\ud800"}}}',
    "a space": b'{"kind":"Pod","apiVersion":"v1", "metadata":{}}',
    "no end": b'{"kind":"Pod","apiVersion":"v1","metadata":{}',
    "more than a policy can want": raw(pod(labels={str(number): "x" * 60 for number in range(5000)})),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_not_sure_has_none(name: str) -> None:
    assert outlined(NONE[name], "Pod") is None


@pytest.mark.parametrize(
    ("kind", "path", "apart"),
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
def test_what_touches_an_outline(kind: str, path: str, apart: bool) -> None:
    assert touches(kind, [{"op": "add", "path": path}]) is not apart
    assert touches(kind, [{"op": "add", "path": path}, {"op": "add", "path": "/metadata/name"}])


def test_a_name_in_another_case_is_another_name() -> None:
    tree = {**pod(), "Spec": {}}
    assert outlined(json.dumps(tree, separators=(",", ":")).encode(), "Pod") is None

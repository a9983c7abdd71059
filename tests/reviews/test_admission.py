"""Admission reviews as policies see them."""

from collections.abc import Iterator
from typing import Any

import pytest

from webhooks import Allow, Deny, deny_new, introduced
from webhooks.errors import MalformedReview
from webhooks.objects.lazy_object import LazyObject
from webhooks.reviews import admission_codec
from webhooks.reviews.admission import (
    AdmissionReview,
    GroupVersionKind,
    GroupVersionResource,
    label_sets,
    shared_object,
    with_object,
)
from webhooks.reviews.user import User

from ..support.builders import (
    MAX_INT,
    MIN_INT,
    Json,
    admission_body,
    admission_review,
    encode_body,
    nested_json,
    pod,
    recorded_bodies,
)

RECORDED = recorded_bodies("/mutate", "/validate")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_are_decoded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = RECORDED[name]["request"]
    review = admission_codec.CODEC.decode(encode_body(RECORDED[name]))
    assert review.uid == request["uid"]
    assert review.operation == request["operation"]
    assert review.kind == GroupVersionKind(**request["kind"])
    assert review.resource == GroupVersionResource(**request["resource"])
    assert review.subresource == request.get("subResource", "")
    assert review.namespace == request.get("namespace", "")
    assert review.dry_run is request["dryRun"]
    assert review.options == request["options"]
    assert review.user.username == request["userInfo"]["username"]
    assert list(review.groups) == request["userInfo"]["groups"]
    assert repr(review.object) == repr(request["object"])
    assert repr(review.old_object) == repr(request["oldObject"])
    target = request["oldObject"] if request["operation"] == "DELETE" else request["object"]
    assert repr(review.target) == repr(target)
    assert review.labels == target.get("metadata", {}).get("labels", {})
    assert review.annotations == target.get("metadata", {}).get("annotations", {})
    assert review.name == (request.get("name") or target["metadata"].get("generateName", ""))


def test_missing_fields_are_empty() -> None:
    body = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "42",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
        },
    }
    for sent in (
        body,
        {**body, "request": dict.fromkeys(("name", "namespace", "subResource", "dryRun")) | body["request"]},
    ):
        review = admission_codec.CODEC.decode(encode_body(sent))
        assert (review.name, review.namespace, review.subresource, review.dry_run) == ("", "", "", False)
        assert (review.object, review.old_object, review.target, review.options) == (None, None, None, None)
        assert (review.user, review.groups) == (User(), ())
        assert (review.labels, review.annotations, review.containers(), label_sets(review)) == ({}, {}, [], [])
        assert review.generate_name == ""


NAMES: list[tuple[str, Json, str, str]] = [
    ("of the request", {"name": "web", "obj": pod("other")}, "web", ""),
    ("of the object", {"name": "", "obj": pod("other")}, "other", ""),
    ("of the object, none asked for", {"name": ..., "obj": pod("other")}, "other", ""),
    ("still to be made", {"name": "", "obj": {"metadata": {"generateName": "web-"}}}, "web-", "web-"),
    (
        "made of a beginning",
        {"name": "", "obj": {"metadata": {"name": "web-1", "generateName": "web-"}}},
        "web-1",
        "web-",
    ),
    ("of the old object", {"name": "", "operation": "DELETE", "old": pod("other")}, "other", ""),
    ("nowhere", {"name": "", "obj": {"metadata": {}}}, "", ""),
    ("nowhere, no metadata", {"name": "", "obj": {}}, "", ""),
    ("nowhere, null metadata", {"name": "", "obj": {"metadata": None}}, "", ""),
    ("no text", {"name": "", "obj": {"metadata": {"name": 5, "generateName": ["web-"]}}}, "", ""),
]


@pytest.mark.parametrize(
    ("request_", "name", "generated"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES]
)
def test_the_name_of_an_object(request_: Json, name: str, generated: str) -> None:
    review = admission_review(**request_)
    assert (review.name, review.generate_name) == (name, generated)


def test_labels_and_annotations_are_those_of_the_target() -> None:
    new = {"metadata": {"labels": {"a": "new"}, "annotations": {"b": "new"}}}
    old = {"metadata": {"labels": {"a": "old"}, "annotations": {"b": "old"}}}
    update = admission_review("UPDATE", new, old=old)
    assert (update.labels, update.annotations) == ({"a": "new"}, {"b": "new"})
    assert label_sets(update) == [{"a": "new"}, {"a": "old"}]
    delete = admission_review("DELETE", old=old)
    assert (delete.labels, delete.annotations) == ({"a": "old"}, {"b": "old"})
    assert label_sets(delete) == [{"a": "old"}]
    assert admission_review(obj={"metadata": {"labels": None}}).labels == {}


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize(
    "metadata", [5, [], "x", {"labels": [], "annotations": []}, {"labels": "app=web", "annotations": 5}], ids=repr
)
def test_malformed_metadata_is_rejected(part: str, metadata: Any) -> None:
    with pytest.raises(MalformedReview) as caught:
        getattr(admission_review(obj={"metadata": metadata}), part)
    assert caught.value.code == 422


def test_all_containers_of_the_target_are_found() -> None:
    spec = {
        "initContainers": [{"name": "init", "image": "b"}],
        "ephemeralContainers": [{"name": "debug", "image": "c"}],
    }
    names = [container.name for container in admission_review(obj=pod(**spec)).containers()]
    assert names == ["app", "init", "debug"]
    assert [item.name for item in admission_review("DELETE", old=pod()).containers()] == ["app"]
    assert admission_review("CONNECT", {"kind": "PodExecOptions"}).containers() == []
    with pytest.raises(ValueError, match="/spec/initContainers: must be a list"):
        admission_review(obj=pod(initContainers={})).containers()


def test_images_of_containers_and_volumes_are_found() -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "model", "image": {"reference": "model:1"}}]
    review = admission_review(obj=pod(volumes=volumes))
    for _ in range(2):
        found = review.images()
        assert [(str(image), image.image) for image in found] == [
            ("container app", "registry.k8s.io/app:1"),
            ("volume model", "model:1"),
        ]
        review.object["spec"]["volumes"][0]["image"] = None  # from now on the policy's own copy counts
    review.object["spec"]["volumes"][0]["image"] = {"reference": "data:1"}
    assert [item.name for item in review.images()] == ["app", "data", "model"]
    assert [item.name for item in admission_review("DELETE", old=pod(volumes=volumes)).images()] == ["app", "model"]
    assert admission_review().images() == []
    with pytest.raises(ValueError, match="/spec/volumes: must be a list"):
        admission_review(obj=pod(volumes={})).images()


def test_a_container_is_changed_in_the_policys_own_copy() -> None:
    review = admission_review(obj=pod())
    review.containers()[0].spec["image"] = "changed"
    assert review.object["spec"]["containers"][0]["image"] == "changed"
    assert shared_object(review).tree == pod()


def test_every_policy_has_its_own_copies() -> None:
    review = admission_review("UPDATE", pod(), old=pod("old"))
    assert review.object is review.object
    review.object["metadata"]["name"] = "changed"
    review.old_object["spec"]["containers"].clear()
    review.labels["a"] = "b"
    other = review.copy()
    assert (other.object, other.old_object, other.labels) == (pod(), pod("old"), {})
    assert shared_object(review).tree == pod()
    replaced = with_object(review, LazyObject.from_tree(pod("replaced")))
    assert (replaced.object, replaced.old_object) == (pod("replaced"), pod("old"))
    assert (replaced.uid, replaced.user) == (review.uid, review.user)


def test_the_representation_of_a_review() -> None:
    assert repr(admission_review(uid="42")) == "<AdmissionReview 42 CREATE pods team-a/web>"
    assert repr(admission_review(uid="42", namespace=...)) == "<AdmissionReview 42 CREATE pods web>"


FILLER = "x" * 100

PARTS = {
    "object": lambda review: review.object,
    "oldObject": lambda review: review.old_object,
    "userInfo": lambda review: review.user,
    "options": lambda review: review.options,
}

BAD_PARTS = [
    (f'{{"a":1,"a":2,"{FILLER}":0}}', 400),
    (f'{{"{FILLER}":{{"a":[{{"b":0,"b":0}}]}}}}', 400),
    (f'{{"a":{MAX_INT + 1},"{FILLER}":0}}', 422),
    (f'{{"a":{MIN_INT - 1},"{FILLER}":0}}', 422),
    (f'{{"{FILLER}":{nested_json(198)}}}', 422),
]


def body_with(part: str, text: str) -> bytes:
    return encode_body(admission_body("UPDATE", **{part: "PART"})).replace(b'"PART"', text.encode())


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("text", "code"), BAD_PARTS)
def test_each_part_is_decoded_strictly_on_access(part: str, text: str, code: int) -> None:
    review = admission_codec.CODEC.decode(body_with(part, text))
    for other in PARTS.keys() - {part}:
        PARTS[other](review)
    with pytest.raises(MalformedReview) as caught:
        PARTS[part](review)
    assert caught.value.code == code


@pytest.mark.parametrize(("inner", "own"), [("1", 0), ("{}", 1)])
@pytest.mark.parametrize("part", PARTS)
def test_a_body_has_at_most_200_levels(part: str, inner: str, own: int) -> None:
    PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"new":{nested_json(197 - own, inner)}}}')))
    with pytest.raises(MalformedReview, match="nested deeper than 200 levels"):
        PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"new":{nested_json(198 - own, inner)}}}')))


@pytest.mark.parametrize("bad", ["NaN", "-Infinity", r'"\ud800"', "01", '"\n"', "1e999", "[1,]"])
@pytest.mark.parametrize("part", PARTS)
def test_invalid_json_is_rejected_in_every_part(part: str, bad: str) -> None:
    with pytest.raises(MalformedReview) as caught:
        PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"a":{bad}}}')))
    assert caught.value.code == 400


def test_the_pod_of_an_object_belongs_to_the_policy() -> None:
    review = admission_review(obj=pod())
    own = review.pod()
    assert own is not None
    own["spec"]["hostNetwork"] = True
    assert review.object["spec"]["hostNetwork"]
    assert shared_object(review).tree == pod()
    template = {"metadata": {"annotations": {"a": "b"}}, "spec": pod()["spec"]}
    workload = {"kind": "Deployment", "apiVersion": "apps/v1", "spec": {"template": template}}
    assert admission_review(obj=workload).pod() == template
    assert admission_review("DELETE", old=pod()).pod() == pod()
    assert admission_review("CONNECT", {"kind": "PodExecOptions"}).pod() is None
    assert admission_review("CONNECT").pod() is None


def test_the_previous_review_of_an_update_is_about_the_old_object() -> None:
    previous = admission_review("UPDATE", pod(labels={"a": "new"}), old=pod(labels={"a": "old"})).previous
    assert previous is not None
    assert (previous.labels, previous.object, previous.old_object) == ({"a": "old"}, pod(labels={"a": "old"}), None)
    for review in (
        admission_review(obj=pod()),
        admission_review("DELETE", old=pod()),
        admission_review("UPDATE", pod()),
    ):
        assert review.previous is None


def bad_labels(review: AdmissionReview) -> Iterator[str]:
    return (f"label {name} is bad" for name, value in review.labels.items() if value == "bad")


def test_all_violations_of_a_new_object_are_introduced() -> None:
    assert introduced(admission_review("CREATE", pod(labels={"a": "bad", "b": "ok"})), bad_labels) == ["label a is bad"]


def test_stored_violations_are_not_introduced() -> None:
    old = pod(labels={"a": "bad", "b": "ok"})
    assert introduced(admission_review("UPDATE", old, old=old), bad_labels) == []
    assert introduced(admission_review("UPDATE", pod(labels={"a": "bad", "b": "bad"}), old=old), bad_labels) == [
        "label b is bad"
    ]


def test_an_update_that_fixes_a_violation_introduces_none() -> None:
    assert introduced(admission_review("UPDATE", pod(), old=pod(labels={"a": "bad"})), bad_labels) == []


def test_a_deletion_introduces_no_violations() -> None:
    assert introduced(admission_review("DELETE", old=pod(labels={"a": "bad"})), bad_labels) == []


def test_an_update_without_old_object_introduces_all_violations() -> None:
    assert introduced(admission_review("UPDATE", pod(labels={"a": "bad"})), bad_labels) == ["label a is bad"]


def labels_with(review: AdmissionReview, value: str, *, message: str = "is bad") -> Iterator[str]:
    return (f"label {name} {message}" for name, label in review.labels.items() if label == value)


def test_arguments_are_passed_to_the_function() -> None:
    review = admission_review("UPDATE", pod(labels={"a": "x", "b": "x"}), old=pod(labels={"a": "x"}))
    assert introduced(review, labels_with, "x", message="is x") == ["label b is x"]
    assert introduced(review, labels_with, "y") == []


def test_all_new_violations_are_denied() -> None:
    review = admission_review("CREATE", pod(labels={"a": "bad", "b": "bad"}))
    assert deny_new(review, labels_with, "bad") == Deny("label a is bad; label b is bad")
    assert deny_new(review, labels_with, "x", message="is x") == Allow()


def test_stored_violations_are_not_denied() -> None:
    old = pod(labels={"a": "bad"})
    assert deny_new(admission_review("UPDATE", pod(labels={"a": "bad", "b": "ok"}), old=old), bad_labels) == Allow()
    assert deny_new(admission_review("DELETE", old=old), bad_labels) == Allow()
    changed = admission_review("UPDATE", pod(labels={"a": "bad", "b": "bad"}), old=old)
    assert deny_new(changed, bad_labels) == Deny("label b is bad")


@pytest.mark.parametrize("read_first", [False, True])
def test_containers_and_images_can_leave_out_some_images(read_first: bool) -> None:
    spec = {
        "containers": [{"name": "web", "image": "registry.example.com/web:1"}, {"name": "log", "image": "log"}],
        "initContainers": [{"name": "odd", "image": "Not An Image"}, {"name": "none"}],
        "volumes": [{"name": "model", "image": {"reference": "registry.example.com/model:1"}}],
    }
    review = admission_review(obj=pod(**spec))
    if read_first:
        assert review.object
    patterns = ["registry.example.com/*"]
    assert [item.name for item in review.containers(except_images=patterns)] == ["log", "odd", "none"]
    assert [item.name for item in review.images(except_images=patterns)] == ["log", "odd", "none"]
    assert [item.name for item in review.containers(except_images=["docker.io/library/log"])] == ["web", "odd", "none"]
    assert [item.name for item in review.images(except_images=())] == ["web", "log", "odd", "none", "model"]


def test_containers_that_are_left_out_leave_the_others_usable() -> None:
    review = admission_review(obj=pod(containers=[{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]))
    [container] = review.containers(except_images=["docker.io/library/a"])
    review.object["spec"]["containers"].pop(0)
    assert container.spec == {"name": "b", "image": "b"}


@pytest.mark.parametrize("part", PARTS)
def test_invalid_utf_8_is_rejected_in_every_part(part: str) -> None:
    body = body_with(part, '{"a":"?"}').replace(b"?", b"\xff")
    with pytest.raises(MalformedReview, match="not UTF-8"):
        admission_codec.CODEC.decode(body)

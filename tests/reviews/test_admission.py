from collections.abc import Iterator
from typing import Any

import pytest

from webhooks import Allow, Deny, deny_new, introduced
from webhooks.errors import MalformedReview
from webhooks.objects.lazy_object import LazyObject
from webhooks.reviews.admission import (
    AdmissionReview,
    label_sets,
    shared_object,
    with_object,
)

from ..support.builders import (
    Json,
    admission_review,
    pod,
)

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
    ("request_", "name", "generated"), [each[1:] for each in NAMES], ids=[each[0] for each in NAMES]
)
def test_an_object_is_called_by_the_best_name_there_is(request_: Json, name: str, generated: str) -> None:
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
def test_misshapen_metadata_is_refused(part: str, metadata: Any) -> None:
    with pytest.raises(MalformedReview) as caught:
        getattr(admission_review(obj={"metadata": metadata}), part)
    assert caught.value.code == 422


def test_every_container_of_the_target_is_found() -> None:
    spec = {
        "initContainers": [{"name": "init", "image": "b"}],
        "ephemeralContainers": [{"name": "debug", "image": "c"}],
    }
    found = [container.name for container in admission_review(obj=pod(**spec)).containers()]
    assert found == ["app", "init", "debug"]
    assert [each.name for each in admission_review("DELETE", old=pod()).containers()] == ["app"]
    assert admission_review("CONNECT", {"kind": "PodExecOptions"}).containers() == []
    with pytest.raises(ValueError, match="/spec/initContainers: must be a list"):
        admission_review(obj=pod(initContainers={})).containers()


def test_images_are_those_of_containers_and_of_volumes() -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "model", "image": {"reference": "model:1"}}]
    review = admission_review(obj=pod(volumes=volumes))
    for _ in range(2):
        found = review.images()
        assert [(str(each), each.image) for each in found] == [
            ("container app", "registry.k8s.io/app:1"),
            ("volume model", "model:1"),
        ]
        review.object["spec"]["volumes"][0]["image"] = None  # the policy's own copy is asked from now on
    review.object["spec"]["volumes"][0]["image"] = {"reference": "data:1"}
    assert [each.name for each in review.images()] == ["app", "data", "model"]
    assert [each.name for each in admission_review("DELETE", old=pod(volumes=volumes)).images()] == ["app", "model"]
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


def test_a_review_shows_what_it_is_about() -> None:
    assert repr(admission_review(uid="42")) == "<AdmissionReview 42 CREATE pods team-a/web>"
    assert repr(admission_review(uid="42", namespace=...)) == "<AdmissionReview 42 CREATE pods web>"


def test_the_pod_of_an_object_is_the_policys_own() -> None:
    review = admission_review(obj=pod())
    found = review.pod()
    assert found is not None
    found["spec"]["hostNetwork"] = True
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


def test_what_a_new_object_has_is_new() -> None:
    assert introduced(admission_review("CREATE", pod(labels={"a": "bad", "b": "ok"})), bad_labels) == ["label a is bad"]


def test_what_an_update_leaves_as_it_was_is_not_new() -> None:
    old = pod(labels={"a": "bad", "b": "ok"})
    assert introduced(admission_review("UPDATE", old, old=old), bad_labels) == []
    assert introduced(admission_review("UPDATE", pod(labels={"a": "bad", "b": "bad"}), old=old), bad_labels) == [
        "label b is bad"
    ]


def test_an_update_that_repairs_brings_nothing() -> None:
    assert introduced(admission_review("UPDATE", pod(), old=pod(labels={"a": "bad"})), bad_labels) == []


def test_nothing_is_brought_by_deleting() -> None:
    assert introduced(admission_review("DELETE", old=pod(labels={"a": "bad"})), bad_labels) == []


def test_an_update_without_an_old_object_brings_all() -> None:
    assert introduced(admission_review("UPDATE", pod(labels={"a": "bad"})), bad_labels) == ["label a is bad"]


def labels_with(review: AdmissionReview, value: str, *, message: str = "is bad") -> Iterator[str]:
    return (f"label {name} {message}" for name, found in review.labels.items() if found == value)


def test_violations_are_found_with_the_arguments_given() -> None:
    review = admission_review("UPDATE", pod(labels={"a": "x", "b": "x"}), old=pod(labels={"a": "x"}))
    assert introduced(review, labels_with, "x", message="is x") == ["label b is x"]
    assert introduced(review, labels_with, "y") == []


def test_new_violations_are_denied_together() -> None:
    review = admission_review("CREATE", pod(labels={"a": "bad", "b": "bad"}))
    assert deny_new(review, labels_with, "bad") == Deny("label a is bad; label b is bad")
    assert deny_new(review, labels_with, "x", message="is x") == Allow()


def test_what_was_stored_already_is_not_denied() -> None:
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
    assert [each.name for each in review.containers(except_images=patterns)] == ["log", "odd", "none"]
    assert [each.name for each in review.images(except_images=patterns)] == ["log", "odd", "none"]
    assert [each.name for each in review.containers(except_images=["docker.io/library/log"])] == ["web", "odd", "none"]
    assert [each.name for each in review.images(except_images=())] == ["web", "log", "odd", "none", "model"]


def test_containers_that_are_left_out_leave_the_others_usable() -> None:
    review = admission_review(obj=pod(containers=[{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]))
    [container] = review.containers(except_images=["docker.io/library/a"])
    review.object["spec"]["containers"].pop(0)
    assert container.spec == {"name": "b", "image": "b"}

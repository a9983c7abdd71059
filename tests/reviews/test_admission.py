import json
from collections.abc import Iterator
from typing import Any

import pytest

from webhooks import Allow, Deny, Mutation, Patch, Policy, Replace, deny_new, introduced, mutating, validating
from webhooks.errors import MalformedReview
from webhooks.objects import strict_json
from webhooks.objects.lazy_object import LazyObject
from webhooks.reviews import admission_codec
from webhooks.reviews.admission import (
    AdmissionReview,
    GroupVersionKind,
    GroupVersionResource,
    label_sets,
    object_of,
    with_object,
)
from webhooks.reviews.user import User

from ..support.api_server import accept_admission
from ..support.builders import (
    GROUPS,
    MAX_INT,
    MIN_INT,
    Json,
    admission_body,
    admission_review,
    decide,
    encode_body,
    encode_response,
    nested_json,
    pod,
    recorded_bodies,
    with_api_version,
)

RECORDED = recorded_bodies("/mutate", "/validate")
SPELLINGS = [(group, version) for group in GROUPS for version in ("v1", "v1beta1")]
EVERYTHING: dict[str, Any] = {"operations": ["*"]}


@mutating("*/*", **EVERYTHING)
def leave(review: AdmissionReview) -> Mutation:
    return Allow(warnings=["left as it was"], audit={"changed": "no"})


@mutating("*/*", **EVERYTHING)
def label(review: AdmissionReview) -> Mutation:
    obj = review.object
    obj.setdefault("metadata", {}).setdefault("labels", {})["example.com/seen"] = "yes"
    return Replace(obj)


@mutating("*/*", **EVERYTHING)
def annotate(review: AdmissionReview) -> Mutation:
    return Patch([{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c~d"}}])


@mutating("*/*", **EVERYTHING)
def refuse(review: AdmissionReview) -> Mutation:
    return Deny("not today", reason="Conflict", code=409, details={"retryAfterSeconds": 5})


@validating("*/*", **EVERYTHING)
def allow(review: AdmissionReview) -> Allow:
    return Allow()


@validating("*/*", **EVERYTHING)
def deny(review: AdmissionReview) -> Deny:
    return Deny("never", warnings=["really"], audit={"why": "because"})


def answered(body: Json, *policies: Policy[Any, Any]) -> Json:
    """The response to a body, as its caller takes it."""
    review = admission_codec.CODEC.decode(encode_body(body))
    kind = policies[0].kind
    return accept_admission(
        body, encode_response(kind, review, decide(review, *policies, inline=True)), mutating=kind == "mutating"
    )


def without(tree: Any, *path: str) -> Any:
    """A copy of a tree that lacks one member."""
    first, *rest = path
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return {**tree, first: without(tree[first], *rest)}


@pytest.mark.parametrize(("group", "version"), SPELLINGS)
@pytest.mark.parametrize("name", RECORDED)
def test_real_requests_are_answered_as_their_caller_accepts(name: str, group: str, version: str) -> None:
    body = with_api_version(RECORDED[name], group, version)
    request = body["request"]
    left = answered(body, leave)
    assert left["allowed"]
    assert left["warnings"] == ["left as it was"]
    assert left["auditAnnotations"] == {"changed": "no"}
    assert "patch" not in left
    denied = answered(body, refuse)
    assert (denied["allowed"], denied["status"]["code"], denied["status"]["message"]) == (False, 409, "not today")
    assert denied["status"]["details"] == {"retryAfterSeconds": 5}
    assert answered(body, allow)["allowed"]
    assert not answered(body, deny, allow)["allowed"]
    changed = answered(body, label)
    if request["object"] is None:
        assert (changed["allowed"], changed["status"]["code"]) == (False, 500)
    else:
        labels = changed["object"]["metadata"].pop("labels")
        assert labels.pop("example.com/seen") == "yes"
        was = json.loads(json.dumps(request["object"]))
        metadata = was.setdefault("metadata", {})
        assert labels == metadata.pop("labels", {})
        assert repr(changed["object"]) == repr({**was, "metadata": metadata})


@pytest.mark.parametrize("name", RECORDED)
def test_real_requests_are_read_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_real_envelopes_are_read_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks.reviews.envelope.load_exactly", lambda raw: pytest.fail("took the slow way"))
    for body in RECORDED.values():
        admission_codec.CODEC.decode(encode_body(body))


def test_integers_keep_their_value_through_a_mutation() -> None:
    numbers = {
        "odd": 9007199254740993,
        "most": MAX_INT,
        "least": MIN_INT,
        "real": 0.1,
        "whole": 3.0,
        "list": [2**53 + 1],
    }
    changed = answered(admission_body(obj={"kind": "Widget", "spec": numbers}), label)
    assert repr(changed["object"]["spec"]) == repr(numbers)

    @mutating("*/*")
    def move(review: AdmissionReview) -> Replace:
        obj = review.object
        return Replace({**obj, "spec": {"moved": obj["spec"]}})

    assert repr(answered(admission_body(obj={"spec": numbers}), move)["object"]["spec"]["moved"]) == repr(numbers)


def test_a_patch_is_sent_as_it_was_written() -> None:
    response = answered(admission_body(obj=pod()), annotate)
    assert response["operations"] == [{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c~d"}}]


def test_what_a_request_leaves_out_is_empty() -> None:
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
        assert answered(sent, allow)["allowed"]


VALID = admission_body(obj=pod())

REFUSED: dict[str, Any] = {
    "another kind": {**VALID, "kind": "AdmissionRequest"},
    "a kind in lower case": {**VALID, "kind": "admissionreview"},
    "another protocol": {**VALID, "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1"},
    "another version": {**VALID, "apiVersion": "admission.k8s.io/v2"},
    "another group": {**VALID, "apiVersion": "admission.example.org/v1"},
    "no group": {**VALID, "apiVersion": "v1"},
    "a longer version": {**VALID, "apiVersion": "admission.k8s.io/v1/x"},
    "no version": without(VALID, "apiVersion"),
    "no kind": without(VALID, "kind"),
    "no request": without(VALID, "request"),
    "an answer": {**without(VALID, "request"), "response": {"uid": "42", "allowed": True}},
    "a null request": {**VALID, "request": None},
    "a request that is a list": {**VALID, "request": [VALID["request"]]},
    "no uid": without(VALID, "request", "uid"),
    "an empty uid": admission_body(uid=""),
    "a uid that is a number": admission_body(uid=5),
    "no operation": without(VALID, "request", "operation"),
    "an unknown operation": admission_body("PATCH"),
    "an operation in lower case": admission_body("create"),
    "an operation that is a number": admission_body(operation=5),
    "no resource": without(VALID, "request", "resource"),
    "half a resource": without(VALID, "request", "resource", "resource"),
    "a resource that is a text": admission_body(kind="Pod"),
    "an object that is a text": admission_body(obj="pod"),
    "an object that is a list": admission_body(obj=[pod()]),
    "an object that is false": admission_body(obj=False),
    "an old object that is a number": admission_body("DELETE", old=5),
    "a name that is a number": admission_body(name=5),
    "a dry run that is a text": admission_body(dryRun="false"),
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_what_is_no_admission_review_is_refused(body: Any) -> None:
    raw = encode_body(body)
    with pytest.raises(MalformedReview) as caught:
        admission_codec.CODEC.decode(raw)
    assert caught.value.code == 400
    answer = admission_codec.CODEC.encode_denial(raw, str(caught.value), caught.value.code)
    request = body.get("request")
    if not isinstance(request, dict) or request.get("uid") in (None, "", 5):
        assert answer is None
        return
    assert answer is not None
    response = accept_admission(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", **body}, answer, mutating=False
    )
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


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
    assert object_of(review).tree == pod()


def test_every_policy_has_its_own_copies() -> None:
    review = admission_review("UPDATE", pod(), old=pod("old"))
    assert review.object is review.object
    review.object["metadata"]["name"] = "changed"
    review.old_object["spec"]["containers"].clear()
    review.labels["a"] = "b"
    other = review.copy()
    assert (other.object, other.old_object, other.labels) == (pod(), pod("old"), {})
    assert object_of(review).tree == pod()
    replaced = with_object(review, LazyObject.from_tree(pod("replaced")))
    assert (replaced.object, replaced.old_object) == (pod("replaced"), pod("old"))
    assert (replaced.uid, replaced.user) == (review.uid, review.user)


def test_a_review_shows_what_it_is_about() -> None:
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
def test_each_part_is_read_strictly_and_only_when_asked_for(part: str, text: str, code: int) -> None:
    review = admission_codec.CODEC.decode(body_with(part, text))
    for other in PARTS.keys() - {part}:
        PARTS[other](review)
    with pytest.raises(MalformedReview) as caught:
        PARTS[part](review)
    assert caught.value.code == code


@pytest.mark.parametrize(("inner", "own"), [("1", 0), ("{}", 1)])
@pytest.mark.parametrize("part", PARTS)
def test_a_body_is_nested_in_two_hundred_levels_at_most(part: str, inner: str, own: int) -> None:
    PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"new":{nested_json(197 - own, inner)}}}')))
    with pytest.raises(MalformedReview, match="nested deeper than 200 levels"):
        PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"new":{nested_json(198 - own, inner)}}}')))


@pytest.mark.parametrize("bad", ["NaN", "-Infinity", r'"\ud800"', "01", '"\n"', "1e999", "[1,]"])
@pytest.mark.parametrize("part", PARTS)
def test_what_is_no_json_is_refused_wherever_it_is(part: str, bad: str) -> None:
    with pytest.raises(MalformedReview) as caught:
        PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"a":{bad}}}')))
    assert caught.value.code == 400


@pytest.mark.parametrize("part", PARTS)
def test_what_is_no_unicode_is_refused_wherever_it_is(part: str) -> None:
    body = body_with(part, '{"a":"?"}').replace(b"?", b"\xff")
    with pytest.raises(MalformedReview, match="not UTF-8"):
        admission_codec.CODEC.decode(body)


def test_other_writings_of_a_body_mean_the_same() -> None:
    body = admission_body("UPDATE", pod("<&>"), old=pod())
    for raw in (json.dumps(body, indent=2).encode(), json.dumps(body).encode(), b" " + encode_body(body)):
        review = admission_codec.CODEC.decode(raw)
        assert repr(review.object) == repr(pod("<&>"))
        assert repr(review.old_object) == repr(pod())


def test_escapes_for_html_are_read_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "load_exactly", lambda raw: pytest.fail("took the slow way"))
    body = encode_body(admission_body(obj=pod("<&>")))
    assert rb"\u003c\u0026\u003e" in body
    assert admission_codec.CODEC.decode(body).object == pod("<&>")


@pytest.mark.parametrize("code", [400, 413, 422, 500])
def test_a_body_that_was_not_understood_is_denied(code: int) -> None:
    body = admission_body()
    for raw in (encode_body(body), encode_body(body)[:-3], encode_body(body)[:-3] + b"\xff"):
        answer = admission_codec.CODEC.encode_denial(raw, "no <good>", code)
        assert answer is not None
        response = accept_admission(body, answer, mutating=True)
        assert not response["allowed"]
        assert response["status"]["code"] == code
        assert "no <good>" in response["status"]["message"]


def test_nobody_is_told_what_nobody_could_take() -> None:
    assert admission_codec.CODEC.encode_denial(b'{"kind":"AdmissionReview"}', "bad", 400) is None


def test_a_body_without_kind_is_answered_as_a_review() -> None:
    answer = admission_codec.CODEC.encode_denial(b'{"request":{"uid":"42",', "bad", 400)
    assert answer is not None
    assert accept_admission(admission_body(uid="42"), answer, mutating=False)["status"]["code"] == 400


def test_the_pod_of_an_object_is_the_policys_own() -> None:
    review = admission_review(obj=pod())
    found = review.pod()
    assert found is not None
    found["spec"]["hostNetwork"] = True
    assert review.object["spec"]["hostNetwork"]
    assert object_of(review).tree == pod()
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

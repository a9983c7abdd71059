"""Decoding and encoding of admission reviews."""

import json
from typing import Any

import pytest

from webhooks import Allow, Deny, Mutation, Patch, Policy, Replace, mutating, validating
from webhooks.errors import MalformedReview
from webhooks.objects import strict_json
from webhooks.reviews import admission_codec
from webhooks.reviews.admission import (
    AdmissionReview,
    GroupVersionKind,
    GroupVersionResource,
    label_sets,
)
from webhooks.reviews.user import User

from ..support.api_server import accept_admission
from ..support.builders import (
    GROUPS,
    MAX_INT,
    MIN_INT,
    Json,
    admission_body,
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
def test_real_requests_get_responses_that_api_servers_accept(name: str, group: str, version: str) -> None:
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
def test_real_requests_are_decoded_completely(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_real_envelopes_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_patch_is_sent_unchanged() -> None:
    response = answered(admission_body(obj=pod()), annotate)
    assert response["operations"] == [{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c~d"}}]


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
def test_other_bodies_are_rejected(body: Any) -> None:
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
def test_invalid_json_is_rejected_in_each_part(part: str, bad: str) -> None:
    with pytest.raises(MalformedReview) as caught:
        PARTS[part](admission_codec.CODEC.decode(body_with(part, f'{{"a":{bad}}}')))
    assert caught.value.code == 400


@pytest.mark.parametrize("part", PARTS)
def test_invalid_unicode_is_rejected_in_each_part(part: str) -> None:
    body = body_with(part, '{"a":"?"}').replace(b"?", b"\xff")
    with pytest.raises(MalformedReview, match="not UTF-8"):
        admission_codec.CODEC.decode(body)


def test_whitespace_and_escapes_do_not_matter() -> None:
    body = admission_body("UPDATE", pod("<&>"), old=pod())
    for raw in (json.dumps(body, indent=2).encode(), json.dumps(body).encode(), b" " + encode_body(body)):
        review = admission_codec.CODEC.decode(raw)
        assert repr(review.object) == repr(pod("<&>"))
        assert repr(review.old_object) == repr(pod())


def test_html_escapes_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "load_exactly", lambda raw: pytest.fail("took the slow way"))
    body = encode_body(admission_body(obj=pod("<&>")))
    assert rb"\u003c\u0026\u003e" in body
    assert admission_codec.CODEC.decode(body).object == pod("<&>")


@pytest.mark.parametrize("code", [400, 413, 422, 500])
def test_a_malformed_body_is_denied(code: int) -> None:
    body = admission_body()
    for raw in (encode_body(body), encode_body(body)[:-3], encode_body(body)[:-3] + b"\xff"):
        answer = admission_codec.CODEC.encode_denial(raw, "no <good>", code)
        assert answer is not None
        response = accept_admission(body, answer, mutating=True)
        assert not response["allowed"]
        assert response["status"]["code"] == code
        assert "no <good>" in response["status"]["message"]


def test_a_body_without_a_uid_gets_no_denial() -> None:
    assert admission_codec.CODEC.encode_denial(b'{"kind":"AdmissionReview"}', "bad", 400) is None


def test_a_body_without_kind_gets_a_denial() -> None:
    answer = admission_codec.CODEC.encode_denial(b'{"request":{"uid":"42",', "bad", 400)
    assert answer is not None
    assert accept_admission(admission_body(uid="42"), answer, mutating=False)["status"]["code"] == 400

"""The codec of admission reviews: decoding, encoding, and denials of malformed bodies."""

import json
from typing import Any

import pytest

from webhooks import Allow, Deny, Mutation, Patch, Policy, Replace, mutating, validating
from webhooks.errors import MalformedReview
from webhooks.objects import strict_json
from webhooks.reviews import admission_codec
from webhooks.reviews.admission import (
    AdmissionReview,
)

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
    pod,
    recorded_bodies,
    with_api_version,
)

RECORDED = recorded_bodies("/mutate", "/validate")

SPELLINGS = [(group, version) for group in GROUPS for version in ("v1", "v1beta1")]

EVERYTHING: dict[str, Any] = {"operations": ["*"]}


@mutating("*/*", **EVERYTHING)
def leave(review: AdmissionReview) -> Mutation:
    return Allow(warnings=["unchanged"], audit={"changed": "no"})


@mutating("*/*", **EVERYTHING)
def label(review: AdmissionReview) -> Mutation:
    obj = review.object
    obj.setdefault("metadata", {}).setdefault("labels", {})["example.com/seen"] = "yes"
    return Replace(obj)


@mutating("*/*", **EVERYTHING)
def annotate(review: AdmissionReview) -> Mutation:
    return Patch([{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c~d"}}])


@mutating("*/*", **EVERYTHING)
def deny_with_details(review: AdmissionReview) -> Mutation:
    return Deny("not today", reason="Conflict", code=409, details={"retryAfterSeconds": 5})


@validating("*/*", **EVERYTHING)
def allow(review: AdmissionReview) -> Allow:
    return Allow()


@validating("*/*", **EVERYTHING)
def deny(review: AdmissionReview) -> Deny:
    return Deny("never", warnings=["really"], audit={"why": "because"})


def respond(body: Json, *policies: Policy[Any, Any]) -> Json:
    """Return the response to a body, as an API server parses it."""
    review = admission_codec.CODEC.decode(encode_body(body))
    kind = policies[0].kind
    return accept_admission(
        body, encode_response(kind, review, decide(review, *policies, inline=True)), mutating=kind == "mutating"
    )


def without(tree: Any, *path: str) -> Any:
    """Return a copy of a tree without one member."""
    first, *rest = path
    if not rest:
        return {key: value for key, value in tree.items() if key != first}
    return {**tree, first: without(tree[first], *rest)}


@pytest.mark.parametrize(("group", "version"), SPELLINGS)
@pytest.mark.parametrize("name", RECORDED)
def test_api_servers_accept_the_responses(name: str, group: str, version: str) -> None:
    body = with_api_version(RECORDED[name], group, version)
    request = body["request"]
    allowed = respond(body, leave)
    assert allowed["allowed"]
    assert allowed["warnings"] == ["unchanged"]
    assert allowed["auditAnnotations"] == {"changed": "no"}
    assert "patch" not in allowed
    denied = respond(body, deny_with_details)
    assert (denied["allowed"], denied["status"]["code"], denied["status"]["message"]) == (False, 409, "not today")
    assert denied["status"]["details"] == {"retryAfterSeconds": 5}
    assert respond(body, allow)["allowed"]
    assert not respond(body, deny, allow)["allowed"]
    changed = respond(body, label)
    if request["object"] is None:
        assert (changed["allowed"], changed["status"]["code"]) == (False, 500)
    else:
        labels = changed["object"]["metadata"].pop("labels")
        assert labels.pop("example.com/seen") == "yes"
        original = json.loads(json.dumps(request["object"]))
        metadata = original.setdefault("metadata", {})
        assert labels == metadata.pop("labels", {})
        assert repr(changed["object"]) == repr({**original, "metadata": metadata})


def test_recorded_requests_are_decoded_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks.reviews.envelope.load_exactly", lambda raw: pytest.fail("used the slow decoder"))
    for body in RECORDED.values():
        admission_codec.CODEC.decode(encode_body(body))


def test_integers_are_exact_after_a_mutation() -> None:
    numbers = {
        "odd": 9007199254740993,
        "most": MAX_INT,
        "least": MIN_INT,
        "real": 0.1,
        "whole": 3.0,
        "list": [2**53 + 1],
    }
    changed = respond(admission_body(obj={"kind": "Widget", "spec": numbers}), label)
    assert repr(changed["object"]["spec"]) == repr(numbers)

    @mutating("*/*")
    def move(review: AdmissionReview) -> Replace:
        obj = review.object
        return Replace({**obj, "spec": {"moved": obj["spec"]}})

    assert repr(respond(admission_body(obj={"spec": numbers}), move)["object"]["spec"]["moved"]) == repr(numbers)


def test_a_patch_is_sent_unchanged() -> None:
    response = respond(admission_body(obj=pod()), annotate)
    assert response["operations"] == [{"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c~d"}}]


VALID = admission_body(obj=pod())

MALFORMED: dict[str, Any] = {
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


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_rejected(body: Any) -> None:
    raw = encode_body(body)
    with pytest.raises(MalformedReview) as caught:
        admission_codec.CODEC.decode(raw)
    assert caught.value.code == 400
    response = admission_codec.CODEC.encode_denial(raw, str(caught.value), caught.value.code)
    request = body.get("request")
    if not isinstance(request, dict) or request.get("uid") in (None, "", 5):
        assert response is None
        return
    assert response is not None
    parsed = accept_admission(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", **body}, response, mutating=False
    )
    assert (parsed["allowed"], parsed["status"]["code"]) == (False, 400)


def test_formatting_does_not_matter() -> None:
    body = admission_body("UPDATE", pod("<&>"), old=pod())
    for raw in (json.dumps(body, indent=2).encode(), json.dumps(body).encode(), b" " + encode_body(body)):
        review = admission_codec.CODEC.decode(raw)
        assert repr(review.object) == repr(pod("<&>"))
        assert repr(review.old_object) == repr(pod())


def test_html_escapes_are_decoded_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "load_exactly", lambda raw: pytest.fail("used the slow decoder"))
    body = encode_body(admission_body(obj=pod("<&>")))
    assert rb"\u003c\u0026\u003e" in body
    assert admission_codec.CODEC.decode(body).object == pod("<&>")


@pytest.mark.parametrize("code", [400, 413, 422, 500])
def test_a_malformed_body_is_denied(code: int) -> None:
    body = admission_body()
    for raw in (encode_body(body), encode_body(body)[:-3], encode_body(body)[:-3] + b"\xff"):
        response = admission_codec.CODEC.encode_denial(raw, "no <good>", code)
        assert response is not None
        parsed = accept_admission(body, response, mutating=True)
        assert not parsed["allowed"]
        assert parsed["status"]["code"] == code
        assert "no <good>" in parsed["status"]["message"]


def test_a_body_without_uid_is_not_denied() -> None:
    assert admission_codec.CODEC.encode_denial(b'{"kind":"AdmissionReview"}', "bad", 400) is None


def test_a_body_without_kind_is_denied_as_an_admission_review() -> None:
    response = admission_codec.CODEC.encode_denial(b'{"request":{"uid":"42",', "bad", 400)
    assert response is not None
    assert accept_admission(admission_body(uid="42"), response, mutating=False)["status"]["code"] == 400

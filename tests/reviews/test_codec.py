"""What all codecs share: requests that decode to the same review, summaries, and sensitive values."""

import json
from typing import Any

import pytest

from webhooks.errors import MalformedReview
from webhooks.reviews import admission, admission_codec
from webhooks.reviews.codec import ReviewSummary, format_resource
from webhooks.reviews.kinds import CODECS, Kind

from ..support.builders import (
    GROUPS,
    RECORDED,
    access_body,
    admission_body,
    encode_body,
    image_body,
    pod,
    token_body,
    with_api_version,
)

KINDS: dict[str, Kind] = {
    "AdmissionReview": "validating",
    "SubjectAccessReview": "authorizing",
    "TokenReview": "authenticating",
    "ImageReview": "image_policy",
}
BODIES = {
    "admission": admission_body("CREATE", pod(labels={"a": "é\u2028<&>"}), options={"kind": "CreateOptions"}),
    "no object": admission_body("DELETE", None, old=pod()),
    "little": admission_body("CONNECT", ..., old=..., name=..., namespace=..., dryRun=..., options=...),
    "much": admission_body("UPDATE", {"a": [1.0, 2**63 - 1, -0.0, None, {}]}, old={"b": []}, subResource="scale"),
    "access": access_body(verb="get", resource="pods", namespace="a", extra={"k": ["v"]}),
    "path": access_body(nonResourceAttributes={"path": "/metrics", "verb": "get"}),
    "token": token_body("secret", ["a", "b"]),
    "images": image_body("a", "b.io/c:1", annotations={"x.image-policy.k8s.io/y": "z"}),
} | {file.stem: json.loads(file.read_bytes())["body"] for file in sorted(RECORDED.glob("*.json"))}


def public_attributes(review: Any) -> dict[str, Any]:
    """Return all public attributes of a review."""
    names = [name for name in dir(type(review)) if not name.startswith("_") and name != "previous"]
    values = {name: getattr(review, name) for name in names if not callable(getattr(type(review), name))}
    return values | {name: getattr(review, name) for name in getattr(review, "__slots__", ()) if name[0] != "_"}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", [name for name, body in BODIES.items() if body["kind"] in KINDS])
def test_an_encoded_review_decodes_to_the_same_review(name: str, group: str) -> None:
    body = BODIES[name]
    codec = CODECS[KINDS[body["kind"]]]
    review = codec.decode(encode_body(with_api_version(body, group)))
    again = codec.decode(codec.encode_request(review))
    assert repr(again) == repr(review)
    before, after = public_attributes(review), public_attributes(again)
    assert before
    assert after == before


def test_a_malformed_object_is_encoded_unchanged() -> None:
    body = encode_body(admission_body("CREATE", {"a": 1})).replace(b'{"a":1}', b'{"a":1,"a":2}')
    assert b'{"a":1,"a":2}' in admission_codec.CODEC.encode_request(admission_codec.CODEC.decode(body))


def test_changes_of_policies_are_encoded() -> None:
    review = admission_codec.CODEC.decode(encode_body(admission_body("UPDATE", pod(labels={}), old=pod())))
    for operations, labels in (
        ([{"op": "add", "path": "/metadata/labels/a", "value": "b"}], {"a": "b"}),
        ([{"op": "replace", "path": "/spec", "value": {}}], {}),
    ):
        changed = admission.with_object(review, admission.shared_object(review).apply_patch(operations))
        again = admission_codec.CODEC.decode(admission_codec.CODEC.encode_request(changed))
        assert again.object == changed.object != review.object
        assert again.labels == labels
        assert again.old_object == review.old_object


SUMMARIES: dict[str, ReviewSummary] = {
    "admission": ReviewSummary(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002",
        operation="CREATE",
        resource="v1/pods",
        namespace="team-a",
        name="web",
        user="jane",
    ),
    "little": ReviewSummary(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002", operation="CONNECT", resource="v1/pods", user="jane"
    ),
    "access": ReviewSummary(operation="get", resource="/pods", namespace="a", user="jane"),
    "path": ReviewSummary(operation="get", resource="/metrics", user="jane"),
    "token": ReviewSummary(),
    "images": ReviewSummary(namespace="team-a", images=["a", "b.io/c:1"]),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries(name: str) -> None:
    codec = CODECS[KINDS[BODIES[name]["kind"]]]
    summary = ReviewSummary()
    codec.summarize(codec.decode(encode_body(BODIES[name])), summary)
    assert summary == SUMMARIES[name]


@pytest.mark.parametrize(
    ("group", "subresource", "text"),
    [
        ("", "", "v1/pods"),
        ("apps", "", "apps/v1/pods"),
        ("", "log", "v1/pods/log"),
        ("apps", "scale", "apps/v1/pods/scale"),
    ],
)
def test_resources_are_formatted(group: str, subresource: str, text: str) -> None:
    assert format_resource(group, "v1", "pods", subresource) == text


def test_sensitive_values() -> None:
    codec = CODECS["validating"]
    secret = {"kind": "Secret", "data": {"a": "YQ==", "odd": 1}, "stringData": {"b": "b"}}
    kind = {"group": "", "version": "v1", "kind": "Secret"}
    review = codec.decode(
        encode_body(admission_body("UPDATE", secret, old={"kind": "Secret", "data": ["a"]}, kind=kind))
    )
    assert codec.sensitive_values(review) == ["YQ==", "b"]
    malformed = encode_body(admission_body("CREATE", secret, kind=kind)).replace(b'"odd":1', b'"a":1')
    assert codec.sensitive_values(codec.decode(malformed)) == []
    assert codec.sensitive_values(codec.decode(encode_body(BODIES["admission"]))) == []
    assert CODECS["authenticating"].sensitive_values(CODECS["authenticating"].decode(encode_body(BODIES["token"]))) == [
        "secret"
    ]
    for kind_, name in (("authorizing", "access"), ("image_policy", "images")):
        other = CODECS[kind_]  # type: ignore[index]
        assert other.sensitive_values(other.decode(encode_body(BODIES[name]))) == []


@pytest.mark.parametrize("name", ["admission", "access", "token", "images"])
def test_unsupported_versions_are_named(name: str) -> None:
    body = BODIES[name]
    codec = CODECS[KINDS[body["kind"]]]
    with pytest.raises(
        MalformedReview, match=rf"^example.org/v1 {body['kind']} is not a supported version of {codec.kind}$"
    ):
        codec.decode(encode_body({**body, "apiVersion": "example.org/v1"}))


def test_only_admission_reviews_have_a_denial_without_a_review() -> None:
    for kind, codec in CODECS.items():
        body = b'{"request":{"uid":"42",'
        is_admission = kind in ("mutating", "validating")
        assert (codec.encode_denial(body, "no", 400) is not None) is is_admission
        assert codec.request_uid(body) == ("42" if is_admission else "")
        assert codec.request_uid(b"") == ""

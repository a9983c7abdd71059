"""A review that is written again is the same review: so it can be asked about elsewhere."""

import json
from typing import Any

import pytest

from webhooks.reviews import admission, admission_codec
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


def seen(review: Any) -> dict[str, Any]:
    """All that a policy sees of a review."""
    names = [name for name in dir(type(review)) if not name.startswith("_") and name != "previous"]
    found = {name: getattr(review, name) for name in names if not callable(getattr(type(review), name))}
    return found | {name: getattr(review, name) for name in getattr(review, "__slots__", ()) if name[0] != "_"}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", [name for name, body in BODIES.items() if body["kind"] in KINDS])
def test_a_review_survives_being_written(name: str, group: str) -> None:
    body = BODIES[name]
    wire = CODECS[KINDS[body["kind"]]]
    review = wire.decode(encode_body(with_api_version(body, group)))
    again = wire.decode(wire.encode_request(review))
    assert repr(again) == repr(review)
    before, after = seen(review), seen(again)
    assert before
    assert after == before


def test_what_cannot_be_read_stays_so() -> None:
    body = encode_body(admission_body("CREATE", {"a": 1})).replace(b'{"a":1}', b'{"a":1,"a":2}')
    assert b'{"a":1,"a":2}' in admission_codec.CODEC.encode_request(admission_codec.CODEC.decode(body))


def test_what_policies_changed_is_in_it() -> None:
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

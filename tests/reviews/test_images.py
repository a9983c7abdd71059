"""ImageReview: decoding, encoding, and the view of policies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks import Allow, Decision, Deny, ImageReference
from webhooks.errors import MalformedReview
from webhooks.reviews import images

from ..support.api_server import accept_images
from ..support.builders import GROUPS, Json, encode_body, image_body, image_review, recorded_bodies, with_api_version

RECORDED = recorded_bodies("/images")
OUTCOMES: list[tuple[Decision, Json]] = [
    (Allow(), {"allowed": True}),
    (Allow(reason="not shown", warnings=["not shown"]), {"allowed": True}),
    (Allow(audit={"checked": "yes"}), {"allowed": True, "auditAnnotations": {"checked": "yes"}}),
    (Deny("unsigned"), {"allowed": False, "reason": "unsigned"}),
    (
        Deny("unsigned", code=422, audit={"image": "app"}),
        {"allowed": False, "reason": "unsigned", "auditAnnotations": {"image": "app"}},
    ),
]


def respond(body: Json, outcome: Decision) -> Json:
    return accept_images(body, images.CODEC.encode(images.CODEC.decode(encode_body(body)), outcome))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("outcome", "status"), OUTCOMES, ids=repr)
@pytest.mark.parametrize("name", RECORDED)
def test_api_servers_accept_the_responses(name: str, group: str, outcome: Decision, status: Json) -> None:
    assert respond(with_api_version(RECORDED[name], group), outcome) == status


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_are_decoded(name: str) -> None:
    spec = RECORDED[name]["spec"]
    review = images.CODEC.decode(encode_body(RECORDED[name]))
    assert review.images == [container["image"] for container in spec["containers"]]
    assert review.annotations == spec.get("annotations", {})
    assert review.namespace == spec["namespace"]


def test_images_are_parsed_as_references() -> None:
    review = image_review("nginx", "registry.example.com/app:1")
    assert review.references == [
        ImageReference("docker.io", "library/nginx", "latest"),
        ImageReference("registry.example.com", "app", "1"),
    ]
    with pytest.raises(ValueError, match="invalid image reference"):
        _ = image_review("nginx", "UPPER").references
    assert repr(review) == "<ImageReview team-a: nginx, registry.example.com/app:1>"


@pytest.mark.parametrize(
    "spec",
    [{}, {"containers": None, "annotations": None}, {"containers": [], "annotations": {}, "namespace": ""}],
    ids=repr,
)
def test_missing_fields_are_empty(spec: Json) -> None:
    review = images.CODEC.decode(encode_body({**image_body(), "spec": spec}))
    assert (review.images, review.annotations, review.namespace, review.references) == ([], {}, "", [])


def test_a_container_without_an_image_is_listed() -> None:
    assert images.CODEC.decode(encode_body({**image_body(), "spec": {"containers": [{}, {"image": "a"}]}})).images == [
        "",
        "a",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Image"},
        {"apiVersion": "imagepolicy.k8s.io/v1"},
        {"apiVersion": "imagepolicy.example.org/v1alpha1"},
        {"spec": None},
        {"spec": []},
        {"spec": {"containers": "nginx"}},
        {"spec": {"containers": ["nginx"]}},
        {"spec": {"containers": [{"image": 5}]}},
        {"spec": {"containers": [{"image": None}]}},
        {"spec": {"annotations": {"a": 5}}},
        {"spec": {"annotations": ["a"]}},
        {"spec": {"namespace": 5}},
    ],
    ids=repr,
)
def test_malformed_requests_are_rejected(change: Json) -> None:
    with pytest.raises(MalformedReview) as caught:
        images.CODEC.decode(encode_body({**image_body("nginx"), **change}))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "spec",
    ['{"containers":[],"containers":[{"image":"a"}]}', '{"containers":[{"image":"a","image":"b"}]}', '{"a":NaN}'],
)
def test_requests_are_decoded_strictly(spec: str) -> None:
    body = f'{{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1alpha1","spec":{spec}}}'
    with pytest.raises(MalformedReview) as caught:
        images.CODEC.decode(body.encode())
    assert caught.value.code == 400


def test_every_policy_has_its_own_review() -> None:
    review = image_review("nginx", annotations={"a": "b"})
    review.images.clear()
    review.annotations.clear()
    review.namespace = "other"
    other = review.copy()
    assert (other.images, other.annotations, other.namespace) == (["nginx"], {"a": "b"}, "team-a")


@given(st.text(min_size=1))
def test_any_message_is_encoded(message: str) -> None:
    status: Any = respond(image_body("nginx"), Deny(message))
    assert status == {"allowed": False, "reason": message}

from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, decide, pod
from .other_objects import REQUESTS_BY_RESOURCE

[required_annotations] = load(["library:required_annotations"])

OWNER = {"key": "example.com/owner"}
PAGE = {"key": "example.com/page", "allowedRegex": "https://.+"}


def annotated(annotations: Any) -> Json:
    return {**pod(), "metadata": {"name": "web", "annotations": annotations}}


ANNOTATED: list[tuple[Json, Any, str | None]] = [
    ({}, {"kubernetes.io/description": "a web server"}, None),
    ({}, {}, "annotation kubernetes.io/description is missing"),
    ({}, None, "annotation kubernetes.io/description is missing"),
    ({"annotations": []}, None, None),
    ({"annotations": [OWNER]}, {"example.com/owner": ""}, None),
    (
        {"annotations": [OWNER, PAGE]},
        {},
        "annotation example.com/owner is missing; annotation example.com/page is missing",
    ),
    ({"annotations": [PAGE]}, {"example.com/page": "https://example.com"}, None),
    (
        {"annotations": [PAGE]},
        {"example.com/page": "see https://example.com"},
        "annotation example.com/page must match 'https://.+', not be 'see https://example.com'",
    ),
    (
        {"annotations": [PAGE]},
        {"example.com/page": "https://a\n"},
        "annotation example.com/page must match 'https://.+', not be 'https://a\\n'",
    ),
    (
        {"annotations": [PAGE]},
        {"example.com/page": "x" * 1000},
        f"annotation example.com/page must match 'https://.+', not be '{'x' * 60}...'",
    ),
    ({"annotations": [{**OWNER, "allowedRegex": ""}]}, {"example.com/owner": "any"}, None),
    ({"annotations": [OWNER], "message": "ask the team"}, {}, "ask the team"),
]


@pytest.mark.parametrize(("parameters", "annotations", "message"), ANNOTATED)
def test_annotations_are_required(parameters: Json, annotations: Any, message: str | None) -> None:
    policy = required_annotations.bind(**parameters)
    good = {"kubernetes.io/description": "x", "example.com/owner": "x", "example.com/page": "https://x"}
    for operation in ("CREATE", "UPDATE"):
        review = admission_review(operation, annotated(annotations), old=annotated(good))
        assert policy(review) == (Allow() if message is None else Deny(message))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({}, {}, None),
        ({"example.com/page": "no"}, {"example.com/page": "no", "example.com/other": "x"}, None),
        ({"example.com/page": "no"}, {"example.com/page": "https://x"}, None),
        ({"example.com/page": "no"}, {}, "annotation example.com/page is missing"),
        ({}, {"example.com/page": "no"}, "annotation example.com/page must match 'https://.+', not be 'no'"),
    ],
)
def test_existing_violations_are_allowed(old: dict[str, str], new: dict[str, str], message: str | None) -> None:
    policy = required_annotations.bind(annotations=[PAGE])
    outcome = policy(admission_review("UPDATE", annotated(new), old=annotated(old)))
    assert outcome == (Allow() if message is None else Deny(message))


def test_deletion_needs_no_annotations() -> None:
    assert required_annotations(admission_review("DELETE", old=pod())) == Allow()


def test_only_annotations_are_decoded() -> None:
    review = admission_review("UPDATE", annotated({"kubernetes.io/description": "a"}), old=pod())
    assert required_annotations(review) == Allow()
    assert not review.object_accessed


@pytest.mark.parametrize(("request_", "expected"), REQUESTS_BY_RESOURCE)
def test_matching_resources(request_: Json, expected: bool) -> None:
    assert required_annotations.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize(
    "annotations",
    ["owner", ["owner"], [{}], [{"key": 5}], [{"key": "owner", "allowedRegex": 5}], {"key": "owner"}, None],
    ids=repr,
)
def test_parameters_are_checked(annotations: Any) -> None:
    with pytest.raises(ConfigurationError):
        required_annotations.bind(annotations=annotations)


def test_an_invalid_expression_denies_everything() -> None:
    policy = required_annotations.bind(annotations=[{**OWNER, "allowedRegex": "("}])
    outcome = decide(admission_review(obj=annotated({"example.com/owner": "a"})), policy).outcome
    assert isinstance(outcome, Deny)
    assert outcome.code == 500


@pytest.mark.parametrize("annotations", ["owner", ["owner"], {"owner": 5}, {"owner": None}], ids=repr)
def test_malformed_annotations_are_malformed(annotations: Any) -> None:
    with pytest.raises(MalformedReview):
        decide(admission_review(obj=annotated(annotations)), required_annotations)

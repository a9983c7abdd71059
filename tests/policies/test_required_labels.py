from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, decide, pod
from .other_objects import REQUESTS_BY_RESOURCE

[required_labels] = load(["library:required_labels"])

OWNER = {"key": "owner"}
GOOD = {"owner": "x", "env": "prod", "team": "x"}
ENVIRONMENT = {"key": "env", "allowedRegex": "prod|test"}

LABELLED: list[tuple[Json, dict[str, str] | None, str | None]] = [
    ({}, {"owner": "team-a"}, None),
    ({}, {"owner": ""}, None),
    ({}, {"app": "web"}, "label owner is missing"),
    ({}, {}, "label owner is missing"),
    ({}, None, "label owner is missing"),
    ({"labels": []}, None, None),
    ({"labels": [OWNER, {"key": "team"}]}, {"app": "web"}, "label owner is missing; label team is missing"),
    ({"labels": [OWNER, {"key": "team"}]}, {"team": "a"}, "label owner is missing"),
    ({"labels": [ENVIRONMENT]}, {"env": "prod"}, None),
    ({"labels": [ENVIRONMENT]}, {"env": "test"}, None),
    ({"labels": [ENVIRONMENT]}, {"env": "production"}, "label env must match 'prod|test', not be 'production'"),
    ({"labels": [ENVIRONMENT]}, {"env": "a-prod"}, "label env must match 'prod|test', not be 'a-prod'"),
    ({"labels": [ENVIRONMENT]}, {"env": "prod\n"}, "label env must match 'prod|test', not be 'prod\\n'"),
    ({"labels": [ENVIRONMENT]}, {"env": ""}, "label env must match 'prod|test', not be ''"),
    (
        {"labels": [ENVIRONMENT, OWNER]},
        {"env": "no"},
        "label env must match 'prod|test', not be 'no'; label owner is missing",
    ),
    ({"labels": [{"key": "owner", "allowedRegex": ""}]}, {"owner": "any"}, None),
    ({"labels": [{"key": "owner", "allowedRegex": ".*@example\\.org"}]}, {"owner": "a@example.org"}, None),
    ({"message": "ask the team"}, {}, "ask the team"),
    ({"labels": [ENVIRONMENT], "message": "prod or test"}, {"env": "no"}, "prod or test"),
]


@pytest.mark.parametrize(("parameters", "labels", "message"), LABELLED)
def test_labels_are_required(parameters: Json, labels: dict[str, str] | None, message: str | None) -> None:
    policy = required_labels.bind(**parameters)
    for operation in ("CREATE", "UPDATE"):
        review = admission_review(operation, pod(labels=labels), old=pod(labels=GOOD))
        assert policy(review) == (Allow() if message is None else Deny(message))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({}, {}, None),
        ({}, {"app": "web"}, None),
        ({"owner": "a"}, {}, "label owner is missing"),
        ({"owner": "a", "env": "prod"}, {"owner": "b", "env": "test"}, None),
        ({"env": "no"}, {"env": "no"}, None),
        ({"env": "no"}, {"env": "prod"}, None),
        ({"env": "no"}, {"env": "never"}, "label env must match 'prod|test', not be 'never'"),
        ({"env": "no"}, {}, "label env is missing"),
        ({}, {"env": "no"}, "label env must match 'prod|test', not be 'no'"),
    ],
)
def test_existing_violations_are_allowed(old: dict[str, str], new: dict[str, str], message: str | None) -> None:
    policy = required_labels.bind(labels=[OWNER, ENVIRONMENT])
    outcome = policy(admission_review("UPDATE", pod(labels=new), old=pod(labels=old)))
    assert outcome == (Allow() if message is None else Deny(message))


def test_deletion_needs_no_labels() -> None:
    assert required_labels(admission_review("DELETE", old=pod())) == Allow()


def test_only_labels_are_decoded() -> None:
    review = admission_review("UPDATE", pod(labels={"owner": "a"}), old=pod())
    assert required_labels(review) == Allow()
    assert not review.object_accessed


@pytest.mark.parametrize(("request_", "expected"), REQUESTS_BY_RESOURCE)
def test_matching_resources(request_: Json, expected: bool) -> None:
    verdict = decide(admission_review(**{"obj": pod(), **request_}), required_labels) if expected else None
    assert required_labels.match.matches_resource(admission_review(**request_)) is expected
    assert verdict is None or isinstance(verdict.outcome, Deny)


@pytest.mark.parametrize(
    "labels",
    ["owner", ["owner"], [{}], [{"key": 5}], [{"key": "owner", "allowedRegex": 5}], {"key": "owner"}, None],
    ids=repr,
)
def test_parameters_are_checked(labels: Any) -> None:
    with pytest.raises(ConfigurationError):
        required_labels.bind(labels=labels)


def test_an_invalid_expression_denies_everything() -> None:
    policy = required_labels.bind(labels=[{"key": "owner", "allowedRegex": "("}])
    verdict = decide(admission_review(obj=pod(labels={"owner": "a"})), policy)
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.code == 500


@pytest.mark.parametrize("labels", ["owner", ["owner"], {"owner": 5}, {"owner": None}], ids=repr)
def test_malformed_labels_are_malformed(labels: Any) -> None:
    with pytest.raises(MalformedReview):
        decide(
            admission_review(obj=pod(labels=labels)),
            required_labels.bind(labels=[{"key": "owner", "allowedRegex": "."}]),
        )

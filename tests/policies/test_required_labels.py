from typing import Any

import pytest

from webhooks import Allow, Deny
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.loading import load

from ..builders import Json, admission_review, decide, pod

[required_labels] = load(["library:required_labels"])

OWNER = {"key": "owner"}
ENVIRONMENT = {"key": "env", "allowedRegex": "prod|test"}

LABELLED: list[tuple[Json, dict[str, str] | None, str | None]] = [
    ({}, {"owner": "team-a"}, None),
    ({}, {"owner": ""}, None),
    ({}, {"app": "web"}, "missing labels: owner"),
    ({}, {}, "missing labels: owner"),
    ({}, None, "missing labels: owner"),
    ({"labels": []}, None, None),
    ({"labels": [OWNER, {"key": "team"}]}, {"app": "web"}, "missing labels: owner, team"),
    ({"labels": [OWNER, {"key": "team"}]}, {"team": "a"}, "missing labels: owner"),
    ({"labels": [ENVIRONMENT]}, {"env": "prod"}, None),
    ({"labels": [ENVIRONMENT]}, {"env": "test"}, None),
    ({"labels": [ENVIRONMENT]}, {"env": "production"}, "label env: 'production' does not match 'prod|test'"),
    ({"labels": [ENVIRONMENT]}, {"env": "a-prod"}, "label env: 'a-prod' does not match 'prod|test'"),
    ({"labels": [ENVIRONMENT]}, {"env": "prod\n"}, "label env: 'prod\\n' does not match 'prod|test'"),
    ({"labels": [ENVIRONMENT]}, {"env": ""}, "label env: '' does not match 'prod|test'"),
    ({"labels": [ENVIRONMENT, OWNER]}, {"env": "no"}, "missing labels: owner"),
    ({"labels": [{"key": "owner", "allowedRegex": ""}]}, {"owner": "any"}, None),
    ({"labels": [{"key": "owner", "allowedRegex": ".*@example\\.org"}]}, {"owner": "a@example.org"}, None),
    ({"message": "ask the team"}, {}, "ask the team"),
    ({"labels": [ENVIRONMENT], "message": "prod or test"}, {"env": "no"}, "prod or test"),
]


@pytest.mark.parametrize(("parameters", "labels", "message"), LABELLED)
def test_labels_are_required(parameters: Json, labels: dict[str, str] | None, message: str | None) -> None:
    policy = required_labels.bind(**parameters)
    for operation in ("CREATE", "UPDATE"):
        review = admission_review(operation, pod(labels=labels), old=pod(labels={"owner": "x", "env": "prod"}))
        assert policy(review) == (Allow() if message is None else Deny(message))


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, True),
        ({"operation": "DELETE"}, False),
        ({"operation": "CONNECT", "subResource": "exec"}, False),
        ({"operation": "UPDATE", "subResource": "status"}, False),
        ({"resource": "v1/namespaces"}, True),
        ({"resource": "v1/secrets"}, False),
        ({"resource": "apps/v1/deployments"}, True),
        ({"resource": "apps/v1/deployments", "subResource": "scale"}, False),
        ({"resource": "batch/v1/cronjobs"}, True),
    ],
)
def test_it_asks_about_what_people_make(request_: Json, wanted: bool) -> None:
    verdict = decide(admission_review(**{"obj": pod(), **request_}), required_labels) if wanted else None
    assert required_labels.match.wants_kind(admission_review(**request_)) is wanted
    assert verdict is None or isinstance(verdict.outcome, Deny)


@pytest.mark.parametrize(
    "labels",
    ["owner", ["owner"], [{}], [{"key": 5}], [{"key": "owner", "allowedRegex": 5}], {"key": "owner"}, None],
    ids=repr,
)
def test_its_parameters_are_checked(labels: Any) -> None:
    with pytest.raises(ConfigurationError):
        required_labels.bind(labels=labels)


def test_an_expression_that_is_none_denies() -> None:
    policy = required_labels.bind(labels=[{"key": "owner", "allowedRegex": "("}])
    verdict = decide(admission_review(obj=pod(labels={"owner": "a"})), policy)
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.code == 500


@pytest.mark.parametrize("labels", ["owner", ["owner"], {"owner": 5}, {"owner": None}], ids=repr)
def test_misshapen_labels_are_malformed(labels: Any) -> None:
    with pytest.raises(MalformedReview):
        decide(
            admission_review(obj=pod(labels=labels)),
            required_labels.bind(labels=[{"key": "owner", "allowedRegex": "."}]),
        )

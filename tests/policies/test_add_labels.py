from typing import Any

import pytest

from webhooks import Allow
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy.loader import load

from ..support.builders import Json, admission_review, decide, pod
from .mutations import mutated_object
from .pods import RESOURCES, make_object, pod_spec

[add_labels] = load(["library:add_labels"])

LABELS = {"region": "eu-1", "example.com/team": "a~b"}

LABELLED: list[tuple[dict[str, str] | None, dict[str, str]]] = [
    (None, LABELS),
    ({}, LABELS),
    ({"app": "web"}, {"app": "web", **LABELS}),
    ({"region": "eu-2"}, {**LABELS, "region": "eu-2"}),
    ({"region": ""}, {**LABELS, "region": ""}),
    ({**LABELS, "app": "web"}, {**LABELS, "app": "web"}),
]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(("labels", "result"), LABELLED, ids=repr)
def test_missing_values_are_added(labels: dict[str, str] | None, result: dict[str, str], operation: str) -> None:
    for obj in (pod(labels=labels), {"kind": "Namespace", "metadata": {"name": "web", "labels": labels}}):
        changed = mutated_object(add_labels.bind(labels=LABELS), obj, operation=operation, old=pod())
        assert changed == {**obj, "metadata": {"name": "web", "labels": result}}


@pytest.mark.parametrize("kind", sorted(RESOURCES.keys() - {"PodTemplate", "ReplicationController"}))
def test_templates_are_not_changed(kind: str) -> None:
    obj = make_object(kind, pod_spec())
    assert mutated_object(add_labels.bind(labels=LABELS), obj) == {**obj, "metadata": {"name": "web", "labels": LABELS}}


def test_nothing_is_added_by_default() -> None:
    assert add_labels(admission_review(obj=pod())) == Allow()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, True),
        ({"operation": "DELETE"}, False),
        ({"operation": "CONNECT", "subResource": "exec"}, False),
        ({"operation": "UPDATE", "subResource": "status"}, False),
        ({"resource": "v1/namespaces"}, True),
        ({"resource": "v1/namespaces", "subResource": "finalize"}, False),
        ({"resource": "v1/secrets"}, False),
        ({"resource": "apps/v1/deployments"}, True),
        ({"resource": "apps/v1/deployments", "subResource": "scale"}, False),
        ({"resource": "batch/v1/cronjobs"}, True),
    ],
)
def test_matching_resources(request_: Json, expected: bool) -> None:
    assert add_labels.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize("labels", ["owner", ["owner"], {"owner": 5}, {"owner": None}], ids=repr)
def test_malformed_labels_are_malformed(labels: Any) -> None:
    with pytest.raises(MalformedReview):
        decide(admission_review(obj=pod(labels=labels)), add_labels.bind(labels=LABELS))


@pytest.mark.parametrize("labels", ["owner", ["owner"], {"owner": 5}, None], ids=repr)
def test_parameters_are_checked(labels: Any) -> None:
    with pytest.raises(ConfigurationError):
        add_labels.bind(labels=labels)

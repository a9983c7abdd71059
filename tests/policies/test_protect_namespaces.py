from typing import Any

import pytest

from webhooks import Deny, NoOpinion, Opinion
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, access_review

[protect_namespaces] = load(["library:protect_namespaces"])

TOGETHER = "delete namespaces one by one, because some are protected: default, kube-*"
KUBE_SYSTEM = "namespace kube-system is protected and must not be deleted"
REQUESTS: list[tuple[Json, Json, str | None]] = [
    ({}, {"name": "kube-system"}, KUBE_SYSTEM),
    ({}, {"name": "kube-"}, "namespace kube- is protected and must not be deleted"),
    ({}, {"name": "default"}, "namespace default is protected and must not be deleted"),
    ({}, {"name": "defaults"}, None),
    ({}, {"name": "team-a"}, None),
    ({}, {"name": "KUBE-SYSTEM"}, None),
    ({}, {"name": ""}, TOGETHER),
    ({}, {"verb": "deletecollection"}, TOGETHER),
    ({}, {"verb": "deletecollection", "name": ""}, TOGETHER),
    ({"namespaces": ["team-?"]}, {"name": "team-a"}, "namespace team-a is protected and must not be deleted"),
    ({"namespaces": ["team-?"]}, {"name": "kube-system"}, None),
    ({"namespaces": []}, {"name": "kube-system"}, None),
    ({"namespaces": []}, {"verb": "deletecollection"}, None),
    ({"except_groups": ["dev"]}, {"name": "kube-system"}, None),
    ({"except_groups": ["dev"]}, {"verb": "deletecollection"}, None),
    (
        {"except_groups": ["ops", "admins"]},
        {"name": "kube-system"},
        KUBE_SYSTEM,
    ),
    ({"except_groups": ["*"]}, {"name": "kube-system"}, KUBE_SYSTEM),
    (
        {"except_groups": ["dev"]},
        {"name": "kube-system", "groups": []},
        KUBE_SYSTEM,
    ),
]


def deleting(**spec: Any) -> Any:
    return access_review(**{"verb": "delete", "version": "v1", "resource": "namespaces", **spec})


@pytest.mark.parametrize(("parameters", "spec", "message"), REQUESTS, ids=repr)
def test_deletion_of_namespaces(parameters: Json, spec: Json, message: str | None) -> None:
    opinion: Opinion = protect_namespaces.bind(**parameters)(deleting(**spec))
    assert opinion == (NoOpinion() if message is None else Deny(message))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"verb": "deletecollection"}, True),
        ({"verb": "get"}, False),
        ({"verb": "update"}, False),
        ({"resource": "pods", "namespace": "kube-system"}, False),
        ({"subresource": "finalize"}, False),
        ({"group": "example.org"}, False),
        ({"version": "v2"}, True),
    ],
    ids=repr,
)
def test_it_matches_only_the_deletion_of_namespaces(spec: Json, expected: bool) -> None:
    assert protect_namespaces.match.matches_resource(deleting(**{"name": "kube-system", **spec})) is expected


def test_it_matches_no_paths() -> None:
    review = access_review(nonResourceAttributes={"path": "/api/v1/namespaces/kube-system", "verb": "delete"})
    assert not protect_namespaces.match.matches_resource(review)


@pytest.mark.parametrize("name", ["namespaces", "except_groups"])
@pytest.mark.parametrize("value", ["kube-system", [5], None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        protect_namespaces.bind(**{name: value})

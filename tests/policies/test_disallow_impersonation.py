from typing import Any

import pytest

from webhooks import Deny, NoOpinion
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, access_review

[disallow_impersonation] = load(["library:disallow_impersonation"])

SYSTEM = {"names": ["system:*"]}
ACCOUNTS = {"names": ["system:serviceaccount:kube-system:*", "system:node:*"]}

# Parameters, a request, and the message of a denial; None for no opinion.
REQUESTS: list[tuple[Json, Json, str | None]] = [
    ({}, {"name": "joe"}, "impersonating joe is not allowed"),
    ({}, {"name": ""}, "impersonating all users is not allowed"),
    ({}, {"name": "*"}, "impersonating all users is not allowed"),
    ({}, {"resource": "uids", "group": "authentication.k8s.io", "name": "1"}, "impersonating 1 is not allowed"),
    ({}, {"resource": "userextras", "subresource": "scopes", "name": "all"}, "impersonating all is not allowed"),
    ({"names": []}, {"name": "joe"}, None),
    ({"names": []}, {"name": ""}, None),
    (SYSTEM, {"name": "joe"}, None),
    (SYSTEM, {"name": "System:admin"}, None),
    (SYSTEM, {"name": "system:admin"}, "impersonating system:admin is not allowed"),
    (SYSTEM, {"name": ""}, "impersonating all users is not allowed"),
    (SYSTEM, {"resource": "groups", "name": "system:masters"}, "impersonating system:masters is not allowed"),
    (SYSTEM, {"resource": "groups", "name": "dev"}, None),
    (ACCOUNTS, {"resource": "serviceaccounts", "namespace": "team-a", "name": "web"}, None),
    (
        ACCOUNTS,
        {"resource": "serviceaccounts", "namespace": "kube-system", "name": "web"},
        "impersonating system:serviceaccount:kube-system:web is not allowed",
    ),
    (ACCOUNTS, {"resource": "serviceaccounts", "name": ""}, "impersonating all serviceaccounts is not allowed"),
    (ACCOUNTS, {"resource": "nodes", "name": "node-1"}, "impersonating system:node:node-1 is not allowed"),
    (ACCOUNTS, {"resource": "nodes", "namespace": "", "name": "*"}, "impersonating all nodes is not allowed"),
    (
        ACCOUNTS,
        {"name": "system:serviceaccount:kube-system:web"},
        "impersonating system:serviceaccount:kube-system:web is not allowed",
    ),
    ({"except_users": ["jane"]}, {"name": "joe"}, None),
    ({"except_users": ["jan*", "JANE"]}, {"name": "joe"}, "impersonating joe is not allowed"),
    ({"except_groups": ["ops", "dev"]}, {"name": "joe"}, None),
    ({"except_groups": ["ops", "*"]}, {"name": "joe"}, "impersonating joe is not allowed"),
    ({"except_groups": ["dev"]}, {"name": "joe", "groups": None}, "impersonating joe is not allowed"),
]


def impersonating(**spec: Any) -> Any:
    return access_review(**{"verb": "impersonate", "version": "v1", "resource": "users", **spec})


@pytest.mark.parametrize("verb", ["impersonate", "impersonate:user-info"])
@pytest.mark.parametrize(("parameters", "spec", "message"), REQUESTS, ids=repr)
def test_impersonation(parameters: Json, spec: Json, message: str | None, verb: str) -> None:
    review = impersonating(**spec, verb=verb)
    assert disallow_impersonation.match.matches_resource(review)
    opinion = disallow_impersonation.bind(**parameters)(review)
    if message is None:
        assert opinion == NoOpinion()
    else:
        assert isinstance(opinion, Deny)
        assert opinion.message.startswith(message)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"resource": "groups"}, True),
        ({"resource": "serviceaccounts", "verb": "impersonate:serviceaccount"}, True),
        ({"resource": "nodes", "verb": "impersonate:arbitrary-node", "group": "authentication.k8s.io"}, True),
        ({"resource": "userextras", "subresource": "scopes", "group": "authentication.k8s.io"}, True),
        ({"resource": "userextras", "subresource": "scopes", "group": "authentication.svc.io"}, True),
        ({"resource": "uids", "group": "authentication.k8s.io"}, True),
        ({"verb": "get", "resource": "serviceaccounts"}, False),
        ({"verb": "create", "resource": "serviceaccounts", "subresource": "token"}, False),
        ({"resource": "pods"}, False),
    ],
    ids=repr,
)
def test_it_matches_only_impersonation(spec: Json, expected: bool) -> None:
    assert disallow_impersonation.match.matches_resource(impersonating(**{"name": "joe", **spec})) is expected


def test_it_matches_no_paths() -> None:
    review = access_review(nonResourceAttributes={"path": "/users", "verb": "impersonate"})
    assert not disallow_impersonation.match.matches_resource(review)


@pytest.mark.parametrize("name", ["names", "except_users", "except_groups"])
@pytest.mark.parametrize("value", ["system:*", [5], None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        disallow_impersonation.bind(**{name: value})

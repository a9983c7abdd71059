from typing import Any

import pytest

from webhooks import Deny, NoOpinion
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, access_review

[deny_impersonation] = load(["library:deny_impersonation"])

SYSTEM = {"names": ["system:*"]}
ACCOUNTS = {"names": ["system:serviceaccount:kube-system:*", "system:node:*"]}

# Parameters, a request, and the denial's message; None where others decide.
REQUESTS: list[tuple[Json, Json, str | None]] = [
    ({}, {"name": "joe"}, "joe may not be impersonated"),
    ({}, {"name": ""}, "users may not all be impersonated"),
    ({}, {"name": "*"}, "users may not all be impersonated"),
    ({}, {"resource": "uids", "group": "authentication.k8s.io", "name": "1"}, "1 may not be impersonated"),
    ({}, {"resource": "userextras", "subresource": "scopes", "name": "all"}, "all may not be impersonated"),
    ({"names": []}, {"name": "joe"}, None),
    ({"names": []}, {"name": ""}, None),
    (SYSTEM, {"name": "joe"}, None),
    (SYSTEM, {"name": "System:admin"}, None),
    (SYSTEM, {"name": "system:admin"}, "system:admin may not be impersonated"),
    (SYSTEM, {"name": ""}, "users may not all be impersonated"),
    (SYSTEM, {"resource": "groups", "name": "system:masters"}, "system:masters may not be impersonated"),
    (SYSTEM, {"resource": "groups", "name": "dev"}, None),
    (ACCOUNTS, {"resource": "serviceaccounts", "namespace": "team-a", "name": "web"}, None),
    (
        ACCOUNTS,
        {"resource": "serviceaccounts", "namespace": "kube-system", "name": "web"},
        "system:serviceaccount:kube-system:web may not be impersonated",
    ),
    (ACCOUNTS, {"resource": "serviceaccounts", "name": ""}, "serviceaccounts may not all be impersonated"),
    (ACCOUNTS, {"resource": "nodes", "name": "node-1"}, "system:node:node-1 may not be impersonated"),
    (ACCOUNTS, {"resource": "nodes", "namespace": "", "name": "*"}, "nodes may not all be impersonated"),
    (ACCOUNTS, {"name": "system:serviceaccount:kube-system:web"}, "system:serviceaccount:kube-system:web may not be"),
    ({"except_users": ["jane"]}, {"name": "joe"}, None),
    ({"except_users": ["jan*", "JANE"]}, {"name": "joe"}, "joe may not be impersonated"),
    ({"except_groups": ["ops", "dev"]}, {"name": "joe"}, None),
    ({"except_groups": ["ops", "*"]}, {"name": "joe"}, "joe may not be impersonated"),
    ({"except_groups": ["dev"]}, {"name": "joe", "groups": None}, "joe may not be impersonated"),
]


def impersonating(**spec: Any) -> Any:
    return access_review(**{"verb": "impersonate", "version": "v1", "resource": "users", **spec})


@pytest.mark.parametrize("verb", ["impersonate", "impersonate:user-info"])
@pytest.mark.parametrize(("parameters", "spec", "message"), REQUESTS, ids=repr)
def test_who_may_not_be_impersonated(parameters: Json, spec: Json, message: str | None, verb: str) -> None:
    review = impersonating(**spec, verb=verb)
    assert deny_impersonation.match.matches_resource(review)
    opinion = deny_impersonation.bind(**parameters)(review)
    if message is None:
        assert opinion == NoOpinion()
    else:
        assert isinstance(opinion, Deny)
        assert opinion.message.startswith(message)


@pytest.mark.parametrize(
    ("spec", "wanted"),
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
def test_it_asks_about_impersonation_alone(spec: Json, wanted: bool) -> None:
    assert deny_impersonation.match.matches_resource(impersonating(**{"name": "joe", **spec})) is wanted


def test_it_asks_about_no_paths() -> None:
    review = access_review(nonResourceAttributes={"path": "/users", "verb": "impersonate"})
    assert not deny_impersonation.match.matches_resource(review)


@pytest.mark.parametrize("name", ["names", "except_users", "except_groups"])
@pytest.mark.parametrize("value", ["system:*", [5], None], ids=repr)
def test_its_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        deny_impersonation.bind(**{name: value})

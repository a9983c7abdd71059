from typing import Any

import pytest

from webhooks import Deny, NoOpinion
from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json, access_review

[read_only_groups] = load(["library:read_only_groups"])

READ_ONLY = "members of auditors have only read access: they must not"

# Requests of a member, and the message of a denial; None for no opinion.
REQUESTS: list[tuple[Json, str | None]] = [
    *(({"verb": verb, "resource": "pods"}, None) for verb in ("get", "list", "watch")),
    *(
        ({"verb": verb, "resource": "pods", "name": "web"}, f"{READ_ONLY} {verb} pods")
        for verb in ("create", "update", "patch", "delete", "deletecollection", "bind", "escalate", "*", "", "GET")
    ),
    ({"verb": "impersonate", "resource": "users", "name": "joe"}, f"{READ_ONLY} impersonate users"),
    ({"verb": "get", "resource": "pods", "subresource": "log"}, None),
    ({"verb": "get", "resource": "pods", "subresource": "status"}, None),
    *(
        ({"verb": "get", "resource": "pods", "subresource": subresource}, f"{READ_ONLY} get pods/{subresource}")
        for subresource in ("exec", "attach", "portforward", "proxy", "*")
    ),
    ({"verb": "get", "resource": "nodes", "subresource": "proxy"}, f"{READ_ONLY} get nodes/proxy"),
    ({"verb": "create", "resource": "selfsubjectaccessreviews", "group": "authorization.k8s.io"}, None),
    ({"verb": "create", "resource": "selfsubjectreviews", "group": "authentication.svc.io"}, None),
    (
        {"verb": "create", "resource": "selfsubjectthings", "group": "example.org"},
        f"{READ_ONLY} create selfsubjectthings",
    ),
    (
        {"verb": "create", "resource": "subjectaccessreviews", "group": "authorization.k8s.io"},
        f"{READ_ONLY} create subjectaccessreviews",
    ),
    *(({"nonResourceAttributes": {"path": "/healthz", "verb": verb}}, None) for verb in ("get", "head", "options")),
    *(
        ({"nonResourceAttributes": {"path": "/debug", "verb": verb}}, f"{READ_ONLY} {verb} /debug")
        for verb in ("post", "put", "delete", "")
    ),
]


@pytest.mark.parametrize(("spec", "message"), REQUESTS, ids=repr)
def test_members_only_read(spec: Json, message: str | None) -> None:
    policy = read_only_groups.bind(groups=["others", "auditors"])
    review = access_review(**spec, groups=["admins", "auditors"])
    assert policy.match.matches_resource(review)
    assert policy(review) == (NoOpinion() if message is None else Deny(message))
    for groups in (["admins"], [], None, ["auditors2"], ["AUDITORS"]):
        assert policy(access_review(**spec, groups=groups)) == NoOpinion()


def test_read_verbs_are_a_parameter() -> None:
    policy = read_only_groups.bind(groups=["dev"], verbs=["get"])
    assert policy(access_review(verb="get", resource="pods")) == NoOpinion()
    assert isinstance(policy(access_review(verb="list", resource="pods")), Deny)


def test_subresources_are_a_parameter() -> None:
    policy = read_only_groups.bind(groups=["dev"], except_subresources=["vnc"])
    request = {"verb": "get", "group": "subresources.kubevirt.io", "resource": "virtualmachineinstances"}
    assert policy(access_review(**request, subresource="vnc")) != NoOpinion()
    assert policy(access_review(**request, subresource="*")) != NoOpinion()
    assert policy(access_review(**request, subresource="guestosinfo")) == NoOpinion()


def test_the_default_group() -> None:
    review = access_review(verb="delete", resource="pods", groups=["read-only"])
    assert read_only_groups(review) == Deny("members of read-only have only read access: they must not delete pods")


@pytest.mark.parametrize("name", ["groups", "verbs", "except_subresources"])
@pytest.mark.parametrize("value", ["dev", [5], None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        read_only_groups.bind(**{name: value})

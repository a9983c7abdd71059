"""SubjectAccessReview: decoding, encoding, and the view of policies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks import Allow, Deny, NoOpinion, Opinion
from webhooks.errors import MalformedReview
from webhooks.reviews import authorization
from webhooks.reviews.authorization import Requirement, Selector

from ..support.api_server import accept_authorization
from ..support.builders import GROUPS, Json, access_body, access_review, encode_body, recorded_bodies, with_api_version

RECORDED = recorded_bodies("/authorize")
OUTCOMES: list[tuple[Opinion, Json]] = [
    (Allow(), {"allowed": True}),
    (Allow(reason="an admin"), {"allowed": True, "reason": "an admin"}),
    (Deny("never"), {"allowed": False, "denied": True, "reason": "never"}),
    (NoOpinion(), {"allowed": False}),
    (NoOpinion(reason="not mine"), {"allowed": False, "reason": "not mine"}),
]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(("outcome", "status"), OUTCOMES, ids=repr)
@pytest.mark.parametrize("name", RECORDED)
def test_api_servers_accept_the_responses(name: str, group: str, version: str, outcome: Opinion, status: Json) -> None:
    body = with_api_version(RECORDED[name], group, version)
    review = authorization.CODEC.decode(encode_body(body))
    assert accept_authorization(body, authorization.CODEC.encode(review, outcome)) == status


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_are_decoded(name: str) -> None:
    spec = RECORDED[name]["spec"]
    access = authorization.CODEC.decode(encode_body(RECORDED[name]))
    assert (access.user, list(access.groups), access.uid, access.extra) == (spec["user"], spec["groups"], "", {})
    assert access.is_resource
    attributes = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
    assert {key: getattr(access, key) for key in attributes} == dict.fromkeys(attributes, "") | spec[
        "resourceAttributes"
    ]
    assert access.path == ""


def test_all_fields_of_a_request_to_a_resource() -> None:
    access = access_review(
        namespace="team-a",
        verb="list",
        group="apps",
        version="v1",
        resource="deployments",
        subresource="scale",
        name="web",
        uid="42",
        extra={"scopes": ["read", "write"]},
    )
    assert (access.namespace, access.verb, access.group, access.version) == ("team-a", "list", "apps", "v1")
    assert (access.resource, access.subresource, access.name) == ("deployments", "scale", "web")
    assert (access.user, access.uid, access.groups) == ("jane", "42", ("dev",))
    assert access.extra == {"scopes": ("read", "write")}
    assert repr(access) == "<AccessReview jane list deployments/web>"


def test_all_fields_of_a_request_to_a_path() -> None:
    access = access_review(nonResourceAttributes={"path": "/healthz", "verb": "get"}, resourceAttributes=None)
    assert not access.is_resource
    assert (access.path, access.verb) == ("/healthz", "get")
    assert (access.resource, access.name, access.namespace) == ("", "", "")
    assert repr(access) == "<AccessReview jane get /healthz>"


@pytest.mark.parametrize(
    ("api_version", "groups"),
    [
        ("authorization.k8s.io/v1", ("of v1",)),
        ("authorization.svc.io/v1", ("of v1",)),
        ("authorization.k8s.io/v1beta1", ("of v1beta1",)),
        ("authorization.svc.io/v1beta1", ("of v1beta1",)),
    ],
)
def test_the_spelling_of_groups_depends_on_the_version(api_version: str, groups: tuple[str, ...]) -> None:
    body = access_body(verb="get", groups=["of v1"], group=["of v1beta1"])
    body["spec"] |= {"group": ["of v1beta1"], "resourceAttributes": {"verb": "get"}}
    assert authorization.CODEC.decode(encode_body({**body, "apiVersion": api_version})).groups == groups


def test_selectors_are_decoded() -> None:
    requirements = [
        {"key": "app", "operator": "In", "values": ["web", "api"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    access = access_review(
        resourceAttributes={
            "verb": "list",
            "resource": "pods",
            "labelSelector": {"requirements": requirements},
            "fieldSelector": {"rawSelector": "spec.nodeName=a"},
        }
    )
    assert access.label_selector == Selector(
        (Requirement("app", "In", ("web", "api")), Requirement("old", "DoesNotExist"))
    )
    assert access.field_selector == Selector(raw_selector="spec.nodeName=a")
    assert (access_review(verb="list").label_selector, access_review(verb="list").field_selector) == (None, None)


def test_missing_fields_are_empty() -> None:
    for spec in ({"resourceAttributes": {}}, {"resourceAttributes": {}, "groups": None, "extra": None}):
        body = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": spec}
        access = authorization.CODEC.decode(encode_body(body))
        assert (access.user, access.groups, access.extra, access.verb, access.is_resource) == ("", (), {}, "", True)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "LocalSubjectAccessReview"},
        {"apiVersion": "authorization.k8s.io/v2"},
        {"apiVersion": "authorization.example.org/v1"},
        {"apiVersion": "authentication.k8s.io/v1"},
        {"apiVersion": None},
        {"spec": None},
        {"spec": []},
        {"spec": {}},
        {"spec": {"user": "jane"}},
        {"spec": {"user": "jane", "resourceAttributes": None, "nonResourceAttributes": None}},
        {"spec": {"user": "jane", "resourceAttributes": {}, "nonResourceAttributes": {}}},
        {"spec": {"user": 5, "resourceAttributes": {}}},
        {"spec": {"groups": "dev", "resourceAttributes": {}}},
        {"spec": {"groups": [5], "resourceAttributes": {}}},
        {"spec": {"extra": {"a": "b"}, "resourceAttributes": {}}},
        {"spec": {"resourceAttributes": {"verb": ["get"]}}},
        {"spec": {"resourceAttributes": {"labelSelector": "app=web"}}},
        {"spec": {"resourceAttributes": {"labelSelector": {"requirements": [{"key": "app"}]}}}},
    ],
    ids=repr,
)
def test_malformed_requests_are_rejected(change: Json) -> None:
    with pytest.raises(MalformedReview) as caught:
        authorization.CODEC.decode(encode_body({**access_body(verb="get"), **change}))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ('{"resourceAttributes":{"verb":"get"},"resourceAttributes":{"verb":"delete"}}', 400),
        ('{"resourceAttributes":{"verb":"get","verb":"delete"}}', 400),
        ('{"user":"a","user":"root","resourceAttributes":{}}', 400),
        (r'{"user":"\ud800","resourceAttributes":{}}', 400),
        (f'{{"resourceAttributes":{{}},"new":{2**63}}}', 422),
    ],
)
def test_requests_are_decoded_strictly(spec: str, code: int) -> None:
    body = f'{{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{spec}}}'
    with pytest.raises(MalformedReview) as caught:
        authorization.CODEC.decode(body.encode())
    assert caught.value.code == code


def test_every_policy_has_its_own_review() -> None:
    access = access_review(verb="get", extra={"a": ["b"]})
    access.extra["a"] = ()
    access.user = "root"
    assert (access.copy().user, access.copy().extra) == ("jane", {"a": ("b",)})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"}, True),
        ({"verb": "create", "group": "authorization.svc.io", "resource": "selfsubjectrulesreviews"}, True),
        ({"verb": "create", "group": "authentication.k8s.io", "resource": "selfsubjectreviews"}, True),
        ({"verb": "delete", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"}, False),
        ({"verb": "create", "group": "authorization.k8s.io", "resource": "subjectaccessreviews"}, False),
        ({"verb": "create", "group": "example.org", "resource": "selfsubjectaccessreviews"}, False),
        ({"nonResourceAttributes": {"path": "/selfsubject", "verb": "create"}}, False),
    ],
)
def test_self_reviews(spec: Json, expected: bool) -> None:
    assert access_review(**spec).is_self_review is expected


@given(st.text(), st.sampled_from([Allow, NoOpinion, Deny]))
def test_any_reason_is_encoded(reason: str, outcome: Any) -> None:
    body = access_body(verb="get")
    review = authorization.CODEC.decode(encode_body(body))
    opinion = Deny(reason) if outcome is Deny else outcome(reason=reason)
    status = accept_authorization(body, authorization.CODEC.encode(review, opinion))
    assert status.get("reason", "") == reason

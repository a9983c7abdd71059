"""Match conditions: API servers send each request and access review that a policy matches."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhooks import AccessReview, NoOpinion, authorizing
from webhooks.manifests.conditions import NOT_STARTUP, admission_conditions, authorization_conditions, startup_exemption
from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.target import Target
from webhooks.policy.model import Policy
from webhooks.reviews import authorization

from ..support.builders import encode_body
from ..support.manifest_policies import admission_policy
from ..support.webhook_matching import Json, evaluate

GROUPS, RESOURCES, SUBRESOURCES = ("", "apps"), ("pods", "secrets"), ("", "log")
names = st.sampled_from(["", "a", "team-a", "vault", "it's"])
globs = st.lists(
    st.one_of(names.filter(bool), st.sampled_from(["team-*", "*", "*t", "?", "[at]*"])), min_size=1, max_size=2
)
verbs = st.sampled_from(["get", "list", "delete"])
rules = st.lists(
    st.sampled_from(["*/*", "pods", "pods/log", "apps/*", "core/v1/secrets", "*/log"]), min_size=1, max_size=2
)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 2).flatmap(lambda number: st.none() if number else strategy)


@st.composite
def authorizing_policies(draw: st.DrawFn) -> list[Policy[Any, Any]]:
    policies = []
    for number in range(draw(st.integers(1, 2))):
        paths = draw(st.sampled_from([(), ("/metrics",), ("/api*", "/healthz"), ("*",)]))
        options = {name: draw(maybe(globs)) for name in ("namespaces", "names", "users", "groups")}
        options["verbs"] = draw(maybe(st.lists(verbs, min_size=1)))
        resources = [] if paths and draw(st.booleans()) else draw(rules)

        @authorizing(*resources, paths=paths, name=f"p{number}", **options)
        def policy(review: AccessReview) -> NoOpinion:
            return NoOpinion()

        policies.append(policy)
    return policies


@st.composite
def specs(draw: st.DrawFn) -> Json:
    """Return the spec of a review as conditions receive it: text fields are present even if they are empty."""
    spec: Json = {"user": draw(names), "groups": draw(st.lists(names, max_size=2)), "uid": ""}
    if draw(st.booleans()):
        return spec | {
            "nonResourceAttributes": {"path": draw(st.sampled_from(["/metrics", "/api/x"])), "verb": draw(verbs)}
        }
    attributes = {
        "namespace": draw(names),
        "verb": draw(verbs),
        "group": draw(st.sampled_from(GROUPS)),
        "version": draw(st.sampled_from(["", "v1"])),
        "resource": draw(st.sampled_from(RESOURCES)),
        "subresource": draw(st.sampled_from(SUBRESOURCES)),
        "name": draw(names),
    }
    return spec | {"resourceAttributes": attributes}


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(authorizing_policies(), st.lists(specs(), min_size=4, max_size=8))
def test_each_access_review_that_a_policy_matches_is_sent(policies: list[Policy[Any, Any]], specs: list[Json]) -> None:
    conditions = authorization_conditions(policies, Target().component_groups)
    for spec in specs:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        review = authorization.CODEC.decode(encode_body(body))
        is_sent = all(evaluate(condition, {"request": spec}) for condition in conditions)
        has_match = any(policy.matches_resource(review) and policy.matches(review) for policy in policies)
        assert is_sent or not has_match, (conditions, spec)


@pytest.mark.parametrize(
    ("user", "groups", "is_sent"),
    [
        ("jane", ["system:authenticated"], True),
        ("system:node:n1", ["system:nodes", "system:authenticated"], False),
        ("system:kube-scheduler", ["system:authenticated"], False),
        ("system:serviceaccount:kube-system:x", ["system:serviceaccounts:kube-system"], False),
        ("system:serviceaccount:network:x", ["system:serviceaccounts:network"], False),
        ("system:serviceaccount:a:x", ["system:serviceaccounts:a"], True),
    ],
)
def test_access_of_the_clusters_components_is_exempt(user: str, groups: list[str], is_sent: bool) -> None:
    @authorizing("*/*")
    def everything(review: AccessReview) -> NoOpinion:
        return NoOpinion()

    conditions = authorization_conditions([everything], Target(exempt_namespaces=("network",)).component_groups)
    attributes = {"verb": "get", "group": "", "resource": "pods", "subresource": ""}
    request = {"user": user, "groups": groups, "resourceAttributes": attributes}
    assert all(evaluate(condition, {"request": request}) for condition in conditions) is is_sent


def test_names_of_conditions_are_unique() -> None:
    policy = admission_policy(
        namespaces=["team-*"], names=["web-*"], operator_match={"namespaces": ["team-a*"], "excludeNamespaces": ["b"]}
    )
    conditions = admission_conditions([PolicyScope.from_policy(policy)])
    assert [condition.name for condition in conditions] == [
        "namespaces",
        "namespaces-2",
        "excluded-namespaces",
        "names",
    ]


def test_policies_with_the_same_conditions_share_them() -> None:
    scopes = [PolicyScope.from_policy(admission_policy(rule, users=["bob"])) for rule in ("pods", "configmaps")]
    [condition] = admission_conditions(scopes)
    assert condition.name == "users"


def test_policies_with_different_conditions_are_alternatives() -> None:
    policies = [admission_policy("pods", users=["jane"]), admission_policy("configmaps", users=["bob"])]
    [condition] = admission_conditions([PolicyScope.from_policy(policy) for policy in policies])
    assert condition.name == "matches-a-policy"
    for resource, username, is_true in (("pods", "jane", True), ("pods", "bob", False), ("configmaps", "bob", True)):
        request = {"resource": {"resource": resource}, "operation": "CREATE", "userInfo": {"username": username}}
        assert evaluate(condition.expression, {"request": request}) is is_true


def test_a_policy_without_conditions_makes_the_alternatives_unnecessary() -> None:
    policies = [admission_policy("*/*"), admission_policy("configmaps", users=["bob"])]
    assert admission_conditions([PolicyScope.from_policy(policy) for policy in policies]) == []


@pytest.mark.parametrize("cluster_scoped", [False, True])
def test_writes_of_components_are_exempt_at_startup(cluster_scoped: bool) -> None:
    condition = startup_exemption(Target().component_groups, cluster_scoped=cluster_scoped)
    assert condition.name == NOT_STARTUP

    def is_sent(user: str, group: str, resource: str, **fields: str) -> bool:
        request = {"resource": {"group": "", "resource": resource}, "userInfo": {"username": user, "groups": [group]}}
        return evaluate(condition.expression, {"request": {**request, **fields}})

    assert not is_sent("system:node:n1", "system:nodes", "nodes")
    assert is_sent("jane", "system:authenticated", "nodes")
    assert is_sent("system:node:n1", "system:nodes", "persistentvolumes") is not cluster_scoped
    assert is_sent("system:node:n1", "system:nodes", "pods", namespace="a")
    assert is_sent("system:apiserver", "system:masters", "endpoints", namespace="default") is not cluster_scoped

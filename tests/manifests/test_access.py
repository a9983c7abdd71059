"""Whatever access an authorizing policy wants to decide about, an API server asks it about."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhooks import AccessReview, NoOpinion, authorizing
from webhooks.manifests.conditions import authorization_conditions
from webhooks.manifests.target import Target
from webhooks.policy.model import Policy
from webhooks.reviews import authorization

from ..support.builders import written
from .selection import Json, evaluated

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
def policies(draw: st.DrawFn) -> list[Policy]:
    found = []
    for number in range(draw(st.integers(1, 2))):
        paths = draw(st.sampled_from([(), ("/metrics",), ("/api*", "/healthz"), ("*",)]))
        told = {name: draw(maybe(globs)) for name in ("namespaces", "names", "users", "groups")}
        told["verbs"] = draw(maybe(st.lists(verbs, min_size=1)))
        resources = [] if paths and draw(st.booleans()) else draw(rules)

        @authorizing(*resources, paths=paths, name=f"p{number}", **told)
        def policy(review: AccessReview) -> NoOpinion:
            return NoOpinion()

        found.append(policy)
    return found


@st.composite
def specs(draw: st.DrawFn) -> Json:
    """A review's spec as conditions see it: texts are there even when empty."""
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
@given(policies(), st.lists(specs(), min_size=4, max_size=8))
def test_what_a_policy_wants_is_asked(found: list[Policy], about: list[Json]) -> None:
    conditions = authorization_conditions(found, Target().component_groups)
    for spec in about:
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        review = authorization.CODEC.decode(written(body))
        asked = all(evaluated(each, {"request": spec}) for each in conditions)
        wanted = any(policy.matches_resource(review) and policy.matches(review) for policy in found)
        assert asked or not wanted, (conditions, spec)


def test_the_clusters_own_components_are_not_asked_about() -> None:
    @authorizing("*/*")
    def everything(review: AccessReview) -> NoOpinion:
        return NoOpinion()

    conditions = authorization_conditions([everything], Target(exempt_namespaces=("network",)).component_groups)
    attributes = {"resourceAttributes": {"verb": "get", "group": "", "resource": "pods", "subresource": ""}}

    def asked(user: str, *groups: str) -> bool:
        return all(
            evaluated(each, {"request": {"user": user, "groups": list(groups), **attributes}}) for each in conditions
        )

    assert asked("jane", "system:authenticated")
    assert not asked("system:node:n1", "system:nodes", "system:authenticated")
    assert not asked("system:kube-scheduler", "system:authenticated")
    assert not asked("system:serviceaccount:kube-system:x", "system:serviceaccounts:kube-system")
    assert not asked("system:serviceaccount:network:x", "system:serviceaccounts:network")
    assert asked("system:serviceaccount:a:x", "system:serviceaccounts:a")

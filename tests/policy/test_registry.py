from typing import Any

import pytest

from webhooks import Allow, Policy, authenticating, authorizing, image_policy, mutating, validating
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy import registry
from webhooks.policy.registry import Registry
from webhooks.reviews.kinds import Kind

from ..support.builders import access_review, admission_review, image_review, pod, token_review


def policy(name: str, decorator: Any = None) -> Policy[Any, Any]:
    def allow(review: Any) -> Allow:
        return Allow()

    return (decorator or validating("pods"))(allow).with_name(name)  # type: ignore[no-any-return]


def selected(registry: Registry, kind: Kind, review: Any) -> list[str]:
    return [policy.name for policy in registry.select(kind, review)]


def test_policies_keep_their_order() -> None:
    registry = Registry(policy(name) for name in "cab")
    assert [policy.name for policy in registry] == ["c", "a", "b"]
    assert len(registry) == 3
    assert selected(registry, "validating", admission_review()) == ["c", "a", "b"]
    assert len(Registry([])) == 0


def test_an_error_names_both_policies_of_one_name() -> None:
    first, second = policy("same"), policy("same", mutating("pods"))
    with pytest.raises(ConfigurationError) as caught:
        Registry([first, second])
    assert "two policies are named 'same'" in str(caught.value)
    assert str(caught.value).startswith(f"{second.origin}: ")
    assert f"the other is at {first.origin}" in str(caught.value)


def test_a_policy_that_is_given_twice_counts_once() -> None:
    one = policy("one")
    assert len(Registry([one, one])) == 1


def test_errors_in_parameters_name_the_place_of_the_policy() -> None:
    @validating("pods")
    def incomplete(review: Any, *, most: int) -> Allow:
        return Allow()

    @validating("pods")
    def mistyped(review: Any, *, most: int = "many") -> Allow:  # type: ignore[assignment]
        return Allow()

    for policy in (incomplete, mistyped):
        with pytest.raises(ConfigurationError, match="'most'") as caught:
            Registry([policy])
        assert str(caught.value).startswith(f"{__file__}:{policy.origin.line}: policy '{policy.name}'")
    Registry([incomplete.bind(most=1), mistyped.bind(most=1)])


def test_each_kind_has_its_own_policies() -> None:
    registry = Registry(
        [
            policy("mutate", mutating("*/*")),
            policy("validate", validating("*/*")),
            policy("authorize", authorizing("*/*")),
            policy("authenticate", authenticating),
            policy("image", image_policy),
        ]
    )
    reviews: dict[Kind, Any] = {
        "mutating": admission_review(),
        "validating": admission_review(),
        "authorizing": access_review(verb="get", resource="pods"),
        "authenticating": token_review(),
        "image_policy": image_review("nginx"),
    }
    names = [selected(registry, kind, review) for kind, review in reviews.items()]
    assert names == [["mutate"], ["validate"], ["authorize"], ["authenticate"], ["image"]]


def test_cached_candidates_are_not_used_for_other_reviews() -> None:
    registry = Registry(
        [
            policy("pods"),
            policy("all", validating("*")),
            policy("status", validating("pods/status")),
            policy("deletes", validating("pods", operations=["DELETE"])),
            policy("apps", validating("apps/pods")),
            policy("v1", validating("core/v1/pods")),
            policy("kube", validating("pods", namespaces=["kube-*"])),
            policy("web", validating("pods", labels={"app": "web"})),
        ]
    )
    table = [
        (admission_review(), ["pods", "all", "v1"]),
        (admission_review("UPDATE", pod(labels={"app": "web"})), ["pods", "all", "v1", "web"]),
        (admission_review(subResource="status"), ["status"]),
        (admission_review("DELETE", old=pod()), ["deletes"]),
        (admission_review(resource="apps/v1/pods"), ["pods", "all", "apps"]),
        (admission_review(resource="v2/pods"), ["pods", "all"]),
        (admission_review(namespace="kube-system"), ["pods", "all", "v1", "kube"]),
        (admission_review(resource="v1/services"), ["all"]),
    ]
    for _ in range(2):
        assert [selected(registry, "validating", review) for review, _ in table] == [names for _, names in table]


def test_cached_candidates_of_access_reviews() -> None:
    registry = Registry(
        [
            policy("gets", authorizing("pods", verbs=["get"])),
            policy("logs", authorizing("pods/log")),
            policy("apps", authorizing("apps/pods")),
            policy("v2", authorizing("core/v2/pods")),
            policy("paths", authorizing(paths=["/metrics*"])),
            policy("janes", authorizing("pods", users=["jane"])),
        ]
    )
    table: list[tuple[Any, list[str]]] = [
        ({"verb": "get", "resource": "pods", "version": "v1"}, ["gets", "janes"]),
        ({"verb": "list", "resource": "pods", "version": "v1"}, ["janes"]),
        ({"verb": "get", "resource": "pods", "version": "v1", "subresource": "log"}, ["logs"]),
        ({"verb": "get", "resource": "pods", "version": "v1", "group": "apps"}, ["gets", "apps", "janes"]),
        ({"verb": "get", "resource": "pods", "version": "v2"}, ["gets", "v2", "janes"]),
        ({"verb": "get", "resource": "pods", "version": "v1", "user": "joe"}, ["gets"]),
        ({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}, ["paths"]),
        ({"nonResourceAttributes": {"path": "/metrics/a", "verb": "get"}}, ["paths"]),
        ({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}, []),
        ({"nonResourceAttributes": {"path": "", "verb": "get"}}, []),
        ({"verb": "get"}, []),
    ]
    for _ in range(2):
        assert [selected(registry, "authorizing", access_review(**spec)) for spec, _ in table] == [
            names for _, names in table
        ]


def test_the_cache_of_candidates_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MAX_ENTRIES", 3)
    policies = Registry([policy("pods")])
    for number in range(10):
        assert selected(policies, "validating", admission_review(resource=f"v1/made-up-{number}")) == []
        assert selected(policies, "validating", admission_review()) == ["pods"]
        assert len(policies._candidates) <= 3


def test_unreadable_fields_are_malformed() -> None:
    registry = Registry([policy("web", validating("pods", labels={"app": "web"}))])
    with pytest.raises(MalformedReview):
        registry.select("validating", admission_review(obj={"metadata": {"labels": ["app"]}}))

"""Resource rules: parsing and matching, as in webhook configurations."""

import pytest

from webhooks.errors import ConfigurationError
from webhooks.kube.resource_rules import Rule, parse_rules

PARSED = {
    "pods": ("*", "*", "pods", ""),
    "pods/exec": ("*", "*", "pods", "exec"),
    "pods/*": ("*", "*", "pods", "*"),
    "*": ("*", "*", "*", ""),
    "*/*": ("*", "*", "*", "*"),
    "*/scale": ("*", "*", "*", "scale"),
    "apps/deployments": ("apps", "*", "deployments", ""),
    "apps/deployments/scale": ("apps", "*", "deployments", "scale"),
    "apps/v1/deployments": ("apps", "v1", "deployments", ""),
    "apps/v1/deployments/scale": ("apps", "v1", "deployments", "scale"),
    "apps/*": ("apps", "*", "*", ""),
    "apps/*/*": ("apps", "*", "*", "*"),
    "apps/v1/*": ("apps", "v1", "*", ""),
    "batch/v1beta1/cronjobs": ("batch", "v1beta1", "cronjobs", ""),
    "autoscaling/v2/horizontalpodautoscalers": ("autoscaling", "v2", "horizontalpodautoscalers", ""),
    "policy/poddisruptionbudgets": ("policy", "*", "poddisruptionbudgets", ""),
    "extensions/ingresses": ("extensions", "*", "ingresses", ""),
    "core/pods": ("", "*", "pods", ""),
    "core/v1/pods": ("", "v1", "pods", ""),
    "core/v1/pods/exec": ("", "v1", "pods", "exec"),
    "core/*": ("", "*", "*", ""),
    "v1/pods": ("*", "v1", "pods", ""),
    "rbac.authorization.k8s.io/roles": ("rbac.authorization.k8s.io", "*", "roles", ""),
    "networking.k8s.io/v1/ingresses/status": ("networking.k8s.io", "v1", "ingresses", "status"),
    "example.org/v1alpha1/*": ("example.org", "v1alpha1", "*", ""),
    "apps": ("*", "*", "apps", ""),
    "v1": ("*", "*", "v1", ""),
}

NO_RULES = [
    "",
    "/",
    "pods/",
    "/pods",
    "pods//exec",
    "Pods",
    "apps/Deployments",
    "a/b/c",
    "apps/v1/a/b/c",
    "po*",
    "pods exec",
]

# Group, version, resource and subresource of a request, and the rules that match it.
REQUESTS: list[tuple[tuple[str, str, str, str], set[str]]] = [
    (("", "v1", "pods", ""), {"pods", "pods/*", "*", "*/*", "core/pods", "core/v1/pods", "core/*", "v1/pods"}),
    (("", "v1", "pods", "status"), {"pods/*", "*/*"}),
    (("", "v1", "pods", "exec"), {"pods/exec", "pods/*", "*/*", "core/v1/pods/exec"}),
    (("", "v2", "pods", ""), {"pods", "pods/*", "*", "*/*", "core/pods", "core/*"}),
    (("", "v1", "services", ""), {"*", "*/*", "core/*"}),
    (("example.org", "v1", "pods", ""), {"pods", "pods/*", "*", "*/*", "v1/pods"}),
    (
        ("apps", "v1", "deployments", ""),
        {"apps/deployments", "apps/v1/deployments", "apps/*", "apps/*/*", "apps/v1/*", "*", "*/*"},
    ),
    (("apps", "v1beta1", "deployments", ""), {"apps/deployments", "apps/*", "apps/*/*", "*", "*/*"}),
    (("extensions", "v1", "deployments", ""), {"*", "*/*"}),
    (
        ("apps", "v1", "deployments", "scale"),
        {"apps/deployments/scale", "apps/v1/deployments/scale", "apps/*/*", "*/scale", "*/*"},
    ),
    (("example.org", "v1", "widgets", "scale"), {"*/scale", "*/*"}),
    (("rbac.authorization.k8s.io", "v1", "roles", ""), {"rbac.authorization.k8s.io/roles", "*", "*/*"}),
    (("rbac.example.org", "v1", "roles", ""), {"*", "*/*"}),
]


@pytest.mark.parametrize(("text", "parts"), PARSED.items())
def test_rules_are_parsed(text: str, parts: tuple[str, str, str, str]) -> None:
    assert Rule.parse(text) == Rule(*parts)


@pytest.mark.parametrize("text", NO_RULES)
def test_invalid_rules_are_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a resource"):
        Rule.parse(text)


@pytest.mark.parametrize(("request_", "matching"), REQUESTS, ids=["/".join(each[0]) for each in REQUESTS])
def test_rules_match_as_in_api_servers(request_: tuple[str, str, str, str], matching: set[str]) -> None:
    assert {text for text in PARSED if Rule.parse(text).matches(*request_)} == matching


def test_a_request_without_a_version_matches_every_version() -> None:
    assert Rule.parse("core/v1/pods").matches("", "", "pods", "")
    assert not Rule.parse("core/v1/pods").matches("apps", "", "pods", "")


def test_several_rules_are_parsed() -> None:
    assert parse_rules(["pods", "core/services"]) == (Rule("*", "*", "pods", ""), Rule("", "*", "services", ""))
    assert parse_rules([]) == ()
    with pytest.raises(ConfigurationError, match="'Services' is not a resource"):
        parse_rules(["pods", "Services"])

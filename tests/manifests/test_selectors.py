"""Label selectors of webhooks."""

import pytest

from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.selectors import (
    listed_exempt_namespaces,
    listed_namespaces,
    namespace_selector,
    object_selector,
)
from webhooks.manifests.target import Target, Version

from ..support.manifest_policies import Json, admission_policy

NAME = "kubernetes.io/metadata.name"
LOCAL = Target(reached_by="localhost")
EXEMPT = ["kube-node-lease", "kube-public", "kube-system"]


def scope(**options: object) -> PolicyScope:
    return PolicyScope.from_policy(admission_policy(**{"operations": ["CREATE"], **options}))  # type: ignore[arg-type]


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator} | ({"values": list(values)} if values else {})]}


FRONT, BACK = {"matchLabels": {"tier": "front"}}, {"matchLabels": {"tier": "back"}}
HAS_TIER, NO_TIER = expression("tier", "Exists"), expression("tier", "DoesNotExist")
NOT_FRONT = expression("tier", "NotIn", "front")


@pytest.mark.parametrize(
    ("labels", "selector"),
    [
        ([FRONT], FRONT),
        ([FRONT, BACK], expression("tier", "In", "back", "front")),
        ([FRONT, HAS_TIER], HAS_TIER),
        ([NO_TIER, NO_TIER], NO_TIER),
        ([NOT_FRONT, expression("tier", "NotIn", "front", "back")], NOT_FRONT),
        ([FRONT, NO_TIER], {}),
        ([FRONT, None], {}),
        ([FRONT, {"matchLabels": {"owner": "me"}}], {}),
        ([{"matchLabels": {"tier": "no label!"}}], {}),
        ([expression("tier", "NotIn", "no label!")], {}),
    ],
)
def test_object_selectors_match_what_one_policy_matches(labels: list[Json | None], selector: Json) -> None:
    assert object_selector([scope(labels=each) for each in labels]) == selector


def test_connections_prevent_selectors_that_match_missing_labels() -> None:
    """API servers never match the object of a CONNECT with a selector."""
    assert object_selector([scope(labels=NO_TIER, operations=["CONNECT"])]) == {}
    assert object_selector([scope(labels=FRONT, operations=["CONNECT"])]) == FRONT


@pytest.mark.parametrize(
    ("namespaces", "selector"),
    [
        ([["a"]], {"matchLabels": {NAME: "a"}}),
        ([["a", "b"], ["c"]], expression(NAME, "In", "a", "b", "c")),
        ([["a", "kube-system"]], {"matchLabels": {NAME: "a"}}),
        ([["team-*"]], expression(NAME, "NotIn", *EXEMPT)),
        ([["a"], None], expression(NAME, "NotIn", *EXEMPT)),
        ([["Bad Name!"]], expression(NAME, "NotIn", *EXEMPT)),
    ],
)
def test_namespace_selectors(namespaces: list[list[str] | None], selector: Json) -> None:
    assert namespace_selector([scope(namespaces=names) for names in namespaces], LOCAL) == selector


def test_namespaces_that_all_policies_exclude() -> None:
    def excluding(*names: str) -> PolicyScope:
        return scope(operator_match={"excludeNamespaces": list(names)})

    assert namespace_selector([excluding("a", "b"), excluding("b", "c-*")], LOCAL) == expression(
        NAME, "NotIn", "b", *EXEMPT
    )


def test_old_clusters_have_no_name_labels_to_select() -> None:
    target = Target(reached_by="localhost", version=Version(1, 21))
    assert namespace_selector([scope(namespaces=["a"])], target) == expression(NAME, "NotIn", *EXEMPT)


def test_no_selector_without_exempt_namespaces() -> None:
    target = Target(reached_by="localhost", included_namespaces=tuple(EXEMPT))
    assert namespace_selector([scope()], target) == {}


@pytest.mark.parametrize(
    ("namespaces", "listed"),
    [
        ([["a"], ["b"]], {"a", "b"}),
        ([["a"], ["b*"]], None),
        ([None], None),
    ],
)
def test_listed_namespaces(namespaces: list[list[str] | None], listed: set[str] | None) -> None:
    assert listed_namespaces([scope(namespaces=names) for names in namespaces]) == listed


def test_listed_namespaces_match_both_lists() -> None:
    assert listed_namespaces([scope(namespaces=["a", "b"], operator_match={"namespaces": ["b*"]})]) == {"b"}


def test_listed_exempt_namespaces() -> None:
    assert listed_exempt_namespaces(scope(namespaces=["a", "kube-system"]), LOCAL) == ["kube-system"]
    assert listed_exempt_namespaces(scope(namespaces=["kube-*"]), LOCAL) == []

"""Scopes of policies, and the rules that cover them."""

import pytest

from webhooks.kube.resource_rules import Rule
from webhooks.manifests.scope import PolicyScope, RuleSet, merge_rules

from ..support.manifest_policies import admission_policy

CREATE, ALL = frozenset(("CREATE",)), frozenset(("CREATE", "UPDATE", "DELETE", "CONNECT"))


def merge(*rules: tuple[str, frozenset[str]]) -> list[dict[str, object]]:
    return [
        rule_set.to_dict() for rule_set in merge_rules((Rule.parse(text), operations) for text, operations in rules)
    ]


def test_the_operator_narrows_the_match_of_the_author() -> None:
    operator_match = {
        "resources": ["core/pods", "apps/deployments"],
        "operations": ["CREATE"],
        "namespaces": ["team-a"],
        "objectSelector": {"matchLabels": {"tier": "front"}},
    }
    scope = PolicyScope.from_policy(
        admission_policy("v1/pods", "services", namespaces=["team-*"], operator_match=operator_match)
    )
    assert scope.rules == (Rule("", "v1", "pods", ""),)
    assert scope.operations == CREATE
    assert [globs.texts for globs in scope.namespaces] == [("team-*",), ("team-a",)]
    assert [requirement.key for requirement in scope.labels] == ["tier"]
    assert (scope.names, scope.users, scope.groups) == ((), (), ())


def test_a_policy_that_can_never_match_has_no_rules() -> None:
    assert PolicyScope.from_policy(admission_policy("pods", operator_match={"resources": ["services"]})).rules == ()


@pytest.mark.parametrize(
    ("rules", "merged"),
    [
        ([("pods", CREATE), ("services", CREATE)], [(["*"], ["pods", "services"], ["CREATE"])]),
        ([("pods", CREATE), ("pods", ALL)], [(["*"], ["pods"], ["CREATE", "UPDATE", "DELETE", "CONNECT"])]),
        ([("core/pods", CREATE), ("apps/pods", CREATE)], [(["", "apps"], ["pods"], ["CREATE"])]),
        ([("*/*", ALL), ("core/pods", CREATE)], [(["*"], ["*/*"], ["CREATE", "UPDATE", "DELETE", "CONNECT"])]),
        (
            [("core/pods", CREATE), ("apps/deployments", CREATE)],
            [([""], ["pods"], ["CREATE"]), (["apps"], ["deployments"], ["CREATE"])],
        ),
        (
            [("pods", CREATE), ("services", ALL)],
            [
                (["*"], ["pods"], ["CREATE"]),
                (["*"], ["services"], ["CREATE", "UPDATE", "DELETE", "CONNECT"]),
            ],
        ),
        ([("pods", CREATE), ("*", CREATE)], [(["*"], ["*"], ["CREATE"])]),
        ([("pods/*", CREATE)], [(["*"], ["pods", "pods/*"], ["CREATE"])]),
        ([("pods/*", CREATE), ("*", CREATE)], [(["*"], ["*", "pods/*"], ["CREATE"])]),
        # Only two at a time can be merged, but the result of one merge may allow another.
        (
            [("core/pods", CREATE), ("apps/pods", ALL), ("core/pods", ALL)],
            [(["", "apps"], ["pods"], ["CREATE", "UPDATE", "DELETE", "CONNECT"])],
        ),
    ],
)
def test_rules_are_merged_without_widening(
    rules: list[tuple[str, frozenset[str]]], merged: list[tuple[list[str], list[str], list[str]]]
) -> None:
    assert [(rule["apiGroups"], rule["resources"], rule["operations"]) for rule in merge(*rules)] == merged


def test_the_order_of_rules_does_not_matter() -> None:
    rules = [("core/pods", CREATE), ("apps/deployments", ALL), ("core/services", CREATE)]
    assert merge(*rules) == merge(*reversed(rules))


def test_covers() -> None:
    pods, everything = (RuleSet.from_rule(Rule.parse(text), ALL) for text in ("core/v1/pods", "*/*"))
    assert everything.covers(pods)
    assert not pods.covers(everything)
    assert not RuleSet.from_rule(Rule.parse("*/*"), CREATE).covers(pods)

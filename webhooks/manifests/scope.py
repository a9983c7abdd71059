"""The admission requests that a policy matches, and the smallest set of webhook rules that covers them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Self

from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Requirement
from webhooks.kube.resource_rules import Rule, intersect
from webhooks.policy.matching import AdmissionMatch
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.admission import OPERATIONS


@dataclass(frozen=True)
class PolicyScope:
    """The admission requests that a policy matches: the match of its author, narrowed by that of the operator.

    Attributes:
        policy: the policy.
        rules: the resources; a request matches one of the rules.
        operations: some of CREATE, UPDATE, DELETE and CONNECT.
        namespaces: globs; the namespace matches every one.
        names: globs; the name matches every one.
        users: globs; the username matches every one.
        groups: globs; for every one, a group of the user matches.
        labels: requirements; the labels of the new or of the old object meet every one.
    """

    policy: AnyPolicy
    rules: tuple[Rule, ...]
    operations: frozenset[str]
    namespaces: tuple[Globs, ...]
    names: tuple[Globs, ...]
    users: tuple[Globs, ...]
    groups: tuple[Globs, ...]
    labels: tuple[Requirement, ...]

    @classmethod
    def from_policy(cls, policy: AnyPolicy) -> Self:
        """Return the scope of a mutating or validating policy."""
        matches = list(_matches(policy))
        labels = [match.labels.requirements for match in matches if match.labels.requirements]
        return cls(
            policy,
            tuple(_intersect_rules([match.rules for match in matches])),
            frozenset.intersection(*(match.operations for match in matches)),
            _remove_unrestricted(match.namespaces for match in matches),
            _remove_unrestricted(match.names for match in matches),
            _remove_unrestricted(match.users for match in matches),
            _remove_unrestricted(match.groups for match in matches),
            # One selector may match the new object and the other the old one, but a webhook has only one selector.
            labels[0] if labels else (),
        )


def _matches(policy: AnyPolicy) -> Iterator[AdmissionMatch]:
    """Yield the match of the author and that of the operator. A request must match both."""
    assert isinstance(policy.match, AdmissionMatch)
    yield policy.match
    if policy.operator_match is not None:
        assert isinstance(policy.operator_match, AdmissionMatch)
        yield policy.operator_match


def _remove_unrestricted(patterns: Iterable[Globs]) -> tuple[Globs, ...]:
    return tuple(globs for globs in patterns if globs is not EVERYTHING)


def _intersect_rules(alternatives: Sequence[Sequence[Rule]]) -> Iterator[Rule]:
    """Yield the intersections of rules, one from each sequence."""
    for rules in product(*alternatives):
        intersection = rules[0]
        for rule in rules[1:]:
            narrower = intersect(intersection, rule)
            if narrower is None:
                break
            intersection = narrower
        else:
            yield intersection


@dataclass(frozen=True, slots=True)
class RuleSet:
    """One rule of a webhook: each combination of its groups, versions, resources and operations.

    Attributes:
        groups: the API groups.
        versions: the API versions.
        resources: the resources, each with its subresource.
        operations: the operations.
    """

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    operations: frozenset[str]

    @classmethod
    def from_rule(cls, rule: Rule, operations: frozenset[str]) -> Self:
        """Return the set for one rule of a policy."""
        resources = frozenset(((rule.resource, rule.subresource),))
        return cls(frozenset((rule.group,)), frozenset((rule.version,)), resources, operations)

    def covers(self, other: "RuleSet") -> bool:
        """Check whether each combination of the other set is in this one."""
        return (
            _includes(self.groups, other.groups)
            and _includes(self.versions, other.versions)
            and all(any(_covers(own, resource) for own in self.resources) for resource in other.resources)
            and self.operations >= other.operations
        )

    def merge(self, other: "RuleSet") -> "RuleSet | None":
        """Return one set for both; None if it would contain more than both."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        different = [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]
        if len(different) != 1:
            return None
        [name] = different
        return replace(self, **{name: _remove_covered(getattr(self, name) | getattr(other, name))})

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as a webhook configuration contains it."""
        return {
            "apiGroups": sorted(self.groups),
            "apiVersions": sorted(self.versions),
            "operations": [operation for operation in OPERATIONS if operation in self.operations],
            "resources": list(_format_resources(self.resources)),
            "scope": "*",
        }


def _includes(values: frozenset[str], others: frozenset[str]) -> bool:
    return "*" in values or values >= others


def _covers(resource: tuple[str, str], other: tuple[str, str]) -> bool:
    return resource[0] in ("*", other[0]) and resource[1] in ("*", other[1])


def _remove_covered(values: frozenset[Any]) -> frozenset[Any]:
    """Remove values that another value covers, because API servers reject such lists."""
    if "*" in values:
        return frozenset("*")
    return frozenset(
        value
        for value in values
        if not isinstance(value, tuple) or not any(_covers(other, value) for other in values - {value})
    )


def _format_resources(resources: frozenset[tuple[str, str]]) -> Iterator[str]:
    """Yield the resources of a rule. API servers reject ``pods`` in a list with ``*``, but not ``pods/log``."""
    for resource, subresource in sorted(resources):
        if (resource, subresource) == ("*", "*"):
            yield "*/*"
            continue
        if subresource == "" or (subresource == "*" and ("*", "") not in resources):
            yield resource
        if subresource:
            yield f"{resource}/{subresource}"


def merge_rules(rules: Iterable[tuple[Rule, frozenset[str]]]) -> list[RuleSet]:
    """Merge rules with their operations as far as that does not widen them. The order of the result is fixed."""
    merged: list[RuleSet] = []
    for rule, operations in rules:
        _add(merged, RuleSet.from_rule(rule, operations))
    return sorted(merged, key=lambda rule: (sorted(rule.groups), sorted(rule.resources), sorted(rule.operations)))


def _add(rule_sets: list[RuleSet], new: RuleSet) -> None:
    for existing in rule_sets:
        merged = existing.merge(new)
        if merged is not None:
            rule_sets.remove(existing)
            _add(rule_sets, merged)  # others may be able to merge with it now
            return
    rule_sets.append(new)

"""Which resources and operations policies want, as the rules of a registration: as few and as narrow as they get."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from webhooks.kube.resource_rules import Rule
from webhooks.reviews.admission import OPERATIONS


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Every combination of some groups, versions, resources (with their subresources) and operations."""

    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[tuple[str, str]]
    operations: frozenset[str]

    @classmethod
    def of(cls, rule: Rule, operations: frozenset[str]) -> Self:
        """Those of one rule."""
        resources = frozenset(((rule.resource, rule.subresource),))
        return cls(frozenset((rule.group,)), frozenset((rule.version,)), resources, operations)

    def covers(self, other: "RuleSet") -> bool:
        """Whether all of those are among these."""
        return (
            _has_all(self.groups, other.groups)
            and _has_all(self.versions, other.versions)
            and all(any(_holds(mine, its) for mine in self.resources) for its in other.resources)
            and self.operations >= other.operations
        )

    def joined(self, other: "RuleSet") -> "RuleSet | None":
        """Both in one, if that is no more than both."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        names = [each.name for each in fields(self)]
        different = [name for name in names if getattr(self, name) != getattr(other, name)]
        if len(different) != 1:
            return None
        [name] = different
        return replace(self, **{name: _tidy(getattr(self, name) | getattr(other, name))})

    def rule(self) -> dict[str, Any]:
        """As a registration writes it."""
        return {
            "apiGroups": sorted(self.groups),
            "apiVersions": sorted(self.versions),
            "operations": [each for each in OPERATIONS if each in self.operations],
            "resources": list(_written(self.resources)),
            "scope": "*",
        }


def _has_all(mine: frozenset[str], its: frozenset[str]) -> bool:
    return "*" in mine or mine >= its


def _holds(mine: tuple[str, str], its: tuple[str, str]) -> bool:
    return mine[0] in ("*", its[0]) and mine[1] in ("*", its[1])


def _tidy(values: frozenset[Any]) -> frozenset[Any]:
    """The same without what another one covers; API servers refuse those beside each other."""
    if "*" in values:
        return frozenset("*")
    return frozenset(
        each
        for each in values
        if not isinstance(each, tuple) or not any(_holds(other, each) for other in values - {each})
    )


def _written(resources: frozenset[tuple[str, str]]) -> Iterator[str]:
    """As a rule has them; beside ``*`` API servers take no resource by its name, only its subresources."""
    for resource, subresource in sorted(resources):
        if (resource, subresource) == ("*", "*"):
            yield "*/*"
            continue
        if subresource == "" or (subresource == "*" and ("*", "") not in resources):
            yield resource
        if subresource:
            yield f"{resource}/{subresource}"


def of(rules: Iterable[tuple[Rule, frozenset[str]]]) -> list[RuleSet]:
    """The kinds of rules with their operations, joined as far as that makes them no wider; in a fixed order."""
    found: list[RuleSet] = []
    for rule, operations in rules:
        _add(found, RuleSet.of(rule, operations))
    return sorted(found, key=lambda each: (sorted(each.groups), sorted(each.resources), sorted(each.operations)))


def _add(found: list[RuleSet], new: RuleSet) -> None:
    for other in found:
        joined = other.joined(new)
        if joined is not None:
            found.remove(other)
            _add(found, joined)  # it may join others now
            return
    found.append(new)

"""Label selectors with the semantics of the Kubernetes API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from webhooks.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of a label selector, with the operator In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Check whether labels meet the requirement. An absent key meets NotIn, as in the API."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector. Without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, selector: Mapping[str, Any] | None) -> "Selector":
        """Parse ``{"matchLabels": ..., "matchExpressions": [...]}``, or a map of labels, which all must be equal.

        Raises:
            ConfigurationError: the value is not a selector.
        """
        if not selector:
            return cls()
        if isinstance(selector, Mapping) and not set(selector) <= {"matchLabels", "matchExpressions"}:
            selector = {"matchLabels": selector}
        try:
            parsed = msgspec.convert(selector, _Selector)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"not a label selector: {error}") from None
        equalities = [Requirement(key, "In", frozenset((value,))) for key, value in parsed.match_labels.items()]
        return cls((*equalities, *map(_to_requirement, parsed.match_expressions)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Check whether labels meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class _Expression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class _Selector(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[_Expression, ...] = ()


def _to_requirement(expression: _Expression) -> Requirement:
    operator = expression.operator
    if (operator in ("In", "NotIn")) != bool(expression.values):
        raise ConfigurationError(
            f"operator {operator} of key {expression.key!r}: In and NotIn require values; the others must not have any"
        )
    return Requirement(expression.key, operator, frozenset(expression.values))

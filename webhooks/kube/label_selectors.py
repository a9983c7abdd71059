"""Label selectors, as the API has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from webhooks.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet it; a key that is absent meets NotIn, as in the API."""
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
    """A label selector; without requirements it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, selector: Mapping[str, Any] | None) -> "Selector":
        """Read ``{"matchLabels": ..., "matchExpressions": [...]}``, or labels alone, which must then all be equal.

        Raises:
            ConfigurationError: the value is no selector.
        """
        if not selector:
            return cls()
        if isinstance(selector, Mapping) and not set(selector) <= {"matchLabels", "matchExpressions"}:
            selector = {"matchLabels": selector}
        try:
            read = msgspec.convert(selector, _Selector)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"not a label selector: {error}") from None
        equal = [Requirement(key, "In", frozenset((value,))) for key, value in read.matchLabels.items()]
        return cls((*equal, *map(_requirement, read.matchExpressions)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)


class _Expression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()


class _Selector(msgspec.Struct, forbid_unknown_fields=True):
    matchLabels: dict[str, str] = {}  # noqa: N815
    matchExpressions: tuple[_Expression, ...] = ()  # noqa: N815


def _requirement(expression: _Expression) -> Requirement:
    operator = expression.operator
    if (operator in ("In", "NotIn")) != bool(expression.values):
        raise ConfigurationError(
            f"operator {operator} of key {expression.key!r}: In and NotIn need values, the others take none"
        )
    return Requirement(expression.key, operator, frozenset(expression.values))

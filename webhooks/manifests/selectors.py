"""Selectors that hold wherever one of several policies wants a review."""

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from webhooks.kube.globs import Globs, is_pattern
from webhooks.kube.label_selectors import Requirement, Selector
from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.target import METADATA_NAMES, Target

NAME_LABEL = "kubernetes.io/metadata.name"
_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def objects(wanted: Sequence[PolicyScope]) -> list[Requirement]:
    """What an object's labels meet if any of the policies wants it.

    What is connected to bears none, which the API server takes for meeting nothing, and we for having no labels: where
    that would do, nothing is said.
    """
    if any("CONNECT" in each.operations and Selector(each.labels).matches({}) for each in wanted):
        return []
    keys = sorted({requirement.key for each in wanted for requirement in each.labels})
    found = [_common(key, [[one for one in each.labels if one.key == key] for each in wanted]) for key in keys]
    return [each for each in found if each is not None and _can_be_said(each)]


def _common(key: str, alternatives: Sequence[Sequence[Requirement]]) -> Requirement | None:
    """What follows for a label from each of the alternatives."""
    if all(_values(one, "In") for one in alternatives):
        return Requirement(key, "In", frozenset().union(*(_allowed(one) for one in alternatives)))
    if all(_values(one, "In", "Exists") for one in alternatives):
        return Requirement(key, "Exists")
    if all(_values(one, "DoesNotExist") for one in alternatives):
        return Requirement(key, "DoesNotExist")
    if all(_values(one, "NotIn") for one in alternatives):
        return Requirement(key, "NotIn", reduce(frozenset.intersection, map(_refused, alternatives)))
    return None


def _values(requirements: Iterable[Requirement], *operators: str) -> list[frozenset[str]]:
    return [each.values for each in requirements if each.operator in operators]


def _allowed(requirements: Iterable[Requirement]) -> frozenset[str]:
    return reduce(frozenset.intersection, _values(requirements, "In"))


def _refused(requirements: Iterable[Requirement]) -> frozenset[str]:
    return reduce(frozenset.union, _values(requirements, "NotIn"))


def _can_be_said(requirement: Requirement) -> bool:
    """Whether an API server takes it: labels that no object can have are refused there."""
    if requirement.operator in ("In", "NotIn") and not requirement.values:
        return False
    return _KEY.fullmatch(requirement.key) is not None and all(map(_VALUE.fullmatch, requirement.values))


def namespaces(wanted: Sequence[PolicyScope], target: Target) -> list[Requirement]:
    """What the labels of a namespace meet if it is asked about: it is among those that are named, or is not left out.

    Objects without a namespace are asked about in any case.
    """
    named = _names(named_namespaces(wanted) or ()) - set(target.exempt)
    if named and target.version >= METADATA_NAMES:
        return [Requirement(NAME_LABEL, "In", named)]
    left_out = _names({*target.exempt, *frozenset.intersection(*map(_excluded, wanted))})
    return [Requirement(NAME_LABEL, "NotIn", left_out)] if left_out else []


def named_in_vain(wanted: PolicyScope, target: Target) -> list[str]:
    """The namespaces that a policy names, though nobody asks about them."""
    names = {name for globs in wanted.namespaces for name in globs.texts or ()} & set(target.exempt)
    return sorted(name for name in names if all(each.match(name) for each in wanted.namespaces))


def _names(texts: Iterable[str]) -> frozenset[str]:
    """Those that a namespace can have: API servers refuse others as values."""
    return frozenset(text for text in texts if text and _VALUE.fullmatch(text))


def named_namespaces(wanted: Sequence[PolicyScope]) -> frozenset[str] | None:
    """All the namespaces that any of the policies wants; None where these are more than can be listed."""
    found = [_named(each.namespaces) for each in wanted]
    known = [each for each in found if each is not None]
    return frozenset(chain.from_iterable(known)) if len(known) == len(found) else None


def _named(globs: Sequence[Globs]) -> frozenset[str] | None:
    """The names that fit all of the globs; None where one cannot list them."""
    listed = next((each.texts for each in globs if not any(map(is_pattern, each.texts or ("*",)))), None)
    return None if listed is None else frozenset(name for name in listed if all(each.match(name) for each in globs))


def _excluded(wanted: PolicyScope) -> frozenset[str]:
    """The namespaces that a policy does not want, as far as they are named."""
    excluded = chain.from_iterable(each.excluded for each in wanted.namespaces)
    return frozenset(name for name in excluded if not is_pattern(name))


def written(requirements: Sequence[Requirement]) -> dict[str, Any]:
    """As the API writes a selector."""
    labels = {
        each.key: next(iter(each.values)) for each in requirements if each.operator == "In" and len(each.values) == 1
    }
    expressions = [
        {"key": each.key, "operator": each.operator} | ({"values": sorted(each.values)} if each.values else {})
        for each in requirements
        if each.key not in labels
    ]
    found: dict[str, Any] = {"matchLabels": labels} if labels else {}
    return found | ({"matchExpressions": expressions} if expressions else {})

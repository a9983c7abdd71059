"""Label selectors of webhooks, which match each request that one of several policies matches."""

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from webhooks.kube.globs import Globs, is_pattern
from webhooks.kube.label_selectors import Requirement, Selector
from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.target import NAMESPACE_NAME_LABEL, Target

_NAME_LABEL = "kubernetes.io/metadata.name"
_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def object_selector(scopes: Sequence[PolicyScope]) -> dict[str, Any]:
    """Return the objectSelector of a webhook; empty to match all objects.

    The object of a CONNECT has no labels. API servers never match it with a selector, but a policy treats it as an
    object without labels: if a policy matches such objects, the selector is empty.
    """
    if any("CONNECT" in scope.operations and Selector(scope.labels).matches({}) for scope in scopes):
        return {}
    keys = sorted({requirement.key for scope in scopes for requirement in scope.labels})
    requirements = [_merge_requirements(key, [_select_by_key(key, scope.labels) for scope in scopes]) for key in keys]
    return _to_dict([requirement for requirement in requirements if requirement is not None and _is_valid(requirement)])


def _select_by_key(key: str, requirements: Iterable[Requirement]) -> list[Requirement]:
    return [requirement for requirement in requirements if requirement.key == key]


def _merge_requirements(key: str, alternatives: Sequence[Sequence[Requirement]]) -> Requirement | None:
    """Return a requirement that matches a label if one of the alternatives does; None if no requirement can."""
    if all(_collect_values(requirements, "In") for requirements in alternatives):
        return Requirement(key, "In", frozenset().union(*map(_intersect_allowed, alternatives)))
    if all(_collect_values(requirements, "In", "Exists") for requirements in alternatives):
        return Requirement(key, "Exists")
    if all(_collect_values(requirements, "DoesNotExist") for requirements in alternatives):
        return Requirement(key, "DoesNotExist")
    if all(_collect_values(requirements, "NotIn") for requirements in alternatives):
        return Requirement(key, "NotIn", reduce(frozenset.intersection, map(_merge_forbidden, alternatives)))
    return None


def _collect_values(requirements: Iterable[Requirement], *operators: str) -> list[frozenset[str]]:
    return [requirement.values for requirement in requirements if requirement.operator in operators]


def _intersect_allowed(requirements: Iterable[Requirement]) -> frozenset[str]:
    return reduce(frozenset.intersection, _collect_values(requirements, "In"))


def _merge_forbidden(requirements: Iterable[Requirement]) -> frozenset[str]:
    return reduce(frozenset.union, _collect_values(requirements, "NotIn"))


def _is_valid(requirement: Requirement) -> bool:
    """Check whether API servers accept a requirement: they reject keys and values that no label can have."""
    if requirement.operator in ("In", "NotIn") and not requirement.values:
        return False
    return _KEY.fullmatch(requirement.key) is not None and all(map(_VALUE.fullmatch, requirement.values))


def namespace_selector(scopes: Sequence[PolicyScope], target: Target) -> dict[str, Any]:
    """Return the namespaceSelector of a webhook; empty to match all namespaces.

    It selects the namespaces that the policies list, or excludes those that are exempt. It has no effect on
    cluster-scoped objects, which a webhook always matches.
    """
    included = _valid_names(listed_namespaces(scopes) or ()) - set(target.all_exempt_namespaces)
    if included and target.version >= NAMESPACE_NAME_LABEL:
        return _to_dict([Requirement(_NAME_LABEL, "In", included)])
    excluded_by_all = frozenset.intersection(*map(_excluded_namespaces, scopes))
    excluded = _valid_names({*target.all_exempt_namespaces, *excluded_by_all})
    return _to_dict([Requirement(_NAME_LABEL, "NotIn", excluded)] if excluded else [])


def _valid_names(names: Iterable[str]) -> frozenset[str]:
    """Return the names that can be the value of a label; others are not names of namespaces."""
    return frozenset(name for name in names if name and _VALUE.fullmatch(name))


def listed_namespaces(scopes: Sequence[PolicyScope]) -> frozenset[str] | None:
    """Return all namespaces that the policies match; None if a policy does not list its namespaces."""
    namespaces: set[str] = set()
    for scope in scopes:
        names = _listed_names(scope.namespaces)
        if names is None:
            return None
        namespaces |= names
    return frozenset(namespaces)


def _listed_names(patterns: Sequence[Globs]) -> frozenset[str] | None:
    """Return the names that match all of the globs; None if each of the globs contains a pattern."""
    names = next((globs.texts for globs in patterns if not any(map(is_pattern, globs.texts or ("*",)))), None)
    return None if names is None else frozenset(name for name in names if all(globs.match(name) for globs in patterns))


def _excluded_namespaces(scope: PolicyScope) -> frozenset[str]:
    """Return the namespaces that a policy excludes by name."""
    excluded = chain.from_iterable(globs.excluded for globs in scope.namespaces)
    return frozenset(name for name in excluded if not is_pattern(name))


def listed_exempt_namespaces(scope: PolicyScope, target: Target) -> list[str]:
    """Return the exempt namespaces that a policy lists; it is not called for them."""
    names = {name for globs in scope.namespaces for name in globs.texts or ()} & set(target.all_exempt_namespaces)
    return sorted(name for name in names if all(globs.match(name) for globs in scope.namespaces))


def _to_dict(requirements: Sequence[Requirement]) -> dict[str, Any]:
    """Return a selector as the API writes it."""
    labels = {
        requirement.key: next(iter(requirement.values))
        for requirement in requirements
        if requirement.operator == "In" and len(requirement.values) == 1
    }
    expressions = [
        {"key": requirement.key, "operator": requirement.operator}
        | ({"values": sorted(requirement.values)} if requirement.values else {})
        for requirement in requirements
        if requirement.key not in labels
    ]
    selector: dict[str, Any] = {"matchLabels": labels} if labels else {}
    return selector | ({"matchExpressions": expressions} if expressions else {})

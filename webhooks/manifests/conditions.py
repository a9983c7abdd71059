"""Match conditions: what policies go by beside rules and labels, in CEL.

A condition holds wherever a policy wants the review. What CEL cannot say exactly is left out, which asks us more often
than need be; an error would have the API server's request fail, so a field that may be absent is never read unasked.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from webhooks.kube.globs import Globs, is_pattern
from webhooks.kube.resource_rules import Rule
from webhooks.manifests import kinds
from webhooks.manifests.kinds import RuleSet
from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.target import API_SERVER, COMPONENT_USERS, STARTUP
from webhooks.reviews.admission import OPERATIONS

_NAMESPACE, _NAME, _USER, _GROUPS = (
    "request.namespace",
    "request.name",
    "request.userInfo.username",
    "request.userInfo.groups",
)

NOT_STARTING = "not-the-clusters-start"


class Condition(NamedTuple):
    """A condition of a webhook, which must hold.

    Attributes:
        name: what it is about.
        expression: in CEL.
    """

    name: str
    expression: str

    def written(self) -> dict[str, str]:
        """As a registration has it."""
        return {"name": self.name, "expression": self.expression}


def of(wanted: Sequence[PolicyScope]) -> list[Condition]:
    """What holds wherever one of the policies wants a review that the rules select.

    Policies that go by the same share their conditions. Where they differ there is one, an alternative for each.
    """
    by_conditions: dict[tuple[Condition, ...], list[PolicyScope]] = {}
    for each in wanted:
        by_conditions.setdefault(tuple(_conditions(each)), []).append(each)
    if len(by_conditions) == 1:
        return list(next(iter(by_conditions)))
    alternatives = []
    for conditions, policies in by_conditions.items():
        parts = [_kinds(policies), *(each.expression for each in conditions)]
        alternatives.append(all_of([part for part in parts if part]))
    return [Condition("wanted", any_of(alternatives, " ||\n"))] if all(alternatives) else []


def _conditions(wanted: PolicyScope) -> list[Condition]:
    """Those of one policy."""
    found = [Condition("namespaces", _optional(_NAMESPACE, globs)) for globs in wanted.namespaces]
    found += [Condition("excluded-namespaces", _none(_NAMESPACE, globs)) for globs in wanted.namespaces]
    found += [Condition("names", _named(globs)) for globs in wanted.names]
    found += [Condition("users", _optional(_USER, globs)) for globs in wanted.users]
    found += [Condition("groups", _member(globs)) for globs in wanted.groups]
    return _numbered([each for each in found if each.expression])


def _named(globs: Globs) -> str:
    """That the name fits; or is not there yet, while policies see how it begins."""
    said = fits(_NAME, globs.texts)
    return f"!has({_NAME}) || {_NAME} == '' || {said}" if said else ""


def _member(globs: Globs) -> str:
    """That one of the user's groups fits."""
    said = fits("group", globs.texts)
    return f"has({_GROUPS}) && {_GROUPS}.exists(group, {said})" if said else ""


def _numbered(conditions: Sequence[Condition]) -> list[Condition]:
    """The same under names that differ, as they must."""
    seen: Counter[str] = Counter()
    found: list[Condition] = []
    for each in conditions:
        seen[each.name] += 1
        found.append(each if seen[each.name] == 1 else each._replace(name=f"{each.name}-{seen[each.name]}"))
    return found


def _optional(field: str, globs: Globs) -> str:
    """That a field fits, which is empty where it is absent."""
    said = fits(field, globs.texts)
    if not said:
        return ""
    return f"!has({field}) || {said}" if Globs(globs.texts).match("") else f"has({field}) && {said}"


def _none(field: str, globs: Globs) -> str:
    """That a field is not excluded."""
    said = fits(field, globs.excluded) if globs.excluded else ""
    return f"!has({field}) || !{said}" if said else ""


def fits(field: str, texts: Sequence[str] | None) -> str:
    """That a text fits one of some globs; empty for all texts, and where CEL cannot say it."""
    if texts is None or "*" in texts or any("[" in text for text in texts):
        return ""
    exact = [text for text in texts if not is_pattern(text)]
    parts = [f"{field} == {quoted(exact[0])}"] if len(exact) == 1 else [f"{field} in {listed(exact)}"] if exact else []
    parts += [_matches(field, text) for text in texts if is_pattern(text)]
    return f"({' || '.join(parts)})" if parts else "false"


def _matches(field: str, pattern: str) -> str:
    if pattern.endswith("*") and not is_pattern(pattern[:-1]):
        return f"{field}.startsWith({quoted(pattern[:-1])})"
    if pattern.startswith("*") and not is_pattern(pattern[1:]):
        return f"{field}.endsWith({quoted(pattern[1:])})"
    parts = "".join({"*": ".*", "?": "."}.get(each) or _literal(each) for each in pattern)
    return f"{field}.matches({quoted(f'(?s)^{parts}$')})"


def _literal(character: str) -> str:
    return f"\\{character}" if re.fullmatch(r"[!-/:-@\[-`{-~]", character) else character


def quoted(text: str) -> str:
    """A text as CEL writes it, with the quotes that are none in YAML and JSON."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{escaped}'"


def listed(texts: Iterable[str]) -> str:
    """A list of texts."""
    return f"[{', '.join(map(quoted, texts))}]"


def all_of(parts: Sequence[str]) -> str:
    """That all of them hold."""
    return " && ".join(f"({part})" if "||" in part and len(parts) > 1 else part for part in parts)


def any_of(parts: Sequence[str], between: str = " || ") -> str:
    """That one of them holds."""
    return between.join(f"({part})" if len(parts) > 1 else part for part in parts)


def _kinds(policies: Iterable[PolicyScope]) -> str:
    """That a request is of a kind that one of them wants; empty for all.

    Groups and versions are left out: a request that reaches us converted has those from before here.
    """
    rules = (
        (Rule("*", "*", rule.resource, rule.subresource), each.operations) for each in policies for rule in each.rules
    )
    parts = [_kind(each) for each in kinds.of(rules)]
    return any_of(parts) if all(parts) else ""


def _kind(kind: RuleSet) -> str:
    parts = [any_of([part for part in map(_resource, sorted(kind.resources)) if part])]
    if ("*", "*") in kind.resources:
        parts = []
    if len(kind.operations) < len(OPERATIONS):
        parts.append(f"request.operation in {listed(each for each in OPERATIONS if each in kind.operations)}")
    return all_of(parts)


def _resource(resource: tuple[str, str]) -> str:
    name, subresource = resource
    parts = [] if name == "*" else [f"request.resource.resource == {quoted(name)}"]
    if subresource == "":
        parts.append("(!has(request.subResource) || request.subResource == '')")
    elif subresource != "*":
        parts.append(f"has(request.subResource) && request.subResource == {quoted(subresource)}")
    return " && ".join(parts)


def not_starting(groups: Sequence[str], *, everything: bool) -> Condition:
    """That this is nothing that the cluster's own components write when it starts, which we start after.

    Args:
        groups: those of components.
        everything: whether all kinds are asked about: then nothing is told of kinds, since networks bring their own,
            but all is left out that is in no namespace, and the API server, which writes where it is found.
    """
    own = components(_USER, _GROUPS, groups)
    if everything:
        apart = f"!has({_NAMESPACE}) || {_NAMESPACE} == ''"
        server = f"has({_USER}) && {_USER} == {quoted(API_SERVER)}"
        return Condition(NOT_STARTING, f"!((({apart}) && {own}) || ({server}))")
    resources = any_of(
        [
            f"request.resource.group == {quoted(group)} && request.resource.resource == {quoted(resource)}"
            for group, resource in STARTUP
        ]
    )
    return Condition(NOT_STARTING, f"!(({resources}) && {own})")


def components(user: str, groups: str, known_groups: Sequence[str]) -> str:
    """That a request is from one of the cluster's own components, by the fields of the user and the groups."""
    known = f"has({user}) && {user} in {listed(COMPONENT_USERS)}"
    member = f"has({groups}) && {groups}.exists(group, group in {listed(known_groups)})"
    return f"({known} || {member})"

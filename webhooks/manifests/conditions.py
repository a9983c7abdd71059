"""Match conditions: the parts of a policy's match that rules and selectors cannot express, in CEL.

A condition is true for each request that a policy matches. A part that CEL cannot express exactly is left out, so that
the API server sends more requests than necessary. An error in a condition makes the API server's request fail, so each
field that may be absent is tested with ``has()`` first.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from webhooks.kube.globs import Globs
from webhooks.kube.resource_rules import Rule
from webhooks.manifests.cel import all_of, any_of, matches_any, matches_none, quote, quote_list
from webhooks.manifests.scope import PolicyScope, RuleSet, merge_rules
from webhooks.manifests.target import API_SERVER_USER, COMPONENT_USERS, STARTUP_RESOURCES
from webhooks.policy.matching import AccessMatch
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.admission import OPERATIONS

NOT_STARTUP = "not-cluster-startup"
_ANY_POLICY = "matches-a-policy"

_NAMESPACE, _NAME = "request.namespace", "request.name"
_USERNAME, _GROUPS = "request.userInfo.username", "request.userInfo.groups"

# Fields of a SubjectAccessReview, which has either one or the other. Their text fields are present even if empty.
_RESOURCE, _NON_RESOURCE = "request.resourceAttributes", "request.nonResourceAttributes"


class Condition(NamedTuple):
    """A condition of a webhook; all conditions of a webhook must be true.

    Attributes:
        name: the name, unique within the webhook.
        expression: the expression in CEL.
    """

    name: str
    expression: str


def admission_conditions(scopes: Sequence[PolicyScope]) -> list[Condition]:
    """Return conditions that are true for each request that matches the rules and one of the policies.

    Policies with the same conditions share them. Otherwise there is one condition, with an alternative for each group
    of policies.
    """
    by_conditions: dict[tuple[Condition, ...], list[PolicyScope]] = {}
    for scope in scopes:
        by_conditions.setdefault(tuple(_build_conditions(scope)), []).append(scope)
    if len(by_conditions) == 1:
        return list(next(iter(by_conditions)))
    expression = any_of(
        [
            all_of([_matches_rules(sharing), *(condition.expression for condition in conditions)])
            for conditions, sharing in by_conditions.items()
        ],
        " ||\n",
    )
    return [Condition(_ANY_POLICY, expression)] if expression else []


def _build_conditions(scope: PolicyScope) -> list[Condition]:
    """Return the conditions of one policy."""
    conditions = [Condition("namespaces", _matches_optional(_NAMESPACE, globs)) for globs in scope.namespaces]
    conditions += [Condition("excluded-namespaces", _matches_no_namespace(globs)) for globs in scope.namespaces]
    conditions += [Condition("names", _matches_name(globs)) for globs in scope.names]
    conditions += [Condition("users", _matches_optional(_USERNAME, globs)) for globs in scope.users]
    conditions += [Condition("groups", _matches_member(_GROUPS, globs)) for globs in scope.groups]
    return _number_names([condition for condition in conditions if condition.expression])


def _matches_optional(field: str, globs: Globs) -> str:
    """Return the expression that a field matches, or the empty text if the field is absent."""
    matches = matches_any(field, globs.texts)
    if not matches:
        return ""
    return f"!has({field}) || {matches}" if Globs(globs.texts).match("") else f"has({field}) && {matches}"


def _matches_no_namespace(globs: Globs) -> str:
    matches = matches_none(_NAMESPACE, globs.excluded)
    return f"!has({_NAMESPACE}) || {matches}" if matches else ""


def _matches_name(globs: Globs) -> str:
    """Return the expression that the name matches or is not generated yet; policies match on ``generateName`` then."""
    matches = matches_any(_NAME, globs.texts)
    return f"!has({_NAME}) || {_NAME} == '' || {matches}" if matches else ""


def _matches_member(groups: str, globs: Globs) -> str:
    """Return the expression that one of the user's groups matches."""
    matches = matches_any("group", globs.texts)
    return f"has({groups}) && {groups}.exists(group, {matches})" if matches else ""


def _number_names(conditions: Sequence[Condition]) -> list[Condition]:
    """Append numbers to repeated names: API servers require unique names."""
    counts: Counter[str] = Counter()
    numbered: list[Condition] = []
    for condition in conditions:
        counts[condition.name] += 1
        count = counts[condition.name]
        numbered.append(condition if count == 1 else condition._replace(name=f"{condition.name}-{count}"))
    return numbered


def _matches_rules(scopes: Iterable[PolicyScope]) -> str:
    """Return the expression that a request matches the resources and operations of one policy; empty for all requests.

    Groups and versions are left out: a converted request has its original group and version here.
    """
    rules = (
        (Rule("*", "*", rule.resource, rule.subresource), scope.operations) for scope in scopes for rule in scope.rules
    )
    return any_of([_matches_rule_set(rule_set) for rule_set in merge_rules(rules)])


def _matches_rule_set(rule_set: RuleSet) -> str:
    operations = quote_list(operation for operation in OPERATIONS if operation in rule_set.operations)
    return all_of(
        [
            any_of([_matches_resource(*resource) for resource in sorted(rule_set.resources)]),
            f"request.operation in {operations}" if len(rule_set.operations) < len(OPERATIONS) else "",
        ]
    )


def _matches_resource(resource: str, subresource: str) -> str:
    parts = [] if resource == "*" else [f"request.resource.resource == {quote(resource)}"]
    if subresource == "":
        parts.append("(!has(request.subResource) || request.subResource == '')")
    elif subresource != "*":
        parts.append(f"has(request.subResource) && request.subResource == {quote(subresource)}")
    return " && ".join(parts)


def startup_exemption(groups: Sequence[str], *, cluster_scoped: bool) -> Condition:
    """Return the condition that a request is not from a component of a starting cluster, before this server can run.

    Args:
        groups: the groups of the cluster's components.
        cluster_scoped: whether the webhook matches all cluster-scoped resources. Network plugins define resources of
            their own, so then every cluster-scoped write of the components is exempt, and each write of the API server.
    """
    component = _is_component(_USERNAME, _GROUPS, groups)
    if cluster_scoped:
        no_namespace = f"!has({_NAMESPACE}) || {_NAMESPACE} == ''"
        api_server = f"has({_USERNAME}) && {_USERNAME} == {quote(API_SERVER_USER)}"
        return Condition(NOT_STARTUP, f"!((({no_namespace}) && {component}) || ({api_server}))")
    resources = any_of(
        [
            f"request.resource.group == {quote(group)} && request.resource.resource == {quote(resource)}"
            for group, resource in STARTUP_RESOURCES
        ]
    )
    return Condition(NOT_STARTUP, f"!(({resources}) && {component})")


def _is_component(user: str, groups: str, component_groups: Sequence[str]) -> str:
    """Return the expression that a request comes from a component of the cluster.

    Args:
        user: the field with the username.
        groups: the field with the user's groups.
        component_groups: the groups of the components.
    """
    is_known_user = f"has({user}) && {user} in {quote_list(COMPONENT_USERS)}"
    is_member = f"has({groups}) && {groups}.exists(group, group in {quote_list(component_groups)})"
    return f"({is_known_user} || {is_member})"


def authorization_conditions(policies: Sequence[AnyPolicy], component_groups: Sequence[str]) -> list[str]:
    """Return expressions that are true for each access review that one of the policies matches.

    The first one exempts the cluster's own components.
    """
    exemption = f"!{_is_component('request.user', 'request.groups', component_groups)}"
    matches = any_of([_matches_access_policy(policy) for policy in policies], " ||\n")
    return [exemption, matches] if matches else [exemption]


def _matches_access_policy(policy: AnyPolicy) -> str:
    matches = [match for match in (policy.match, policy.operator_match) if isinstance(match, AccessMatch)]
    parts = []
    for match in matches:
        parts += [
            _matches_attributes(match),
            _matches_globs("request.user", match.users),
            _matches_member("request.groups", match.groups),
        ]
    return all_of(parts)


def _matches_attributes(match: AccessMatch) -> str:
    """Return the expression that a review is about one of the resources, or one of the paths, of a match."""
    alternatives = []
    if match.rules:
        resources = any_of([_matches_access_rule(rule) for rule in match.rules])
        verb, namespace, name = (
            _matches_globs(f"{_RESOURCE}.{field}", globs)
            for field, globs in (("verb", match.verbs), ("namespace", match.namespaces), ("name", match.names))
        )
        alternatives.append(all_of([f"has({_RESOURCE})", resources, verb, namespace, name]))
    paths = match.paths.texts
    # A review about a path has no namespace and no name.
    if (paths is None or paths) and match.namespaces.match("") and match.names.match(""):
        path, verb = matches_any(f"{_NON_RESOURCE}.path", paths), _matches_globs(f"{_NON_RESOURCE}.verb", match.verbs)
        alternatives.append(all_of([f"has({_NON_RESOURCE})", path, verb]))
    return any_of(alternatives) if alternatives else "false"


def _matches_globs(field: str, globs: Globs) -> str:
    return all_of([matches_any(field, globs.texts), matches_none(field, globs.excluded)])


def _matches_access_rule(rule: Rule) -> str:
    """Return the expression that a resource matches a rule, in any version: not all reviews contain one."""
    return all_of(
        [
            f"{_RESOURCE}.{field} == {quote(value)}"
            for field, value in (("group", rule.group), ("resource", rule.resource), ("subresource", rule.subresource))
            if value != "*"
        ]
    )

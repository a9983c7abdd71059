"""Which access reviews policies want, as match conditions of an AuthorizationConfiguration, in CEL.

Of a review's spec the text fields are there even when empty; attributes of a resource, or of none, only where it is
about that.
"""

from collections.abc import Sequence

from webhooks.kube.globs import Globs
from webhooks.kube.resource_rules import Rule
from webhooks.manifests.conditions import all_of, any_of, components, fits, quoted
from webhooks.policy.matching import AccessMatch
from webhooks.policy.model import AnyPolicy

_RESOURCE, _OTHER = "request.resourceAttributes", "request.nonResourceAttributes"


def conditions(policies: Sequence[AnyPolicy], groups: Sequence[str]) -> list[str]:
    """What holds wherever one of the policies wants a review; first, that none of the cluster's own components asks.

    Args:
        policies: the policies.
        groups: those of the components.
    """
    wanted = [_wanted(policy) for policy in policies]
    own = f"!{components('request.user', 'request.groups', groups)}"
    return [own, *([any_of(wanted, " ||\n")] if all(wanted) else [])]


def _wanted(policy: AnyPolicy) -> str:
    """That a policy wants it, as far as can be said."""
    matches = [each for each in (policy.match, policy.operator_match) if isinstance(each, AccessMatch)]
    return all_of([part for match in matches for part in _parts(match)])


def _parts(match: AccessMatch) -> list[str]:
    parts = [_about(match)]
    parts += [_fits("request.user", match.users)]
    groups = fits("group", match.groups.texts)
    parts += [f"has(request.groups) && request.groups.exists(group, {groups})"] if groups else []
    return [part for part in parts if part]


def _about(match: AccessMatch) -> str:
    """That it is about one of the resources, or one of the paths."""
    resources = [_rule(rule) for rule in match.rules]
    both = []
    if resources:
        named = [_fits(f"{_RESOURCE}.{field}", globs) for field, globs in _named(match)]
        both.append(all_of([f"has({_RESOURCE})", *_known([any_of(resources) if all(resources) else "", *named])]))
    paths = match.paths.texts
    if paths is None or paths:
        parts = [fits(f"{_OTHER}.path", paths), _fits(f"{_OTHER}.verb", match.verbs)]
        # What is about no resource has no namespace and no name.
        if match.namespaces.match("") and match.names.match(""):
            both.append(all_of([f"has({_OTHER})", *_known(parts)]))
    return any_of(both) if both else "false"


def _named(match: AccessMatch) -> list[tuple[str, Globs]]:
    return [("verb", match.verbs), ("namespace", match.namespaces), ("name", match.names)]


def _known(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part]


def _fits(field: str, globs: Globs) -> str:
    included = fits(field, globs.texts)
    excluded = fits(field, globs.excluded) if globs.excluded else ""
    return all_of(_known([included, f"!{excluded}" if excluded else ""]))


def _rule(rule: Rule) -> str:
    """That a resource is one of a rule; of any version, since not all reviews name one."""
    parts = [
        f"{_RESOURCE}.{field} == {quoted(value)}"
        for field, value in (("group", rule.group), ("resource", rule.resource), ("subresource", rule.subresource))
        if value != "*"
    ]
    return all_of(parts)

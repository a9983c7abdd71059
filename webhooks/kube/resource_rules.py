"""Rules that match resources, with the semantics of webhook configurations."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhooks.errors import ConfigurationError
from webhooks.kube.globs import parse_strings

_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
# The groups without a dot in the name, and "core" for the core group.
_PLAIN_GROUPS = frozenset(("apps", "autoscaling", "batch", "core", "extensions", "policy"))
# Short names of groups, and singular names of resources: rules with these would never match.
_SHORT_GROUPS = frozenset(
    [
        "admissionregistration",
        "apiextensions",
        "apiregistration",
        "authentication",
        "authorization",
        "certificates",
        "coordination",
        "discovery",
        "flowcontrol",
        "networking",
        "node",
        "rbac",
        "scheduling",
        "storage",
    ]
)
_SINGULARS = {
    plural.removesuffix("es") if plural == "ingresses" else plural.removesuffix("s"): plural
    for plural in [
        "configmaps",
        "cronjobs",
        "daemonsets",
        "deployments",
        "events",
        "ingresses",
        "jobs",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "pods",
        "replicasets",
        "roles",
        "rolebindings",
        "secrets",
        "serviceaccounts",
        "services",
        "statefulsets",
    ]
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that matches resources. Each part is a name or ``*``.

    Attributes:
        group: the API group; empty for the core group.
        version: the API version.
        resource: the plural name.
        subresource: empty for only the resource; ``*`` for the resource and all its subresources.
    """

    group: str
    version: str
    resource: str
    subresource: str

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Parse ``[group/][version/]resource[/subresource]``: pods, pods/exec, */scale, apps/v1/deployments, */*.

        The first part is a group if it has a dot, or is a built-in group without one (``core`` for the core group).

        Raises:
            ConfigurationError: the text is not a rule.
        """
        parts = text.split("/")
        group = version = "*"
        if len(parts) > 1 and ("." in parts[0] or parts[0] in _PLAIN_GROUPS):
            group = parts.pop(0)
        if len(parts) > 1 and _VERSION.fullmatch(parts[0]):
            version = parts.pop(0)
        if len(parts) > 2 or not all(re.fullmatch(r"\*|[a-z0-9.-]+", part) for part in parts):
            raise ConfigurationError(
                f"{text!r} is not a resource: use [group/][version/]resource[/subresource] in lower case"
            )
        resource, subresource = parts if len(parts) == 2 else (parts[0], "")
        if resource in _SHORT_GROUPS:
            raise ConfigurationError(
                f"{text!r} is not a resource: use the full name of the group, {resource}.k8s.io/..."
            )
        if resource in _SINGULARS:
            raise ConfigurationError(f"{text!r} is not a resource: use the plural, {_SINGULARS[resource]}")
        return cls("" if group == "core" else group, version, resource, subresource)

    def matches(self, group: str, version: str, resource: str, subresource: str) -> bool:
        """Check whether the rule matches the resource of a request. An empty version matches every rule."""
        return (
            self.resource in ("*", resource)
            and self.subresource in ("*", subresource)
            and self.group in ("*", group)
            and (self.version in ("*", version) or not version)
        )


def parse_rules(resources: Sequence[str]) -> tuple[Rule, ...]:
    """Parse a list of rules.

    Raises:
        ConfigurationError: the value is not a list of rules.
    """
    return tuple(Rule.parse(resource) for resource in parse_strings(resources))


def intersect(one: Rule, other: Rule) -> Rule | None:
    """Return the rule that matches the resources that both rules match; None if there are none."""
    parts = [
        _intersect_parts(one.group, other.group),
        _intersect_parts(one.version, other.version),
        _intersect_parts(one.resource, other.resource),
        _intersect_parts(one.subresource, other.subresource),
    ]
    common = [part for part in parts if part is not None]
    return Rule(*common) if len(common) == len(parts) else None


def _intersect_parts(one: str, other: str) -> str | None:
    if one == "*" or one == other:
        return other
    return one if other == "*" else None

"""Some resources, as admission registrations write them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webhooks.errors import ConfigurationError
from webhooks.kube.globs import strings

_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
# Groups without a dot; every other group but the core one has a dot in its name.
_PLAIN_GROUPS = frozenset(("apps", "autoscaling", "batch", "core", "extensions", "policy"))
# What is easily written for a group or a resource and would never match.
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
    """Some resources, each part a name or ``*``.

    Attributes:
        group: the API group, empty for the core group; ``*`` where the rule names none.
        version: the API version; ``*`` where the rule names none.
        resource: the plural name.
        subresource: empty for the resource alone; ``*`` for it and all its subresources.
    """

    group: str
    version: str
    resource: str
    subresource: str

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """Read ``[group/][version/]resource[/subresource]``: pods, pods/exec, */scale, apps/v1/deployments, */*.

        A first part with a dot, or a built-in group without one (``core`` is the core group), names the group.

        Raises:
            ConfigurationError: the text is no rule.
        """
        parts = text.split("/")
        group = version = "*"
        if len(parts) > 1 and ("." in parts[0] or parts[0] in _PLAIN_GROUPS):
            group = parts.pop(0)
        if len(parts) > 1 and _VERSION.fullmatch(parts[0]):
            version = parts.pop(0)
        if len(parts) > 2 or not all(re.fullmatch(r"\*|[a-z0-9.-]+", part) for part in parts):
            raise ConfigurationError(
                f"{text!r} names no resource: write [group/][version/]resource[/subresource], all in lower case"
            )
        resource, subresource = parts if len(parts) == 2 else (parts[0], "")
        if resource in _SHORT_GROUPS:
            raise ConfigurationError(f"{text!r} names no resource: write the group in full, {resource}.k8s.io/...")
        if resource in _SINGULARS:
            raise ConfigurationError(f"{text!r} names no resource: they are plural, {_SINGULARS[resource]}")
        return cls("" if group == "core" else group, version, resource, subresource)

    def matches(self, group: str, version: str, resource: str, subresource: str) -> bool:
        """Whether a request's resource is one of these; a request that names no version means every version."""
        return (
            self.resource in ("*", resource)
            and self.subresource in ("*", subresource)
            and self.group in ("*", group)
            and (self.version in ("*", version) or not version)
        )


def rules(resources: Sequence[str]) -> tuple[Rule, ...]:
    """Read rules.

    Raises:
        ConfigurationError: one of them is no rule.
    """
    return tuple(Rule.parse(resource) for resource in strings(resources))


def both(one: Rule, other: Rule) -> Rule | None:
    """The rule for what two rules have in common; None for nothing."""
    parts = [
        _part(one.group, other.group),
        _part(one.version, other.version),
        _part(one.resource, other.resource),
        _part(one.subresource, other.subresource),
    ]
    known = [part for part in parts if part is not None]
    return Rule(*known) if len(known) == len(parts) else None


def _part(one: str, other: str) -> str | None:
    if one == "*" or one == other:
        return other
    return one if other == "*" else None

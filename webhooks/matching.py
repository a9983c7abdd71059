"""Does a policy want this review? Rules as admission registrations write them, globs and selectors beside them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any, Literal

import msgspec

from webhooks.errors import ConfigurationError
from webhooks.wire.admission import AdmissionReview, label_sets
from webhooks.wire.authorization import AccessReview
from webhooks.wire.images import ImageReview

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
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


class Globs:
    """Names and shell patterns (``*``, ``?``); none at all matches everything."""

    __slots__ = ("_names", "_patterns", "texts")

    def __init__(self, texts: Iterable[str] | None) -> None:
        self.texts = None if texts is None else _strings(texts)
        self._names = frozenset(text for text in self.texts or () if not _is_pattern(text))
        self._patterns = tuple(re.compile(translate(text)) for text in self.texts or () if _is_pattern(text))

    def __repr__(self) -> str:
        return f"Globs({self.texts!r})"

    def match(self, name: str) -> bool:
        """Whether the name is among them."""
        if self.texts is None or name in self._names:
            return True
        return any(pattern.match(name) for pattern in self._patterns)

    def match_any(self, names: Iterable[str]) -> bool:
        """Whether one of the names is among them."""
        return self.texts is None or any(self.match(name) for name in names)


def _is_pattern(text: str) -> bool:
    return any(character in text for character in "*?[")


def _strings(texts: Iterable[str]) -> tuple[str, ...]:
    try:
        return msgspec.convert(list(texts) if not isinstance(texts, str) else texts, tuple[str, ...])
    except (msgspec.ValidationError, TypeError):
        raise ConfigurationError(f"a list of strings is needed, not {texts!r}") from None


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


EVERYTHING = Globs(None)


@dataclass(frozen=True, slots=True)
class AdmissionMatch:
    """Which admission reviews a policy wants."""

    rules: tuple[Rule, ...]
    operations: frozenset[str]
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    labels: Selector = field(default_factory=Selector)
    users: Globs = EVERYTHING
    groups: Globs = EVERYTHING

    def wants_kind(self, review: AdmissionReview) -> bool:
        """Whether the resource and the operation fit, which many reviews share."""
        resource = review.resource
        return review.operation in self.operations and any(
            rule.matches(resource.group, resource.version, resource.resource, review.subresource) for rule in self.rules
        )

    @property
    def unconditional(self) -> bool:
        """Whether `wants` holds for every review of the kinds that it wants."""
        globs = (self.namespaces, self.names, self.users, self.groups)
        return all(each is EVERYTHING for each in globs) and not self.labels.requirements

    def wants(self, review: AdmissionReview) -> bool:
        """Whether, of those, this one fits too. Selectors ask the object and the old one: either will do.

        Raises:
            MalformedReview: what has to be asked cannot be read.
        """
        return (
            self.namespaces.match(review.namespace)
            and (self.names is EVERYTHING or self.names.match(review.name))
            and (self.users is EVERYTHING or self.users.match(review.user.username))
            and (self.groups is EVERYTHING or self.groups.match_any(review.groups))
            and (not self.labels.requirements or any(self.labels.matches(each) for each in label_sets(review)))
        )


@dataclass(frozen=True, slots=True)
class AccessMatch:
    """Which access reviews a policy wants: those about the resources, and those about the paths."""

    rules: tuple[Rule, ...]
    paths: Globs
    verbs: Globs = EVERYTHING
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    users: Globs = EVERYTHING
    groups: Globs = EVERYTHING

    def wants_kind(self, review: AccessReview) -> bool:
        """Whether the resource or path and the verb fit."""
        if not self.verbs.match(review.verb):
            return False
        if not review.is_resource:
            return self.paths.match(review.path)
        return any(
            rule.matches(review.group, review.version, review.resource, review.subresource) for rule in self.rules
        )

    @property
    def unconditional(self) -> bool:
        """As `AdmissionMatch.unconditional`."""
        return all(each is EVERYTHING for each in (self.namespaces, self.names, self.users, self.groups))

    def wants(self, review: AccessReview) -> bool:
        """Whether, of those, this one fits too."""
        return (
            self.namespaces.match(review.namespace)
            and self.names.match(review.name)
            and self.users.match(review.user)
            and self.groups.match_any(review.groups)
        )


@dataclass(frozen=True, slots=True)
class ImageMatch:
    """Which image reviews a policy wants."""

    namespaces: Globs = EVERYTHING

    def wants_kind(self, review: ImageReview) -> bool:  # noqa: ARG002
        """All image reviews are of one kind."""
        return True

    @property
    def unconditional(self) -> bool:
        """As `AdmissionMatch.unconditional`."""
        return self.namespaces is EVERYTHING

    def wants(self, review: ImageReview) -> bool:
        """Whether the namespace fits."""
        return self.namespaces.match(review.namespace)


@dataclass(frozen=True, slots=True)
class AnyMatch:
    """All reviews: tokens have nothing to choose by."""

    unconditional = True

    def wants_kind(self, review: object) -> bool:  # noqa: ARG002
        """All."""
        return True

    def wants(self, review: object) -> bool:  # noqa: ARG002
        """All."""
        return True


def rules(resources: Sequence[str]) -> tuple[Rule, ...]:
    """Read rules.

    Raises:
        ConfigurationError: one of them is no rule.
    """
    return tuple(Rule.parse(resource) for resource in _strings(resources))


def operations(names: Sequence[str]) -> frozenset[str]:
    """Read operations, ``*`` for all.

    Raises:
        ConfigurationError: one of them is no operation, or there is none.
    """
    names = _strings(names)
    if "*" in names:
        return frozenset(OPERATIONS)
    if not names or not set(names) <= set(OPERATIONS):
        raise ConfigurationError(f"operations are some of {', '.join(OPERATIONS)}, or *: not {list(names)}")
    return frozenset(names)

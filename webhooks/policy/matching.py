"""Does a policy want this review? Rules as admission registrations write them, globs and selectors beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING, Globs, strings
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule
from webhooks.reviews.admission import OPERATIONS, AdmissionReview, label_sets
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview


@dataclass(frozen=True, slots=True)
class AdmissionMatch:
    """Which admission reviews a policy matches.

    Attributes:
        is_unconditional: whether `matches` holds for every review of the kinds that it matches.
    """

    rules: tuple[Rule, ...]
    operations: frozenset[str]
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    labels: Selector = field(default_factory=Selector)
    users: Globs = EVERYTHING
    groups: Globs = EVERYTHING
    is_unconditional: bool = field(init=False)

    def __post_init__(self) -> None:
        globs = (self.namespaces, self.names, self.users, self.groups)
        narrowed = any(each is not EVERYTHING for each in globs) or bool(self.labels.requirements)
        object.__setattr__(self, "is_unconditional", not narrowed)

    def matches_resource(self, review: AdmissionReview) -> bool:
        """Whether the resource and the operation fit, which many reviews share."""
        resource = review.resource
        return review.operation in self.operations and any(
            rule.matches(resource.group, resource.version, resource.resource, review.subresource) for rule in self.rules
        )

    def matches(self, review: AdmissionReview) -> bool:
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
    """Which access reviews a policy matches: those about the resources, and those about the paths."""

    rules: tuple[Rule, ...]
    paths: Globs
    verbs: Globs = EVERYTHING
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    users: Globs = EVERYTHING
    groups: Globs = EVERYTHING

    def matches_resource(self, review: AccessReview) -> bool:
        """Whether the resource or path and the verb fit."""
        if not self.verbs.match(review.verb):
            return False
        if not review.is_resource:
            return self.paths.match(review.path)
        return any(
            rule.matches(review.group, review.version, review.resource, review.subresource) for rule in self.rules
        )

    @property
    def is_unconditional(self) -> bool:
        """As `AdmissionMatch.is_unconditional`."""
        return all(each is EVERYTHING for each in (self.namespaces, self.names, self.users, self.groups))

    def matches(self, review: AccessReview) -> bool:
        """Whether, of those, this one fits too."""
        return (
            self.namespaces.match(review.namespace)
            and self.names.match(review.name)
            and self.users.match(review.user)
            and self.groups.match_any(review.groups)
        )


@dataclass(frozen=True, slots=True)
class ImageMatch:
    """Which image reviews a policy matches."""

    namespaces: Globs = EVERYTHING

    def matches_resource(self, review: ImageReview) -> bool:  # noqa: ARG002
        """All image reviews are of one kind."""
        return True

    @property
    def is_unconditional(self) -> bool:
        """As `AdmissionMatch.is_unconditional`."""
        return self.namespaces is EVERYTHING

    def matches(self, review: ImageReview) -> bool:
        """Whether the namespace fits."""
        return self.namespaces.match(review.namespace)


@dataclass(frozen=True, slots=True)
class AnyMatch:
    """All reviews: tokens have nothing to choose by."""

    is_unconditional = True

    def matches_resource(self, review: object) -> bool:  # noqa: ARG002
        """All."""
        return True

    def matches(self, review: object) -> bool:  # noqa: ARG002
        """All."""
        return True


def parse_operations(names: Sequence[str]) -> frozenset[str]:
    """Read operations, ``*`` for all.

    Raises:
        ConfigurationError: one of them is no operation, or there is none.
    """
    names = strings(names)
    if "*" in names:
        return frozenset(OPERATIONS)
    if not names or not set(names) <= set(OPERATIONS):
        raise ConfigurationError(f"operations are some of {', '.join(OPERATIONS)}, or *: not {list(names)}")
    return frozenset(names)

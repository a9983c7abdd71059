"""The conditions under which a policy decides on a review: resource rules, globs and label selectors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING, Globs, parse_strings
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule
from webhooks.reviews.admission import OPERATIONS, AdmissionReview, label_sets
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview


@dataclass(frozen=True, slots=True)
class AdmissionMatch:
    """Conditions for admission reviews.

    Attributes:
        is_unconditional: whether every review that passes `matches_resource` also passes `matches`.
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
        all_globs = (self.namespaces, self.names, self.users, self.groups)
        is_unconditional = all(globs is EVERYTHING for globs in all_globs) and not self.labels.requirements
        object.__setattr__(self, "is_unconditional", is_unconditional)

    def matches_resource(self, review: AdmissionReview) -> bool:
        """Check the resource and the operation, which many reviews have in common."""
        resource = review.resource
        return review.operation in self.operations and any(
            rule.matches(resource.group, resource.version, resource.resource, review.subresource) for rule in self.rules
        )

    def matches(self, review: AdmissionReview) -> bool:
        """Check the other conditions. A label selector matches if it matches the object or the old object.

        Raises:
            MalformedReview: a field that a condition needs cannot be read.
        """
        return (
            self.namespaces.match(review.namespace)
            and (self.names is EVERYTHING or self.names.match(review.name))
            and (self.users is EVERYTHING or self.users.match(review.user.username))
            and (self.groups is EVERYTHING or self.groups.match_any(review.groups))
            and (not self.labels.requirements or any(self.labels.matches(labels) for labels in label_sets(review)))
        )


@dataclass(frozen=True, slots=True)
class AccessMatch:
    """Conditions for access reviews: for requests to resources `rules`, for other requests `paths`."""

    rules: tuple[Rule, ...]
    paths: Globs
    verbs: Globs = EVERYTHING
    namespaces: Globs = EVERYTHING
    names: Globs = EVERYTHING
    users: Globs = EVERYTHING
    groups: Globs = EVERYTHING

    def matches_resource(self, review: AccessReview) -> bool:
        """Check the verb, and the resource or path."""
        if not self.verbs.match(review.verb):
            return False
        if not review.is_resource:
            return self.paths.match(review.path)
        return any(
            rule.matches(review.group, review.version, review.resource, review.subresource) for rule in self.rules
        )

    @property
    def is_unconditional(self) -> bool:
        """Whether every review that passes `matches_resource` also passes `matches`."""
        return all(globs is EVERYTHING for globs in (self.namespaces, self.names, self.users, self.groups))

    def matches(self, review: AccessReview) -> bool:
        """Check the other conditions."""
        return (
            self.namespaces.match(review.namespace)
            and self.names.match(review.name)
            and self.users.match(review.user)
            and self.groups.match_any(review.groups)
        )


@dataclass(frozen=True, slots=True)
class ImageMatch:
    """Conditions for image reviews."""

    namespaces: Globs = EVERYTHING

    def matches_resource(self, review: ImageReview) -> bool:  # noqa: ARG002
        """Return True: image reviews have no resource."""
        return True

    @property
    def is_unconditional(self) -> bool:
        """Whether every review matches."""
        return self.namespaces is EVERYTHING

    def matches(self, review: ImageReview) -> bool:
        """Check the namespace."""
        return self.namespaces.match(review.namespace)


@dataclass(frozen=True, slots=True)
class AnyMatch:
    """Matches every review: token reviews have no fields for conditions."""

    is_unconditional = True

    def matches_resource(self, review: object) -> bool:  # noqa: ARG002
        """Return True."""
        return True

    def matches(self, review: object) -> bool:  # noqa: ARG002
        """Return True."""
        return True


def parse_operations(names: Sequence[str]) -> frozenset[str]:
    """Return operations as a set; ``*`` means all.

    Raises:
        ConfigurationError: the list is empty or has an unknown operation.
    """
    names = parse_strings(names)
    if "*" in names:
        return frozenset(OPERATIONS)
    if not names or not set(names) <= set(OPERATIONS):
        raise ConfigurationError(f"operations must be some of {', '.join(OPERATIONS)}, or *, not {list(names)}")
    return frozenset(names)

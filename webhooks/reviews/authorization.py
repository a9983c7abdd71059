"""SubjectAccessReview, v1 and v1beta1: may this user do that?"""

from collections.abc import Hashable

import msgspec

from webhooks.errors import MalformedReview
from webhooks.kube.api_groups import AUTHORIZATION
from webhooks.reviews import envelope as envelopes
from webhooks.reviews.outcomes import Allow, Deny, Opinion
from webhooks.reviews.subjects import ReviewSummary, resource

KIND = "SubjectAccessReview"


class Requirement(msgspec.Struct, frozen=True):
    """One term of a selector: the values that a key may or may not have."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A field or label selector of a list, watch or deletecollection request.

    Attributes:
        requirements: its terms, all of which hold.
        raw_selector: the selector as it was written, where it could not be parsed into terms.
    """

    requirements: tuple[Requirement, ...] = ()
    raw_selector: str = ""


class ResourceAttributes(msgspec.Struct, frozen=True, rename="camel"):
    """A request to a resource; ``*`` stands for all."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: Selector | None = None
    label_selector: Selector | None = None


class NonResourceAttributes(msgspec.Struct, frozen=True):
    """A request to a path such as /healthz."""

    path: str = ""
    verb: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] | None = None
    group: tuple[str, ...] | None = None  # how v1beta1 spells groups
    uid: str = ""
    extra: dict[str, tuple[str, ...]] | None = None


class _Envelope(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    spec: _Spec


class _Status(msgspec.Struct, omit_defaults=True):
    allowed: bool
    denied: bool = False
    reason: str = ""


class _Reply(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    status: _Status


_encode = msgspec.json.Encoder().encode
_REVIEW_GROUPS = (
    "authorization.k8s.io",
    "authentication.k8s.io",
    "authorization.svc.io",
    "authentication.svc.io",
)
_NO_RESOURCE = ResourceAttributes()
_NO_PATH = NonResourceAttributes()


class AccessReview:
    """A question whether a user may do something, as a policy sees it.

    Attributes:
        user: the name of the user.
        uid: tells apart users who had the same name at different times; often empty.
        groups: the groups the user is in.
        extra: further facts from the authenticator.
        is_resource: whether it is about a resource; else it is about a `path`.
        verb: get, list, watch, create, update, patch, delete ...; of a path, the method in lower case
        namespace: empty for resources without one, and for requests across all namespaces.
        group: the API group; empty for the core group.
        version: the API version.
        resource: such as ``pods``.
        subresource: such as ``log`` or ``status``; empty for the resource itself.
        name: the object's name; empty for requests to a collection.
        path: the path, for a request that is not about a resource.
        field_selector: the selector of a request to a collection, where the server sends it.
        label_selector: likewise.
    """

    object_accessed = False  # copies share nothing

    __slots__ = (
        "_envelope",
        "extra",
        "field_selector",
        "group",
        "groups",
        "is_resource",
        "label_selector",
        "name",
        "namespace",
        "path",
        "resource",
        "subresource",
        "uid",
        "user",
        "verb",
        "version",
    )

    def __init__(self, envelope: _Envelope) -> None:
        spec = envelope.spec
        resource = spec.resource_attributes or _NO_RESOURCE
        non_resource = spec.non_resource_attributes or _NO_PATH
        groups = spec.group if envelope.apiVersion.endswith("/v1beta1") else spec.groups
        self._envelope = envelope
        self.user = spec.user
        self.uid = spec.uid
        self.groups: tuple[str, ...] = groups or ()
        self.extra: dict[str, tuple[str, ...]] = dict(spec.extra or {})
        self.is_resource = spec.resource_attributes is not None
        self.verb = resource.verb if self.is_resource else non_resource.verb
        self.namespace = resource.namespace
        self.group = resource.group
        self.version = resource.version
        self.resource = resource.resource
        self.subresource = resource.subresource
        self.name = resource.name
        self.path = non_resource.path
        self.field_selector = resource.field_selector
        self.label_selector = resource.label_selector

    @property
    def is_self_review(self) -> bool:
        """Whether users ask about their own identity or rights (``kubectl auth can-i``), which changes nothing."""
        return self.group in _REVIEW_GROUPS and self.resource.startswith("selfsubject") and self.verb == "create"

    @property
    def match_key(self) -> Hashable:
        """What it shares with many others: the verb and the resource or path."""
        return self.verb, self.path, self.group, self.version, self.resource, self.subresource, self.is_resource

    def copy(self) -> "AccessReview":
        """The same review for the next policy."""
        return AccessReview(self._envelope)

    def __repr__(self) -> str:
        what = f"{self.resource}/{self.name}" if self.is_resource else self.path
        return f"<AccessReview {self.user} {self.verb} {what}>"


def describe(review: AccessReview, subject: ReviewSummary) -> None:
    """Tell what a review is about."""
    subject.operation = review.verb
    subject.resource = (
        resource(review.group, review.version, review.resource, review.subresource)
        if review.is_resource
        else review.path
    )
    subject.namespace = review.namespace
    subject.name = review.name
    subject.user = review.user


def secrets(_: AccessReview) -> list[str]:
    """The texts that must not be told: none."""
    return []


def decode(body: bytes) -> AccessReview:
    """Decode a request.

    Raises:
        MalformedReview: the body is no SubjectAccessReview, or asks about both a resource and a path, or neither.
    """
    envelope = envelopes.decode_whole(_Envelope, body)
    if envelope.kind != KIND or envelope.apiVersion not in AUTHORIZATION:
        raise envelopes.unknown(envelope.apiVersion, envelope.kind, KIND)
    spec = envelope.spec
    if (spec.resource_attributes is None) == (spec.non_resource_attributes is None):
        raise MalformedReview("exactly one of spec.resourceAttributes and spec.nonResourceAttributes is needed")
    return AccessReview(envelope)


def body(review: AccessReview) -> bytes:
    """The review as a body that decodes to the same."""
    return _encode(review._envelope)


def encode(review: AccessReview, outcome: Opinion) -> bytes:
    """Encode the answer to a request: allowed, denied, or neither, which leaves it to the next authorizer."""
    allowed, denied = isinstance(outcome, Allow), isinstance(outcome, Deny)
    reason = outcome.message if isinstance(outcome, Deny) else outcome.reason
    envelope = review._envelope
    return _encode(_Reply(envelope.kind, envelope.apiVersion, _Status(allowed, denied, reason)))

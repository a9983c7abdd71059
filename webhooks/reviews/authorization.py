"""SubjectAccessReview, v1 and v1beta1: may this user do that?"""

from collections.abc import Hashable

import msgspec

from webhooks.errors import MalformedReview
from webhooks.kube.api_groups import AUTHORIZATION
from webhooks.reviews.codec import Codec, Envelope, Response, ReviewSummary, encode_json, format_resource
from webhooks.reviews.outcomes import Allow, Deny, Opinion


class Requirement(msgspec.Struct, frozen=True):
    """One term of a selector: the values that a key may or may not have."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class Selector(msgspec.Struct, frozen=True, rename="camel"):
    """A field or label selector of a list, watch or deletecollection request.

    Attributes:
        requirements: its terms, all of which must hold.
        raw_selector: the selector as the client wrote it, if it could not be parsed into terms.
    """

    requirements: tuple[Requirement, ...] = ()
    raw_selector: str = ""


class ResourceAttributes(msgspec.Struct, frozen=True, rename="camel"):
    """A request to a resource; ``*`` means all."""

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


class SubjectAccessReviewSpec(msgspec.Struct, rename="camel"):
    """The user and the request; v1beta1 spells ``groups`` as ``group``."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] | None = None
    group: tuple[str, ...] | None = None
    uid: str = ""
    extra: dict[str, tuple[str, ...]] | None = None


class SubjectAccessReviewStatus(msgspec.Struct, omit_defaults=True):
    """Allowed, denied, or neither: then the next authorizer decides."""

    allowed: bool
    denied: bool = False
    reason: str = ""


class _Envelope(Envelope[SubjectAccessReviewSpec]):
    """A subclass, since structs convert faster than generic aliases of structs."""


_REVIEW_GROUPS = (
    "authorization.k8s.io",
    "authentication.k8s.io",
    "authorization.svc.io",
    "authentication.svc.io",
)
_NO_RESOURCE = ResourceAttributes()
_NO_PATH = NonResourceAttributes()


class AccessReview:
    """Asks whether a user may do something.

    Attributes:
        user: the name of the user.
        uid: distinguishes users who had the same name at different times; often empty.
        groups: the groups of the user.
        extra: further facts from the authenticator.
        is_resource: whether the request is to a resource; else it is to a `path`.
        verb: get, list, watch, create, update, patch, delete ...; for a path, the HTTP method in lower case.
        namespace: empty for resources without a namespace, and for requests across all namespaces.
        group: the API group; empty for the core group.
        version: the API version.
        resource: such as ``pods``.
        subresource: such as ``log`` or ``status``; empty for the resource itself.
        name: the object's name; empty for requests to a collection.
        path: the path of a request that is not to a resource.
        field_selector: the selector of a request to a collection, if the API server sends it.
        label_selector: as `field_selector`.
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
        groups = spec.group if envelope.api_version.endswith("/v1beta1") else spec.groups
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
    def match_key(self) -> Hashable:
        """The verb and the resource or path."""
        return self.verb, self.path, self.group, self.version, self.resource, self.subresource, self.is_resource

    @property
    def is_self_review(self) -> bool:
        """Whether users ask about their own identity or rights (``kubectl auth can-i``), which changes nothing."""
        return self.group in _REVIEW_GROUPS and self.resource.startswith("selfsubject") and self.verb == "create"

    def copy(self) -> "AccessReview":
        """Return the same review for the next policy."""
        return AccessReview(self._envelope)

    def __repr__(self) -> str:
        target = f"{self.resource}/{self.name}" if self.is_resource else self.path
        return f"<AccessReview {self.user} {self.verb} {target}>"


class AccessCodec(Codec[AccessReview, Opinion]):
    """The codec of access reviews."""

    kind = "SubjectAccessReview"
    api_versions = AUTHORIZATION

    def decode(self, body: bytes) -> AccessReview:
        """Decode a request.

        Raises:
            MalformedReview: the body is not a SubjectAccessReview, or has both a resource and a path, or neither.
        """
        envelope = self.decode_envelope(_Envelope, body)
        spec = envelope.spec
        if (spec.resource_attributes is None) == (spec.non_resource_attributes is None):
            raise MalformedReview("set exactly one of spec.resourceAttributes and spec.nonResourceAttributes")
        return AccessReview(envelope)

    def encode(self, review: AccessReview, outcome: Opinion, _patch: bytes | None = None, /) -> bytes:
        """Encode the response to a review: allowed, denied, or neither."""
        allowed, denied = isinstance(outcome, Allow), isinstance(outcome, Deny)
        reason = outcome.message if isinstance(outcome, Deny) else outcome.reason
        status = SubjectAccessReviewStatus(allowed, denied, reason)
        envelope = review._envelope
        return encode_json(Response(envelope.kind, envelope.api_version, status))

    def encode_request(self, review: AccessReview) -> bytes:
        """Encode a review as a request that decodes to the same review."""
        return encode_json(review._envelope)

    def summarize(self, review: AccessReview, summary: ReviewSummary) -> None:
        """Fill in the summary of a review."""
        summary.operation = review.verb
        summary.resource = review.path
        if review.is_resource:
            summary.resource = format_resource(review.group, review.version, review.resource, review.subresource)
        summary.namespace = review.namespace
        summary.name = review.name
        summary.user = review.user


CODEC = AccessCodec()

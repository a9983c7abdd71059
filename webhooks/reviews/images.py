"""ImageReview, v1alpha1: may a pod run these images?"""

from collections.abc import Mapping

import msgspec

from webhooks.kube.api_groups import IMAGE_POLICY
from webhooks.objects.image_references import ImageReference
from webhooks.reviews import envelope as envelopes
from webhooks.reviews.outcomes import Decision, Deny
from webhooks.reviews.subjects import ReviewSummary

KIND = "ImageReview"


class _Container(msgspec.Struct):
    image: str = ""


class _Spec(msgspec.Struct):
    containers: tuple[_Container, ...] | None = None
    annotations: dict[str, str] | None = None
    namespace: str = ""


class _Envelope(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    spec: _Spec


class _Status(msgspec.Struct, omit_defaults=True):
    allowed: bool
    reason: str = ""
    auditAnnotations: Mapping[str, str] = {}  # noqa: N815


class _Reply(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    status: _Status


_encode = msgspec.json.Encoder().encode


class ImageReview:
    """A question whether a pod may run its images, as a policy sees it.

    Attributes:
        images: the images as the pod names them, those of init containers last.
        annotations: those of the pod's annotations that are meant for image policies.
        namespace: the pod's namespace.
    """

    match_key = None  # all are of one sort
    object_accessed = False  # copies share nothing

    __slots__ = ("_envelope", "annotations", "images", "namespace")

    def __init__(self, envelope: _Envelope) -> None:
        spec = envelope.spec
        self._envelope = envelope
        self.images = [container.image for container in spec.containers or ()]
        self.annotations: dict[str, str] = dict(spec.annotations or {})
        self.namespace = spec.namespace

    def copy(self) -> "ImageReview":
        """The same review for the next policy."""
        return ImageReview(self._envelope)

    def __repr__(self) -> str:
        return f"<ImageReview {self.namespace}: {', '.join(self.images)}>"

    @property
    def references(self) -> list[ImageReference]:
        """The images, parsed.

        Raises:
            ValueError: an image is no valid reference.
        """
        return [ImageReference.parse(image) for image in self.images]


def describe(review: ImageReview, subject: ReviewSummary) -> None:
    """Tell what a review is about."""
    subject.namespace = review.namespace
    subject.images = review.images


def secrets(_: ImageReview) -> list[str]:
    """The texts that must not be told: none."""
    return []


def decode(body: bytes) -> ImageReview:
    """Decode a request.

    Raises:
        MalformedReview: the body is no ImageReview.
    """
    envelope = envelopes.decode_whole(_Envelope, body)
    if envelope.kind != KIND or envelope.apiVersion not in IMAGE_POLICY:
        raise envelopes.unknown(envelope.apiVersion, envelope.kind, KIND)
    return ImageReview(envelope)


def body(review: ImageReview) -> bytes:
    """The review as a body that decodes to the same."""
    return _encode(review._envelope)


def encode(review: ImageReview, outcome: Decision) -> bytes:
    """Encode the answer to a request."""
    denied = isinstance(outcome, Deny)
    status = _Status(not denied, outcome.message if isinstance(outcome, Deny) else "", outcome.audit)
    envelope = review._envelope
    return _encode(_Reply(envelope.kind, envelope.apiVersion, status))

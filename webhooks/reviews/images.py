"""ImageReview, v1alpha1: may a pod run these images?"""

from collections.abc import Mapping

import msgspec

from webhooks.kube.api_groups import IMAGE_POLICY
from webhooks.objects.image_references import ImageReference
from webhooks.reviews.codec import Codec, Envelope, Response, ReviewSummary, encode_json
from webhooks.reviews.outcomes import Decision, Deny


class ImageReviewContainer(msgspec.Struct):
    """The image of a container."""

    image: str = ""


class ImageReviewSpec(msgspec.Struct):
    """The images of a pod."""

    containers: tuple[ImageReviewContainer, ...] | None = None
    annotations: dict[str, str] | None = None
    namespace: str = ""


class ImageReviewStatus(msgspec.Struct, omit_defaults=True, rename="camel"):
    """Whether the pod may run its images."""

    allowed: bool
    reason: str = ""
    audit_annotations: Mapping[str, str] = {}


class _Envelope(Envelope[ImageReviewSpec]):
    """A subclass, since structs convert faster than generic aliases of structs."""


class ImageReview:
    """Asks whether a pod may run its images.

    Attributes:
        images: the images as the pod names them, those of init containers last.
        annotations: the annotations of the pod that are meant for image policies.
        namespace: the pod's namespace.
    """

    match_key = None  # the same for all image reviews
    object_accessed = False  # copies share nothing

    __slots__ = ("_envelope", "annotations", "images", "namespace")

    def __init__(self, envelope: _Envelope) -> None:
        spec = envelope.spec
        self._envelope = envelope
        self.images = [container.image for container in spec.containers or ()]
        self.annotations: dict[str, str] = dict(spec.annotations or {})
        self.namespace = spec.namespace

    def copy(self) -> "ImageReview":
        """Return the same review for the next policy."""
        return ImageReview(self._envelope)

    def __repr__(self) -> str:
        return f"<ImageReview {self.namespace}: {', '.join(self.images)}>"

    @property
    def references(self) -> list[ImageReference]:
        """The images, parsed.

        Raises:
            ValueError: an image is not a valid reference.
        """
        return [ImageReference.parse(image) for image in self.images]


class ImageCodec(Codec[ImageReview, Decision]):
    """The codec of image reviews."""

    kind = "ImageReview"
    api_versions = IMAGE_POLICY

    def decode(self, body: bytes) -> ImageReview:
        """Decode a request."""
        return ImageReview(self.decode_envelope(_Envelope, body))

    def encode(self, review: ImageReview, outcome: Decision, _patch: bytes | None = None, /) -> bytes:
        """Encode the response to a review."""
        reason = outcome.message if isinstance(outcome, Deny) else ""
        status = ImageReviewStatus(not isinstance(outcome, Deny), reason, outcome.audit)
        envelope = review._envelope
        return encode_json(Response(envelope.kind, envelope.api_version, status))

    def encode_request(self, review: ImageReview) -> bytes:
        """Encode a review as a request that decodes to the same review."""
        return encode_json(review._envelope)

    def summarize(self, review: ImageReview, summary: ReviewSummary) -> None:
        """Fill in the summary of a review."""
        summary.namespace = review.namespace
        summary.images = review.images


CODEC = ImageCodec()

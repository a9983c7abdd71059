"""The interface of a review protocol: one codec for each kind of review, and the fields that all reviews share."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from webhooks.reviews.envelope import decode_fully, unsupported
from webhooks.reviews.outcomes import Outcome

Spec = TypeVar("Spec")
Status = TypeVar("Status")
E = TypeVar("E", bound="Envelope[Any]")
R = TypeVar("R", bound="Review")
O = TypeVar("O", bound=Outcome)  # noqa: E741

encode_json = msgspec.json.Encoder().encode


class Envelope(msgspec.Struct, Generic[Spec], rename="camel"):
    """A review with a ``spec``, as the API server sends it."""

    kind: str
    api_version: str
    spec: Spec


class Response(msgspec.Struct, Generic[Status], rename="camel"):
    """The response to a review with a ``spec``: its kind and version again, and a ``status``."""

    kind: str
    api_version: str
    status: Status


class ReviewSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A summary of a review for logs and traces, the same for all protocols. Never used for decisions.

    It holds names, and nothing of an object's content.

    Attributes:
        uid: of the review.
        operation: CREATE, UPDATE, DELETE or CONNECT, or the verb of an access.
        resource: ``v1/pods``, ``apps/v1/deployments/scale``, or a path such as ``/healthz``.
        namespace: of the object.
        name: of the object.
        user: the user who makes the request, or who holds the token.
        images: the images of the pod.
        dry_run: whether nothing will be stored.
    """

    uid: str = ""
    operation: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    images: list[str] = []
    dry_run: bool = False


class Review(Protocol):
    """What all reviews offer to the engine.

    Attributes:
        object_accessed: whether a policy has accessed an object that its review shares with other copies.
    """

    object_accessed: bool

    @property
    def match_key(self) -> Hashable:
        """The part of the review that many reviews have in common and that most policies match by."""

    def copy(self) -> Self:
        """Return the same review for the next policy, without the changes that this one made."""


class Codec(ABC, Generic[R, O]):
    """Converts one kind of review, and the outcomes of its policies, from and to JSON.

    Attributes:
        kind: the ``kind`` of the reviews.
        api_versions: the accepted values of ``apiVersion``.
    """

    kind: str
    api_versions: Collection[str]

    @abstractmethod
    def decode(self, body: bytes) -> R:
        """Decode a request.

        Raises:
            MalformedReview: the body is not a review of this kind, or exceeds the limits.
        """

    @abstractmethod
    def encode(self, review: R, outcome: O, patch: bytes | None = None, /) -> bytes:
        """Encode the response to a review.

        Args:
            review: the review.
            outcome: the merged outcome of its policies.
            patch: the JSON Patch document that belongs to an Allow, for protocols that have patches.
        """

    @abstractmethod
    def encode_request(self, review: R) -> bytes:
        """Encode a review as a request that decodes to the same review."""

    @abstractmethod
    def summarize(self, review: R, summary: ReviewSummary) -> None:
        """Fill in the summary of a review, as far as the review can be read."""

    def sensitive_values(self, review: R) -> list[str]:  # noqa: ARG002
        """Return the texts in a review that must not be logged, even if a policy's message contains them."""
        return []

    def encode_denial(self, body: bytes, message: str, code: int) -> bytes | None:  # noqa: ARG002
        """Encode a denial of a body that is not an acceptable review.

        Returns:
            None if the protocol has no such response, or the body does not identify the request.
        """
        return None

    def request_uid(self, body: bytes) -> str:  # noqa: ARG002
        """Return the uid of a body that is not an acceptable review; empty if it has none."""
        return ""

    def decode_envelope(self, type_: type[E], body: bytes) -> E:
        """Decode and check the envelope of a review with a ``spec``.

        Raises:
            MalformedReview: as `decode` raises it.
        """
        envelope = decode_fully(type_, body)
        if envelope.kind != self.kind or envelope.api_version not in self.api_versions:
            raise unsupported(envelope.kind, envelope.api_version, self.kind)
        return envelope


def format_resource(group: str, version: str, name: str, subresource: str) -> str:
    """Format a resource for a summary, such as ``apps/v1/deployments/scale``."""
    resource = f"{group}/{version}/{name}" if group else f"{version}/{name}"
    return f"{resource}/{subresource}" if subresource else resource

"""TokenReview, v1 and v1beta1: who holds this token?"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from webhooks.kube.api_groups import AUTHENTICATION
from webhooks.reviews.codec import Codec, Envelope, Response, ReviewSummary, encode_json
from webhooks.reviews.outcomes import Authenticated, Identity, Unauthenticated


class TokenReviewSpec(msgspec.Struct):
    """The token, and the audiences of which at least one must be valid for it."""

    token: Annotated[str, msgspec.Meta(min_length=1)]
    audiences: tuple[str, ...] | None = None


class TokenReviewUser(msgspec.Struct, omit_defaults=True):
    """The holder of a token."""

    username: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}


class TokenReviewStatus(msgspec.Struct, omit_defaults=True):
    """Whether the token is valid, and its holder."""

    authenticated: bool
    user: TokenReviewUser | None = None
    audiences: Sequence[str] | None = None
    error: str = ""


class _Envelope(Envelope[TokenReviewSpec]):
    """A subclass, since structs convert faster than generic aliases of structs."""


class TokenReview:
    """Asks who holds a token.

    Attributes:
        token: the token. It is secret: never log it or put it into an outcome.
        audiences: the requested audiences, of which at least one must be valid for the token; empty if the API server
            does not request any.
    """

    match_key = None  # the same for all token reviews
    object_accessed = False  # copies share nothing

    __slots__ = ("_envelope", "audiences", "token")

    def __init__(self, envelope: _Envelope) -> None:
        self._envelope = envelope
        self.token = envelope.spec.token
        self.audiences: tuple[str, ...] = envelope.spec.audiences or ()

    def copy(self) -> "TokenReview":
        """Return the same review for the next policy."""
        return TokenReview(self._envelope)

    def __repr__(self) -> str:
        return f"<TokenReview for {', '.join(self.audiences) or 'any audience'}>"


class TokenCodec(Codec[TokenReview, Identity]):
    """The codec of token reviews."""

    kind = "TokenReview"
    api_versions = AUTHENTICATION

    def decode(self, body: bytes) -> TokenReview:
        """Decode a request."""
        return TokenReview(self.decode_envelope(_Envelope, body))

    def encode(self, review: TokenReview, outcome: Identity, _patch: bytes | None = None, /) -> bytes:
        """Encode the response to a review; a token without an opinion on it is not authenticated."""
        envelope = review._envelope
        return encode_json(Response(envelope.kind, envelope.api_version, _status(outcome)))

    def encode_request(self, review: TokenReview) -> bytes:
        """Encode a review as a request that decodes to the same review."""
        return encode_json(review._envelope)

    def summarize(self, review: TokenReview, summary: ReviewSummary) -> None:
        """Leave the summary empty: a token review has nothing that may be logged."""

    def sensitive_values(self, review: TokenReview) -> list[str]:
        """Return the token."""
        return [review.token]


def _status(outcome: Identity) -> TokenReviewStatus:
    if not isinstance(outcome, Authenticated):
        return TokenReviewStatus(False, error=outcome.error if isinstance(outcome, Unauthenticated) else "")
    user = TokenReviewUser(outcome.username, outcome.uid, outcome.groups or (), outcome.extra)
    return TokenReviewStatus(True, user, outcome.audiences)


CODEC = TokenCodec()

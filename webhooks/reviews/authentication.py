"""TokenReview, v1 and v1beta1: who holds this token?"""

from collections.abc import Mapping, Sequence

import msgspec

from webhooks.errors import MalformedReview
from webhooks.kube.api_groups import AUTHENTICATION
from webhooks.reviews import envelope as envelopes
from webhooks.reviews.outcomes import Authenticated, Identity, Unauthenticated
from webhooks.reviews.subjects import ReviewSummary

KIND = "TokenReview"


class _Spec(msgspec.Struct):
    token: str
    audiences: tuple[str, ...] | None = None


class _Envelope(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    spec: _Spec


class _User(msgspec.Struct, omit_defaults=True):
    username: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}


class _Status(msgspec.Struct, omit_defaults=True):
    authenticated: bool
    user: _User | None = None
    audiences: Sequence[str] | None = None
    error: str = ""


class _Reply(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    status: _Status


_encode = msgspec.json.Encoder().encode


class TokenReview:
    """A question who holds a token, as a policy sees it.

    Attributes:
        token: the token. A secret: never to be logged or put into an outcome.
        audiences: whom the token must be good for, one of them at least; empty where the caller does not say.
    """

    match_key = None  # all are of one sort
    object_accessed = False  # copies share nothing

    __slots__ = ("_envelope", "audiences", "token")

    def __init__(self, envelope: _Envelope) -> None:
        self._envelope = envelope
        self.token = envelope.spec.token
        self.audiences: tuple[str, ...] = envelope.spec.audiences or ()

    def copy(self) -> "TokenReview":
        """The same review for the next policy."""
        return TokenReview(self._envelope)

    def __repr__(self) -> str:
        return f"<TokenReview for {', '.join(self.audiences) or 'any audience'}>"


def describe(review: TokenReview, subject: ReviewSummary) -> None:
    """Tell what a review is about: nothing that may be told."""


def secrets(review: TokenReview) -> list[str]:
    """The texts that must not be told, whatever a policy says: the token."""
    return [review.token]


def decode(body: bytes) -> TokenReview:
    """Decode a request.

    Raises:
        MalformedReview: the body is no TokenReview, or its token is empty.
    """
    envelope = envelopes.decode_whole(_Envelope, body)
    if envelope.kind != KIND or envelope.apiVersion not in AUTHENTICATION:
        raise envelopes.unknown(envelope.apiVersion, envelope.kind, KIND)
    if not envelope.spec.token:
        raise MalformedReview("spec.token is empty")
    return TokenReview(envelope)


def body(review: TokenReview) -> bytes:
    """The review as a body that decodes to the same."""
    return _encode(review._envelope)


def encode(review: TokenReview, outcome: Identity) -> bytes:
    """Encode the answer to a request; a token that nobody knows is not authenticated."""
    envelope = review._envelope
    return _encode(_Reply(envelope.kind, envelope.apiVersion, _status(outcome)))


def _status(outcome: Identity) -> _Status:
    if not isinstance(outcome, Authenticated):
        return _Status(False, error=outcome.error if isinstance(outcome, Unauthenticated) else "")
    return _Status(True, _User(outcome.username, outcome.uid, outcome.groups or (), outcome.extra), outcome.audiences)

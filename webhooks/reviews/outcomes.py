"""What a policy answers: frozen values that carry their own warnings and audit annotations.

Which outcomes fit which policy is told by the unions at the end. An outcome that does not fit, like any other value,
is a failure of the policy and never an approval.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What all outcomes carry.

    Attributes:
        warnings: shown to the client that made the request (AdmissionReview only); keep each under 120 characters.
        audit: annotations for the audit record (AdmissionReview and ImageReview only). A key holds letters, digits,
            ``.``, ``_`` and ``-``, at most 63 of them.
    """

    warnings: Sequence[str] = ()
    audit: Mapping[str, str] = {}


class Allow(Outcome, frozen=True, kw_only=True):
    """The request may pass.

    Attributes:
        reason: why; only authorization shows it.
    """

    reason: str = ""


class Deny(Outcome, frozen=True):
    """The request may not pass.

    Attributes:
        message: shown to the user.
        reason: the machine-readable reason of the Status, in CamelCase.
        code: the HTTP code that the user's client sees, 400-599.
        details: the Status's details, as the API conventions shape them (causes, retryAfterSeconds ...).
    """

    message: str
    reason: str = "Forbidden"
    code: int = 403
    details: Mapping[str, Any] | None = None


class Replace(Outcome, frozen=True):
    """The request may pass with this object in place of the one it brought.

    Attributes:
        object: the whole new object; commonly ``review.object``, changed.
    """

    object: Any


class Patch(Outcome, frozen=True):
    """The request may pass with its object changed by these operations.

    Attributes:
        operations: JSON Patch operations (RFC 6902), each a mapping with ``op``, ``path`` and what the op needs.
    """

    operations: Sequence[Mapping[str, Any]]


class NoOpinion(Outcome, frozen=True, kw_only=True):
    """Somebody else decides: the next authorizer or authenticator.

    Attributes:
        reason: why; only authorization shows it.
    """

    reason: str = ""


class Authenticated(Outcome, frozen=True):
    """The token is good, and this is its holder.

    Attributes:
        username: the name that identifies the user among all users.
        uid: an identifier that also tells apart users who had the same name at different times.
        groups: the groups the user is in.
        extra: further facts from the authenticator.
        audiences: the audiences that the token is good for. None says that the policy knows nothing of audiences; the
            caller then takes the token as one for the API server itself.
    """

    username: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}
    audiences: Sequence[str] | None = None


class Unauthenticated(Outcome, frozen=True):
    """The token is bad (revoked, expired, forged ...), whatever other policies of this server say of it.

    Attributes:
        error: why; goes into the caller's log.
    """

    error: str = ""


CHANGES = (Replace, Patch)

Decision: TypeAlias = Allow | Deny
Mutation: TypeAlias = Allow | Deny | Replace | Patch
Opinion: TypeAlias = Allow | Deny | NoOpinion
Identity: TypeAlias = Authenticated | Unauthenticated | NoOpinion

"""The outcomes that policies return: frozen values with their own warnings and audit annotations.

The unions at the end state which outcomes a policy of each kind may return. Any other value counts as a failure of the
policy, and never as an approval.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of all outcomes.

    Attributes:
        warnings: shown to the client that made the request (AdmissionReview only). Keep each under 120 characters.
        audit: annotations for the audit record (AdmissionReview and ImageReview only). A key has at most 63 letters,
            digits, ``.``, ``_`` and ``-``.
    """

    warnings: Sequence[str] = ()
    audit: Mapping[str, str] = {}


class Allow(Outcome, frozen=True, kw_only=True):
    """Allows the request.

    Attributes:
        reason: shown to the user by authorization only.
    """

    reason: str = ""


class Deny(Outcome, frozen=True):
    """Denies the request.

    Attributes:
        message: shown to the user.
        reason: the machine-readable reason of the Status, in CamelCase.
        code: the HTTP status code that the user's client gets, 400-599.
        details: the details of the Status, as the API conventions define them (causes, retryAfterSeconds ...).
    """

    message: str
    reason: str = "Forbidden"
    code: int = 403
    details: Mapping[str, Any] | None = None


class Replace(Outcome, frozen=True):
    """Allows the request with another object.

    Attributes:
        object: the complete new object; usually ``review.object``, changed.
    """

    object: Any


class Patch(Outcome, frozen=True):
    """Allows the request with its object changed by these operations.

    Attributes:
        operations: JSON Patch operations (RFC 6902), each a mapping with ``op``, ``path`` and the fields of the ``op``.
    """

    operations: Sequence[Mapping[str, Any]]


class NoOpinion(Outcome, frozen=True, kw_only=True):
    """Leaves the decision to the next authorizer or authenticator.

    Attributes:
        reason: shown to the user by authorization only.
    """

    reason: str = ""


class Authenticated(Outcome, frozen=True):
    """Accepts the token and identifies its holder.

    Attributes:
        username: the unique name of the user.
        uid: distinguishes users who had the same name at different times.
        groups: the groups of the user.
        extra: further facts from the authenticator.
        audiences: the audiences for which the token is valid. None if the policy does not know audiences: the client
            then treats it as a token for the API server itself.
    """

    username: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = {}
    audiences: Sequence[str] | None = None


class Unauthenticated(Outcome, frozen=True):
    """Rejects the token (revoked, expired, forged ...), even if other policies of this server accept it.

    Attributes:
        error: the reason, for the client's log.
    """

    error: str = ""


CHANGES = (Replace, Patch)

Decision: TypeAlias = Allow | Deny
Mutation: TypeAlias = Allow | Deny | Replace | Patch
Opinion: TypeAlias = Allow | Deny | NoOpinion
Identity: TypeAlias = Authenticated | Unauthenticated | NoOpinion

"""Who calls: known by a certificate, once for each connection, or by a token, in each request, or by both.

Where none is asked for, everybody may call. Where one is, nobody is heard who has not shown it: no policy runs, and the
body is not read.
"""

import logging
import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from ipaddress import ip_address
from typing import Any, Protocol, TypeAlias

import msgspec

from webhooks.auth.token_file import TokenFile, TokenHash, seal
from webhooks.http.responses import JsonResponse, error
from webhooks.observability.metrics import MetricRegistry

logger = logging.getLogger("webhooks.auth")

_SAN = frozenset({"DNS", "URI", "email", "IP Address"})


class Client(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who calls, as far as it has been proven; nobody in particular where no proof is asked for.

    Attributes:
        certificate: a name in the certificate that it showed; empty where it needs none.
        user: whose token it sent; empty where it needs none.
    """

    certificate: str = ""
    user: str = ""

    def __str__(self) -> str:
        """For logs: ``apiserver``, ``jane``, or ``apiserver as jane``."""
        return " as ".join(filter(None, (self.certificate, self.user)))


ANONYMOUS = Client()


class Rejection(msgspec.Struct, frozen=True):
    """Why somebody is not heard.

    Attributes:
        code: the HTTP code of the answer: 401, 403, or 503 where it cannot be told as yet who calls.
        reason: for metrics, one of few.
        message: for the log.
    """

    code: int
    reason: str
    message: str


Authentication: TypeAlias = Client | Rejection
"""Who is at the other end of a connection, which may be nobody in particular, or not one of those who may call."""


class Issuer(Protocol):
    """Somebody who issues tokens, and has to be asked for the keys that they are verified by."""

    def user(self, sealed: TokenHash, token: bytes) -> str | Rejection | None:
        """Whose token it is; None where the keys have to be asked for first."""

    async def refresh(self) -> None:
        """Ask for the keys. Raises nothing."""


class Authenticator:
    """Those who may call.

    Args:
        meters: where the refused are counted.
        names: what their certificates are for, any of them if there are none; None where they need no certificate.
        tokens: those that they may send, where they need one.
        issuer: who issues others.

    Attributes:
        by_token: whether each request needs a token.
    """

    def __init__(
        self,
        meters: MetricRegistry,
        names: Collection[str] | None = None,
        tokens: TokenFile | None = None,
        issuer: Issuer | None = None,
    ) -> None:
        self._names = None if names is None else frozenset(map(_normal, names))
        self._tokens = tokens
        self._issuer = issuer
        self.by_token = not (tokens is None and issuer is None)
        self._refused = meters.counter(
            "webhooks_clients_rejected", "Callers that were not heard, by what was wrong with them.", ("reason",)
        )

    def looking(self) -> AbstractContextManager[None]:
        """Follow the file of tokens for as long as the block lasts."""
        return nullcontext() if self._tokens is None else self._tokens.looking()

    def meet(self, certificate: Mapping[str, Any] | None) -> Authentication:
        """Who is at the other end of a connection.

        Args:
            certificate: theirs, which TLS has verified, in the form of `ssl.SSLSocket.getpeercert`; None for none.
        """
        if self._names is None:
            return ANONYMOUS
        if not certificate:
            return Rejection(403, "no_certificate", "it showed no certificate")
        names = list(filter(None, _names(certificate))) or [f"serial {certificate['serialNumber']}"]
        for name in names:
            if name in self._names or not self._names:
                return Client(name)
        return Rejection(403, "unlisted_certificate", f"its certificate is for none that may call: {', '.join(names)}")

    def identify(self, met: Authentication, authorization: bytes | None) -> Authentication | None:
        """Who sends a request.

        Args:
            met: who is at the other end of the connection.
            authorization: the header of that name.

        Returns:
            None where that takes longer, see `identify_later`.
        """
        if not self.by_token or isinstance(met, Rejection):
            return met
        scheme, _, token = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token:
            return Rejection(401, "no_token", "it sent no bearer token")
        user = self._user(token)
        return Client(met.certificate, user) if isinstance(user, str) else user

    async def identify_later(self, met: Authentication, authorization: bytes | None) -> Authentication:
        """The same, after whoever issues tokens has been asked if need be."""
        while (client := self.identify(met, authorization)) is None:
            assert self._issuer is not None
            await self._issuer.refresh()
        return client

    def _user(self, token: bytes) -> str | Rejection | None:
        sealed = seal(token)
        user = None if self._tokens is None else self._tokens.user(sealed)
        if user is not None:
            return user
        if self._issuer is not None:
            return self._issuer.user(sealed, token)
        return Rejection(401, "bad_token", "its token is not one of those in the file")

    def turn_away(self, refusal: Rejection, peer: str) -> JsonResponse:
        """Note that a caller is refused.

        Args:
            refusal: why.
            peer: the address that it calls from.

        Returns:
            The answer, which does not tell why.
        """
        self._note(refusal.reason, refusal.message, peer)
        return error(refusal.code, _ANSWERS[refusal.code], close=True)

    def note_failure(self, failure: OSError, peer: str) -> None:
        """Note that a handshake failed, where that is for want of a certificate that TLS would take."""
        if isinstance(failure, ssl.SSLCertVerificationError):
            self._note("bad_certificate", f"its certificate is not taken: {failure.verify_message}", peer)
        elif getattr(failure, "reason", None) == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            self._note("no_certificate", "it showed no certificate", peer)

    def _note(self, reason: str, message: str, peer: str) -> None:
        self._refused.add(reason)
        logger.warning("refused a caller at %s: %s", peer, message)


_ANSWERS = {
    401: "a bearer token of a caller is needed",
    403: "this caller may not call",
    503: "it cannot be told who calls: try again",
}


def _names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """What a certificate is for: the common name first, then the alternatives."""
    for part in certificate.get("subject", ()):
        yield from (_normal(value) for kind, value in part if kind == "commonName")
    yield from (_normal(value) for kind, value in certificate.get("subjectAltName", ()) if kind in _SAN)


def _normal(name: str) -> str:
    """The one spelling of an address; any other name stays as it is."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name

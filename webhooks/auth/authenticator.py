"""Authenticates clients by certificate, once per connection, and by bearer token, in each request.

If a certificate or a token is required and missing or invalid, no policy runs, and the body is not read.
"""

import logging
import ssl
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from ipaddress import ip_address
from typing import Any, Protocol

from webhooks.auth.client import ANONYMOUS, Authentication, Client, Rejection
from webhooks.auth.token_file import TokenFile, TokenHash, hash_token
from webhooks.errors import missing_extra
from webhooks.http.responses import JsonResponse, error_response
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings

logger = logging.getLogger("webhooks.auth")

_NAME_TYPES = frozenset({"DNS", "URI", "email", "IP Address"})  # of subject alternative names
_RESPONSES = {
    401: "a valid bearer token is required",
    403: "this client is not allowed",
    503: "the client cannot be authenticated yet: try again",
}


class TokenIssuer(Protocol):
    """An issuer whose tokens are verified with keys that have to be fetched."""

    def verify(self, token_hash: TokenHash, token: bytes) -> str | Rejection | None:
        """Return the user of a token; None if `refresh` must be called first."""

    async def refresh(self) -> None:
        """Fetch the keys. Never raises an exception."""


class Authenticator:
    """Authenticates clients by their certificates, their tokens, or both.

    Args:
        metrics: counts rejected clients.
        allowed_names: the names of client certificates to accept; empty accepts any name, None requires no certificate.
        token_file: accept the tokens of this file.
        issuer: accept the tokens of this issuer. Without a file or an issuer no token is required.

    Attributes:
        requires_token: whether each request requires a token.
    """

    def __init__(
        self,
        metrics: MetricRegistry,
        allowed_names: Collection[str] | None = None,
        token_file: TokenFile | None = None,
        issuer: TokenIssuer | None = None,
    ) -> None:
        self._allowed_names = None if allowed_names is None else frozenset(map(_normalize, allowed_names))
        self._token_file = token_file
        self._issuer = issuer
        self.requires_token = not (token_file is None and issuer is None)
        self._rejections = metrics.counter(
            "webhooks_clients_rejected", "Rejected clients, by the reason of the rejection.", ("reason",)
        )

    @classmethod
    def from_settings(cls, settings: Settings, metrics: MetricRegistry) -> "Authenticator":
        """Create the authenticator of a server.

        Raises:
            ConfigurationError: a file is invalid, or OIDC is requested and not installed.
        """
        return cls(
            metrics,
            allowed_names=None if settings.client_ca is None else settings.allow_client,
            token_file=None if settings.token_file is None else TokenFile(settings.token_file, metrics),
            issuer=_create_issuer(settings, metrics),
        )

    def watching(self) -> AbstractContextManager[None]:
        """Reload the token file when it changes, within the block."""
        return nullcontext() if self._token_file is None else self._token_file.watching()

    def authenticate_connection(self, certificate: Mapping[str, Any] | None) -> Authentication:
        """Authenticate the client of a connection.

        Args:
            certificate: the client certificate, already verified by TLS, in the form of `ssl.SSLSocket.getpeercert`;
                None if the client sent none.
        """
        if self._allowed_names is None:
            return ANONYMOUS
        if not certificate:
            return Rejection(403, "no_certificate", "it presented no certificate")
        names = list(filter(None, _list_names(certificate))) or [f"serial {certificate['serialNumber']}"]
        for name in names:
            if name in self._allowed_names or not self._allowed_names:
                return Client(name)
        return Rejection(403, "unlisted_certificate", f"no name of its certificate is allowed: {', '.join(names)}")

    def authenticate_request(self, connection: Authentication, authorization: bytes | None) -> Authentication | None:
        """Authenticate the client of a request.

        Args:
            connection: the result of `authenticate_connection`.
            authorization: the value of the header Authorization.

        Returns:
            None if the keys of the issuer have to be fetched first: call `authenticate_request_async`.
        """
        if not self.requires_token or isinstance(connection, Rejection):
            return connection
        scheme, _, token = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer" or not token:
            return Rejection(401, "no_token", "it sent no bearer token")
        user = self._find_user(token)
        return Client(connection.certificate, user) if isinstance(user, str) else user

    async def authenticate_request_async(
        self, connection: Authentication, authorization: bytes | None
    ) -> Authentication:
        """Authenticate the client of a request, and fetch the keys of the issuer if necessary."""
        while (client := self.authenticate_request(connection, authorization)) is None:
            assert self._issuer is not None
            await self._issuer.refresh()
        return client

    def _find_user(self, token: bytes) -> str | Rejection | None:
        token_hash = hash_token(token)
        user = None if self._token_file is None else self._token_file.find_user(token_hash)
        if user is not None:
            return user
        if self._issuer is not None:
            return self._issuer.verify(token_hash, token)
        return Rejection(401, "bad_token", "its token is not in the token file")

    def reject(self, rejection: Rejection, peer: str) -> JsonResponse:
        """Log and count a rejected client.

        Args:
            rejection: the reason.
            peer: the address of the client.

        Returns:
            The response. It does not contain the reason.
        """
        self._record(rejection.reason, rejection.message, peer)
        return error_response(rejection.code, _RESPONSES[rejection.code], close=True)

    def record_failed_handshake(self, failure: OSError, peer: str) -> None:
        """Log and count a failed handshake if the cause is the client certificate."""
        if isinstance(failure, ssl.SSLCertVerificationError):
            self._record("bad_certificate", f"its certificate is invalid: {failure.verify_message}", peer)
        elif getattr(failure, "reason", None) == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            self._record("no_certificate", "it presented no certificate", peer)

    def _record(self, reason: str, message: str, peer: str) -> None:
        self._rejections.add(reason)
        logger.warning("rejected a client at %s: %s", peer, message)


def _create_issuer(settings: Settings, metrics: MetricRegistry) -> TokenIssuer | None:
    if settings.oidc_issuer is None:
        return None
    try:
        from webhooks.auth.oidc import OidcIssuer
    except ModuleNotFoundError as missing:
        raise missing_extra("--oidc-issuer", "oidc", missing) from None
    return OidcIssuer(
        settings.oidc_issuer, settings.oidc_audience or "", settings.oidc_subject, settings.oidc_ca, metrics
    )


def _list_names(certificate: Mapping[str, Any]) -> Iterator[str]:
    """List the names in a certificate: the common name first, then the subject alternative names."""
    for part in certificate.get("subject", ()):
        yield from (_normalize(value) for attribute, value in part if attribute == "commonName")
    alternatives = certificate.get("subjectAltName", ())
    yield from (_normalize(value) for name_type, value in alternatives if name_type in _NAME_TYPES)


def _normalize(name: str) -> str:
    """Return the canonical form of an IP address, and any other name unchanged."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name

"""TLS as clients see it: client contexts, and serving certificates as clients verify them. Standard library only."""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from webhooks.errors import ConfigurationError, unreadable

ANY_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the module ssl does not define


class Validity(NamedTuple):
    """The lifetime of a certificate.

    Attributes:
        not_before: its start.
        not_after: when it expires.
    """

    not_before: datetime
    not_after: datetime

    @classmethod
    def from_peercert(cls, certificate: Mapping[str, Any]) -> Self:
        """Read the lifetime of a certificate in the form of `ssl.SSLSocket.getpeercert`."""
        return cls(*(_parse_time(certificate[name]) for name in ("notBefore", "notAfter")))

    def is_renewal_due(self, now: datetime) -> bool:
        """Check whether two thirds of the lifetime have passed. The rest is time to fix a renewal that fails."""
        return now >= self.not_before + (self.not_after - self.not_before) * 2 / 3


def _parse_time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


def peer_certificate(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> dict[str, Any]:
    """Return the server's certificate as a client gets and verifies it, in the form of `ssl.SSLSocket.getpeercert`.

    Args:
        server_context: the context of the server.
        client_context: the context of the client, with the CAs that it trusts.

    Raises:
        ssl.SSLError: the client rejects the certificate, or the server cannot use its key.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert() or {}


def client_context(flags: int = 0) -> ssl.SSLContext:
    """Return the context of a client that accepts any name, and trusts no CA yet.

    Args:
        flags: verification flags: of `ssl.VerifyFlags`, or `ANY_TIME`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= flags
    return context


def load_client_context(ca: Path | None) -> ssl.SSLContext:
    """Return the context of a client that trusts the CAs in a file (PEM), or those of this host, and verifies names.

    Raises:
        ConfigurationError: the file cannot be read, or contains no CA.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{ca}: must contain CA certificates (PEM): {error.reason or error}") from None
    except OSError as error:
        raise unreadable(str(ca), error) from None

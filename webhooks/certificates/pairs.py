"""Certificates and keys as pairs of files: which are valid, which may be replaced, and how they are written."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from webhooks.certificates import verification
from webhooks.certificates.names import parse_address
from webhooks.certificates.verification import Validity
from webhooks.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class ServingPair:
    """The files of a server, and the file that its clients need.

    Attributes:
        ca: the CA bundle for clients, as in ``caBundle``: our CA, and after a rotation also the previous one, until it
            expires.
        certificate: the serving certificate with its chain.
        key: its private key.
    """

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def from_directory(cls, directory: Path) -> Self:
        """Return the paths of the pair of a directory."""
        return cls(directory / "ca.pem", directory / "tls.pem", directory / "tls-key.pem")


@dataclass(frozen=True, slots=True)
class ClientPair:
    """The files that authenticate a client.

    Attributes:
        certificate: the client certificate with its chain.
        key: its private key.
    """

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ValidPair:
    """The lifetimes of a serving pair that clients accept.

    Attributes:
        leaf: of the serving certificate.
        cas: of the CAs that clients trust.
    """

    leaf: Validity
    cas: list[Validity]

    @classmethod
    def load(cls, pair: ServingPair, names: Sequence[str] = ()) -> Self | None:
        """Load a pair; return None if clients would always reject it, or if it lacks one of the names."""
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), verification.client_context(verification.ANY_TIME)
        try:
            server.load_cert_chain(pair.certificate, pair.key, password="")  # never prompt on the terminal
            client.load_verify_locations(pair.ca)
            certificate = verification.peer_certificate(server, client)
        except (OSError, ValueError):
            return None
        present = {parse_address(name) or name.lower() for _, name in certificate.get("subjectAltName", ())}
        if not present.issuperset(names):
            return None
        return cls(Validity.from_peercert(certificate), list(map(Validity.from_peercert, client.get_ca_certs())))

    def is_valid(self, now: datetime) -> bool:
        """Check whether the certificate is within its lifetime."""
        return self.leaf.not_before <= now < self.leaf.not_after

    def is_renewal_due(self, now: datetime) -> bool:
        """Check whether the pair has to be renewed, or clients still trust an expired CA."""
        has_expired_ca = any(ca.not_after <= now for ca in self.cas)
        return has_expired_ca or self.leaf.is_renewal_due(now) or max(self.cas).is_renewal_due(now)


def check_replaceable(pair: ServingPair | ClientPair) -> x509.Certificate | None:
    """Check that a pair may be replaced.

    Returns:
        The present certificate; None if the file does not exist.

    Raises:
        ConfigurationError: it was not issued here, or cannot be read.
    """
    from webhooks.certificates import pem, signing

    certificates, key = pem.read_certificates(pair.certificate), pem.read_key(pair.key)
    if certificates and not signing.is_ours(certificates[0]):
        raise ConfigurationError(
            f"{pair.certificate}: not issued here, so it is not replaced: choose another directory, renew it where it "
            "was issued, or remove it with its key"
        )
    if not certificates and key:
        raise ConfigurationError(
            f"{pair.key}: a key without its certificate {pair.certificate.name}, so its owner is unknown: remove it"
        )
    return certificates[0] if certificates else None


def write(pair: ServingPair | ClientPair, chain: Sequence[x509.Certificate], key: EllipticCurvePrivateKey) -> None:
    """Write a pair. The certificate is first: after a crash in between it shows that the pair was issued here.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    from webhooks.certificates import pem

    pem.write_certificates(pair.certificate, chain)
    pem.write_key(pair.key, key)

"""Pairs of a certificate and its key, as files: what is good, what may be replaced, and how that is done."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from webhooks.certificates import verification
from webhooks.certificates.names import as_address
from webhooks.certificates.validity import Validity
from webhooks.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class ServingPair:
    """The files a server needs, and the one its callers need.

    Attributes:
        ca: what a caller trusts, a registration's ``caBundle``: the authority's certificate, and while callers may
            still know only the one before it, that one's.
        certificate: the server's certificate, with its chain.
        key: the private key of it.
    """

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, directory: Path) -> Self:
        """The pair of a directory."""
        return cls(directory / "ca.pem", directory / "tls.pem", directory / "tls-key.pem")


@dataclass(frozen=True, slots=True)
class ClientPair:
    """The files a caller needs to show who it is.

    Attributes:
        certificate: the client's certificate, with its chain.
        key: the private key of it.
    """

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ValidPair:
    """A serving pair that callers accept while it lasts.

    Attributes:
        leaf: the time of the server's certificate.
        authorities: the times of those that callers trust.
    """

    leaf: Validity
    authorities: list[Validity]

    @classmethod
    def found(cls, pair: ServingPair, names: Sequence[str] = ()) -> Self | None:
        """What is there; None if callers would not accept it, or not for these names, whatever the time."""
        serving, calling = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), verification.client_context(verification.ANY_TIME)
        try:
            serving.load_cert_chain(pair.certificate, pair.key, password="")  # never ask on the terminal
            calling.load_verify_locations(pair.ca)
            certificate = verification.shown(serving, calling)
        except (OSError, ValueError):
            return None
        covered = {as_address(name) or name.lower() for _, name in certificate.get("subjectAltName", ())}
        if not covered.issuperset(names):
            return None
        return cls(Validity.told(certificate), [Validity.told(each) for each in calling.get_ca_certs()])

    def is_valid(self, now: datetime) -> bool:
        """Whether callers accept it at that time."""
        return self.leaf.begins <= now < self.leaf.ends

    def is_due(self, now: datetime) -> bool:
        """Whether it is to be renewed, or an authority has ended and callers need not be given it any more."""
        ended = any(each.ends <= now for each in self.authorities)
        return ended or self.leaf.is_due(now) or max(self.authorities).is_due(now)


def replaceable(pair: ServingPair | ClientPair) -> x509.Certificate | None:
    """The certificate that is there, which may be replaced; None for none.

    Raises:
        ConfigurationError: it is somebody else's, or cannot be read.
    """
    from webhooks.certificates import pem, signing

    certificates, key = pem.certificates_in(pair.certificate), pem.key_in(pair.key)
    if certificates and not signing.is_ours(certificates[0]):
        raise ConfigurationError(
            f"{pair.certificate}: not issued here, so it is not replaced: choose another directory, let whoever issued "
            "it renew it, or remove it with its key"
        )
    if not certificates and key:
        raise ConfigurationError(
            f"{pair.key}: a key without its certificate {pair.certificate.name}, which may be anybody's: remove it"
        )
    return certificates[0] if certificates else None


def write(pair: ServingPair | ClientPair, chain: Sequence[x509.Certificate], key: EllipticCurvePrivateKey) -> None:
    """Write a pair: the certificate first, which tells whose the key is, should we be stopped in between.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    from webhooks.certificates import pem

    pem.write_certificates(pair.certificate, chain)
    pem.write_key(pair.key, key)

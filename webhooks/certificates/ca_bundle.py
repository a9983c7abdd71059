"""CA bundles: the CAs that API servers trust, in the field ``caBundle`` of a webhook configuration."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhooks.certificates import pem, signing
from webhooks.certificates.pairs import ServingPair
from webhooks.errors import ConfigurationError

MAX_CAS = 8  # a server that creates a new CA at every start would let a bundle grow without limit


def path_for(directory: Path, certificate: Path | None) -> Path:
    """Return the path of the bundle of a server.

    Args:
        directory: the directory of our own CA.
        certificate: the serving certificate of another CA, whose bundle is ``ca.crt`` next to it, as in a Secret; None
            for one of our own CA.
    """
    return ServingPair.from_directory(directory).ca if certificate is None else certificate.with_name("ca.crt")


def read(path: Path) -> list[x509.Certificate]:
    """Read the CAs in a file, without the expired ones.

    Raises:
        ConfigurationError: the file contains no valid CA, or anything that is not a CA.
    """
    certificates = pem.read_certificates(path)
    if not certificates:
        raise ConfigurationError(f"{path}: no such file")
    for certificate in certificates:
        if not signing.is_ca(certificate):
            raise ConfigurationError(
                f"{path}: {certificate.subject.rfc4514_string()} is not a CA certificate: API servers trust only CAs"
            )
    now = datetime.now(UTC)
    valid = [certificate for certificate in certificates if certificate.not_valid_after_utc > now]
    if not valid:
        raise ConfigurationError(f"{path}: all CAs in it have expired")
    return valid


def merge(own: Sequence[x509.Certificate], others: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    """Merge our CAs with the others that have not expired: other servers may still use their certificates.

    Beyond `MAX_CAS`, the oldest ones are dropped.
    """
    now = datetime.now(UTC)
    valid = [ca for ca in dict.fromkeys(others) if ca not in own and ca.not_valid_after_utc > now]
    valid.sort(key=lambda ca: ca.not_valid_before_utc, reverse=True)
    return [*own, *valid][: max(MAX_CAS, len(own))]


def to_pem(cas: Iterable[x509.Certificate]) -> bytes:
    """Encode CAs as PEM."""
    return b"".join(ca.public_bytes(Encoding.PEM) for ca in cas)

"""Bundles: the authorities that callers are to trust, as a registration's ``caBundle`` holds them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhooks.certificates import pem, signing
from webhooks.certificates.pairs import ServingPair
from webhooks.errors import ConfigurationError

MOST = 8  # authorities; a server that is given a new one at every start would have a bundle grow without end


def of(directory: Path, certificate: Path | None) -> Path:
    """Where a server's bundle is: among its own certificates, or beside somebody else's, as in a Secret."""
    return ServingPair.of(directory).ca if certificate is None else certificate.with_name("ca.crt")


def read(path: Path) -> list[x509.Certificate]:
    """The authorities in a file.

    Raises:
        ConfigurationError: there is none, or one that has ended, or something else.
    """
    found = pem.certificates_in(path)
    if not found:
        raise ConfigurationError(f"{path}: no such file")
    now = datetime.now(UTC)
    for each in found:
        if not signing.is_authority(each):
            raise ConfigurationError(
                f"{path}: {each.subject.rfc4514_string()} is no authority: API servers trust those"
            )
    lasting = [each for each in found if each.not_valid_after_utc > now]
    if not lasting:
        raise ConfigurationError(f"{path}: all authorities in it have ended")
    return lasting


def joined(own: Sequence[x509.Certificate], others: Iterable[x509.Certificate]) -> list[x509.Certificate]:
    """Our authorities, then others that have not ended: other servers may still have certificates of theirs.

    Of too many, the oldest go.
    """
    now = datetime.now(UTC)
    lasting = [each for each in dict.fromkeys(others) if each not in own and each.not_valid_after_utc > now]
    lasting.sort(key=lambda each: each.not_valid_before_utc, reverse=True)
    return [*own, *lasting][: max(MOST, len(own))]


def written(authorities: Iterable[x509.Certificate]) -> bytes:
    """Authorities in PEM form."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in authorities)

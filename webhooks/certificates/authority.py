"""The authority of a directory: the one that is there, the one that follows it, or the first.

A new one is made only where nothing is left of another: callers know that one, and would not trust us any more.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from webhooks.certificates import pem, signing
from webhooks.certificates.signing import Authority
from webhooks.errors import ConfigurationError

logger = logging.getLogger("webhooks.certificates")


def authority(directory: Path, now: datetime) -> Authority:
    """The authority that signs in a directory, followed by a new one if two thirds of its life are over.

    Raises:
        ConfigurationError: it has lost its certificate or key, is not ours, or a file cannot be read or written.
    """
    trusted, key = pem.certificates_in(directory / "ca.pem"), pem.key_in(directory / "ca-key.pem")
    if not (trusted and key):
        _check_empty(directory)
        return _kept(directory, signing.first(now))
    found = _signer(directory, trusted, key)
    if signing.validity(found.certificate).is_due(now):
        until = f"{found.certificate.not_valid_after_utc:%F}"
        logger.warning("%s/ca.pem: a new authority; callers that know only the old one need it by %s", directory, until)
        return _kept(directory, signing.follow(found, now))
    lasting = [each for each in trusted if each.not_valid_after_utc > now]
    if lasting != trusted:
        pem.write_certificates(directory / "ca.pem", lasting)
    return found


def _check_empty(directory: Path) -> None:
    """Refuse to make an authority where callers know another."""
    left = [name for name in ("ca.pem", "ca-key.pem", "tls.pem", "tls-key.pem") if (directory / name).exists()]
    lost = [name for name in ("ca.pem", "ca-key.pem") if name not in left]
    if left:
        raise ConfigurationError(
            f"{directory}: {' and '.join(lost)} of the authority that callers know is missing, so it can sign nothing: "
            "put it back; or, for a new authority, whose ca.pem all callers need then, remove the rest of the old one: "
            f"{', '.join(left)}"
        )


def _signer(directory: Path, trusted: Sequence[x509.Certificate], key: EllipticCurvePrivateKey) -> Authority:
    """The one whose key is there, among those that are trusted: after a crash that may be the one before."""
    mine = [certificate for certificate in trusted if certificate.public_key() == key.public_key()]
    if not mine:
        raise ConfigurationError(
            f"{directory / 'ca-key.pem'}: not the key of {directory / 'ca.pem'}: put the right one back"
        )
    if not (signing.is_ours(mine[0]) and signing.is_authority(mine[0])):
        raise ConfigurationError(
            f"{directory / 'ca.pem'}: not an authority that was made here, so nothing is signed by it: choose another "
            "directory, or give the server a certificate and key"
        )
    crosses = pem.certificates_in(directory / "ca-cross.pem")
    cross = tuple(each for each in crosses if each.public_key() == key.public_key())
    return Authority(mine[0], key, tuple(trusted), cross)


def _kept(directory: Path, new: Authority) -> Authority:
    """Write it down: its key last, which makes it the one that signs, so a crash before that has changed nothing."""
    if new.cross:
        pem.write_certificates(directory / "ca-cross.pem", new.cross)
    pem.write_certificates(directory / "ca.pem", new.trusted)
    pem.write_key(directory / "ca-key.pem", new.key)
    return new

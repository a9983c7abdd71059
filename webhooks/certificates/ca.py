"""Loads, creates and rotates the CA of a directory.

A CA is created only if nothing of another one remains in the directory: clients that trust the other one would reject
the server.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from webhooks.certificates import pem, signing
from webhooks.certificates.signing import CertificateAuthority
from webhooks.errors import ConfigurationError

logger = logging.getLogger("webhooks.certificates")


def ensure_ca(directory: Path, now: datetime) -> CertificateAuthority:
    """Return the CA of a directory. It is created if absent, and rotated after two thirds of its lifetime.

    Raises:
        ConfigurationError: its certificate or key is missing, another program created it, or a file cannot be read or
            written.
    """
    trusted, key = pem.read_certificates(directory / "ca.pem"), pem.read_key(directory / "ca-key.pem")
    if not (trusted and key):
        _check_no_leftovers(directory)
        return store_ca(directory, signing.create_ca(now))
    ca = _select_signer(directory, trusted, key)
    if signing.get_validity(ca.certificate).is_renewal_due(now):
        logger.warning(
            "%s/ca.pem: the CA is rotated: distribute the new file to the clients before the old CA expires on %s",
            directory,
            f"{ca.certificate.not_valid_after_utc:%F}",
        )
        return store_ca(directory, signing.rotate_ca(ca, now))
    valid = [certificate for certificate in trusted if certificate.not_valid_after_utc > now]
    if valid != trusted:
        pem.write_certificates(directory / "ca.pem", valid)
    return ca


def _check_no_leftovers(directory: Path) -> None:
    """Check that no files of a CA remain in the directory: clients may still trust it."""
    present = [name for name in ("ca.pem", "ca-key.pem", "tls.pem", "tls-key.pem") if (directory / name).exists()]
    missing = [name for name in ("ca.pem", "ca-key.pem") if name not in present]
    if present:
        raise ConfigurationError(
            f"{directory}: nothing can be signed without {' and '.join(missing)} of the CA that clients trust: "
            f"restore it; or, for a new CA, remove {', '.join(present)}, and distribute the new ca.pem to all clients"
        )


def _select_signer(
    directory: Path, trusted: Sequence[x509.Certificate], key: EllipticCurvePrivateKey
) -> CertificateAuthority:
    """Return the trusted CA that the key belongs to. After a crash during a rotation it is the previous CA."""
    matching = [certificate for certificate in trusted if certificate.public_key() == key.public_key()]
    if not matching:
        raise ConfigurationError(
            f"{directory / 'ca-key.pem'}: not the key of {directory / 'ca.pem'}: restore the right one"
        )
    if not (signing.is_ours(matching[0]) and signing.is_ca(matching[0])):
        raise ConfigurationError(
            f"{directory / 'ca.pem'}: not a CA that was created here, so it signs nothing: choose another directory, "
            "or give the server a certificate and key"
        )
    crosses = pem.read_certificates(directory / "ca-cross.pem")
    cross = tuple(certificate for certificate in crosses if certificate.public_key() == key.public_key())
    return CertificateAuthority(matching[0], key, tuple(trusted), cross)


def store_ca(directory: Path, ca: CertificateAuthority) -> CertificateAuthority:
    """Write a CA and return it. The key is last and activates the CA, so that a crash before it changes nothing.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    if ca.cross:
        pem.write_certificates(directory / "ca-cross.pem", ca.cross)
    pem.write_certificates(directory / "ca.pem", ca.trusted)
    pem.write_key(directory / "ca-key.pem", ca.key)
    return ca

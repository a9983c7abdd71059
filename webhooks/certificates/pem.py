"""Certificates and keys in files, in PEM form."""

from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from webhooks.certificates import storage
from webhooks.errors import ConfigurationError


def certificates_in(path: Path) -> list[x509.Certificate]:
    """The certificates in a file, which are at least one; none where there is no file.

    Raises:
        ConfigurationError: it cannot be read, or holds something else.
    """
    content = storage.read(path)
    if content is None:
        return []
    try:
        return certificates_of(content)
    except ValueError as error:
        raise ConfigurationError(f"{path}: no certificate in PEM form: put the right one back, or remove it") from error


def certificates_of(content: bytes) -> list[x509.Certificate]:
    """The certificates in PEM form, which are at least one.

    Raises:
        ValueError: it is something else.
    """
    return x509.load_pem_x509_certificates(content)


def key_in(path: Path) -> EllipticCurvePrivateKey | None:
    """The private key in a file; None where there is no file.

    Raises:
        ConfigurationError: it cannot be read, or holds something else.
    """
    content = storage.read(path)
    if content is None:
        return None
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ConfigurationError(f"{path}: no plain EC key in PEM form: put the right one back, or remove it")
    return key


def write_certificates(path: Path, certificates: Iterable[x509.Certificate]) -> None:
    """Put certificates into a file.

    Raises:
        ConfigurationError: it cannot be written.
    """
    storage.write(path, b"".join(each.public_bytes(Encoding.PEM) for each in certificates), 0o644)


def write_key(path: Path, key: EllipticCurvePrivateKey) -> None:
    """Put a private key into a file that only its owner reads.

    Raises:
        ConfigurationError: it cannot be written.
    """
    storage.write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)

"""Reads and writes certificates and keys in PEM form."""

from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from webhooks.certificates import storage
from webhooks.errors import ConfigurationError


def read_certificates(path: Path) -> list[x509.Certificate]:
    """Read the certificates in a file; return an empty list if it does not exist.

    Raises:
        ConfigurationError: the file cannot be read, or is not one or more certificates.
    """
    content = storage.read(path)
    if content is None:
        return []
    try:
        return parse_certificates(content)
    except ValueError as error:
        raise ConfigurationError(
            f"{path}: not a certificate in PEM form: restore the right file, or remove it"
        ) from error


def parse_certificates(content: bytes) -> list[x509.Certificate]:
    """Parse one or more certificates in PEM form.

    Raises:
        ValueError: the content is something else.
    """
    return x509.load_pem_x509_certificates(content)


def read_key(path: Path) -> EllipticCurvePrivateKey | None:
    """Read the private key in a file; return None if it does not exist.

    Raises:
        ConfigurationError: the file cannot be read, or is not an EC key without a password.
    """
    content = storage.read(path)
    if content is None:
        return None
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ConfigurationError(
            f"{path}: not an EC key in PEM form without a password: restore the right file, or remove it"
        )
    return key


def write_certificates(path: Path, certificates: Iterable[x509.Certificate]) -> None:
    """Write certificates to a file.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    storage.write(path, b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates), 0o644)


def write_key(path: Path, key: EllipticCurvePrivateKey) -> None:
    """Write a private key to a file that only its owner can read.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    storage.write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)

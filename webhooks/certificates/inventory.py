"""Lists the certificates in files: their names, their lifetime, and whether their keys are present."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from webhooks.certificates import signing, storage
from webhooks.errors import ConfigurationError, printable

_SUFFIXES = (".pem", ".crt", ".cer", ".key")
_CERTIFICATE_MARKER, _KEY_MARKER = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


@dataclass(frozen=True, slots=True)
class CertificateEntry:
    """A certificate in a file.

    Attributes:
        path: the file.
        certificate: the certificate.
        key_path: the file of its private key; None if no listed file contains it.
    """

    path: Path
    certificate: x509.Certificate
    key_path: Path | None

    @property
    def subject(self) -> str:
        """The common name of its subject, or the whole name."""
        return _format_name(self.certificate.subject)

    @property
    def issuer(self) -> str:
        """The common name of its issuer, or the whole name."""
        return _format_name(self.certificate.issuer)

    @property
    def names(self) -> list[str]:
        """Its DNS names and IP addresses."""
        return signing.list_names(self.certificate)

    @property
    def not_after(self) -> datetime:
        """When it expires."""
        return self.certificate.not_valid_after_utc

    @property
    def key_type(self) -> str:
        """The algorithm and size of its key."""
        key = self.certificate.public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            return f"ECDSA {_CURVES.get(key.curve.name, key.curve.name)}"
        if isinstance(key, rsa.RSAPublicKey):
            return f"RSA {key.key_size}"
        return type(key).__name__.removesuffix("PublicKey")

    @property
    def fingerprint(self) -> str:
        """Its SHA-256 fingerprint, in the format of browsers and ``openssl x509 -fingerprint``."""
        return self.certificate.fingerprint(SHA256()).hex(":").upper()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The certificates in some files.

    Attributes:
        entries: the certificates, in the order of the files and of their contents.
        errors: the messages about files that cannot be read.
    """

    entries: list[CertificateEntry]
    errors: list[str]

    @classmethod
    def from_paths(cls, paths: Iterable[Path]) -> Self:
        """Read files, and in folders those whose names look like certificates and keys.

        The key of a certificate is searched in all of them, and in the usual files next to each.
        """
        certificates: list[tuple[Path, x509.Certificate]] = []
        keys: dict[bytes, Path] = {}
        errors: list[str] = []
        for path in (file for source in paths for file in _list_files(source)):
            try:
                certificates += [(path, certificate) for certificate in _read_certificates(path)]
                for key_path in (path, *_find_key_files(path)):
                    public_key = _read_public_key(key_path)
                    if public_key is not None:
                        keys[public_key] = key_path
            except ConfigurationError as error:
                errors.append(str(error))
        entries = [
            CertificateEntry(path, certificate, keys.get(_encode_public_key(certificate)))
            for path, certificate in certificates
        ]
        return cls(entries, errors)


def _list_files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and not file.name.startswith("."))


def _find_key_files(path: Path) -> list[Path]:
    names = (f"{path.stem}-key.pem", f"{path.stem}.key")
    return [key_path for name in names if (key_path := path.with_name(name)).is_file()]


def _read_certificates(path: Path) -> list[x509.Certificate]:
    content = storage.read(path)
    if content is None:
        raise ConfigurationError(f"{path}: no such file or folder")
    if _KEY_MARKER in content and _CERTIFICATE_MARKER not in content:
        return []
    try:
        certificates = x509.load_pem_x509_certificates(content)
        for certificate in certificates:  # these fields are decoded only now
            signing.list_names(certificate), certificate.public_key(), certificate.subject, certificate.issuer
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{path}: not a certificate in PEM form") from error
    return certificates


def _read_public_key(path: Path) -> bytes | None:
    """Return the public part of the private key in a file; None if it contains none."""
    content = storage.read(path)
    if content is None or _KEY_MARKER not in content:
        return None
    try:
        return _encode_public_key(load_pem_private_key(content, password=None))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{path}: not a private key in PEM form without a password") from error


def _encode_public_key(owner: x509.Certificate | PrivateKeyTypes) -> bytes:
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _format_name(name: x509.Name) -> str:
    common_names = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return printable(str(common_names[0].value) if common_names else name.rfc4514_string())

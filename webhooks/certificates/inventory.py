"""What is in files: every certificate, what it is for, how long it lasts, and whether its key is there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from webhooks.certificates import signing, storage
from webhooks.errors import ConfigurationError

_SUFFIXES = (".pem", ".crt", ".cer", ".key")
_CERTIFICATE, _KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
_CURVES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One certificate.

    Attributes:
        file: where it is.
        certificate: what it is.
        key_file: where its private key is; None where none of the files has it.
    """

    file: Path
    certificate: x509.Certificate
    key_file: Path | None

    @property
    def subject(self) -> str:
        """Whose it is."""
        return _named(self.certificate.subject)

    @property
    def issuer(self) -> str:
        """Who signed it."""
        return _named(self.certificate.issuer)

    @property
    def names(self) -> list[str]:
        """The DNS names and IP addresses it is for."""
        return signing.names(self.certificate)

    @property
    def ends(self) -> datetime:
        """When it ends."""
        return self.certificate.not_valid_after_utc

    @property
    def key_type(self) -> str:
        """The kind of its key and the size of it."""
        key = self.certificate.public_key()
        if isinstance(key, ec.EllipticCurvePublicKey):
            return f"ECDSA {_CURVES.get(key.curve.name, key.curve.name)}"
        if isinstance(key, rsa.RSAPublicKey):
            return f"RSA {key.key_size}"
        return type(key).__name__.removesuffix("PublicKey")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of it, as browsers and ``openssl x509 -fingerprint`` write it."""
        return self.certificate.fingerprint(SHA256()).hex(":").upper()


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was found.

    Attributes:
        entries: the certificates, in the order of the files and in them.
        faults: what is wrong with files.
    """

    entries: list[Entry]
    faults: list[str]


def inventory(paths: Iterable[Path]) -> Inventory:
    """Read files, and those in folders that are named like certificates and keys.

    A key is looked for in all of them, and under the usual names beside each.
    """
    found: list[tuple[Path, x509.Certificate]] = []
    keys: dict[bytes, Path] = {}
    faults: list[str] = []
    for path in paths:
        for file in _files(path):
            try:
                found += [(file, certificate) for certificate in _certificates(file)]
                keys |= {bits: each for each in (file, *_beside(file)) if (bits := _key(each)) is not None}
            except ConfigurationError as error:
                faults.append(str(error))
    entries = [Entry(file, certificate, keys.get(_bits(certificate))) for file, certificate in found]
    return Inventory(entries, faults)


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and not each.name.startswith("."))


def _beside(file: Path) -> list[Path]:
    names = (f"{file.stem}-key.pem", f"{file.stem}.key")
    return [path for name in names if (path := file.with_name(name)).is_file()]


def _certificates(file: Path) -> list[x509.Certificate]:
    content = storage.read(file)
    if content is None:
        raise ConfigurationError(f"{file}: no such file or folder")
    if _KEY in content and _CERTIFICATE not in content:
        return []
    try:
        certificates = x509.load_pem_x509_certificates(content)
        for certificate in certificates:
            signing.names(certificate), certificate.public_key(), certificate.subject, certificate.issuer
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{file}: no certificate in PEM form") from error
    return certificates


def _key(file: Path) -> bytes | None:
    content = storage.read(file)
    if content is None or _KEY not in content:
        return None
    try:
        return _bits(load_pem_private_key(content, password=None))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(f"{file}: no private key in PEM form that is readable without a password") from error


def _bits(owner: x509.Certificate | PrivateKeyTypes) -> bytes:
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _named(name: x509.Name) -> str:
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    text = str(common[0].value) if common else name.rfc4514_string()
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)

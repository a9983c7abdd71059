"""Client certificates of every kind, valid and invalid."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, also as files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    files: tuple[Path, Path]


def identity(
    folder: Path,
    name: str = "",
    signer: Identity | None = None,
    *,
    names: Sequence[str] = (),
    usages: Sequence[x509.ObjectIdentifier] = (CLIENT,),
    not_before: timedelta = -DAY,
    not_after: timedelta = DAY,
    is_ca: bool = False,
) -> Identity:
    """Create a certificate.

    Args:
        folder: the folder for its files.
        name: its common name.
        signer: its CA; None for a self-signed certificate.
        names: its subject alternative names: ``DNS:localhost``, ``URI:spiffe://a/b``, ``email:a@b.c`` or ``IP:::1``.
        usages: its extended key usages; empty for any usage.
        not_before: the start of its lifetime, from now.
        not_after: when it expires, from now.
        is_ca: whether it may sign other certificates.
    """
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + not_before)
        .not_valid_after(now + not_after)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if usages and not is_ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_parse_name, names))), critical=not name)
    certificate = builder.sign(key if signer is None else signer.key, hashes.SHA256())
    stem = folder / f"{certificate.serial_number:x}"
    files = stem.with_suffix(".pem"), stem.with_suffix(".key")
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return Identity(certificate, key, files)


def _parse_name(name: str) -> x509.GeneralName:
    kind, _, value = name.partition(":")
    if kind == "IP":
        return x509.IPAddress(ipaddress.ip_address(value))
    return {"DNS": x509.DNSName, "URI": x509.UniformResourceIdentifier, "email": x509.RFC822Name}[kind](value)

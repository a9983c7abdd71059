"""Creates and reads certificates: our CA, its rotation, and the certificates that it signs.

A CA that replaces another one is also signed by that one. This cross certificate is in the chain of everything that the
new CA signs, so a client that trusts either of them accepts the chain ("new with old" of RFC 4210, section 4.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhooks.certificates.names import parse_address
from webhooks.certificates.verification import Validity

_ORGANIZATION = "cluster-webhooks"  # of the subject of our CAs; identifies the certificates that they issued
_CA_LIFETIME = timedelta(days=3650)
_LIFETIME = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)

_Key = ec.EllipticCurvePrivateKey
_Extensions = Sequence[tuple[x509.ExtensionType, bool]]
_KEY_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True, slots=True)
class CertificateAuthority:
    """A CA with its key.

    Attributes:
        certificate: its self-signed certificate.
        key: its private key.
        trusted: the certificates that clients trust: its own, and that of the previous CA until it expires.
        cross: its certificate signed by the previous CA, for clients that trust only that one.
    """

    certificate: x509.Certificate
    key: _Key
    trusted: tuple[x509.Certificate, ...]
    cross: tuple[x509.Certificate, ...] = ()


def create_ca(now: datetime) -> CertificateAuthority:
    """Create a CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, f"webhooks CA {identifier[:4].hex()}"),
        ]
    )
    builder = _build(subject, key.public_key(), subject, now, now + _CA_LIFETIME, _ca_extensions(1))
    builder = builder.add_extension(x509.AuthorityKeyIdentifier(identifier, None, None), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    return CertificateAuthority(certificate, key, trusted=(certificate,))


def rotate_ca(old: CertificateAuthority, now: datetime) -> CertificateAuthority:
    """Create a CA that replaces another one. Until the old CA expires, its clients trust the new one too."""
    new = create_ca(now)
    expiry = old.certificate.not_valid_after_utc
    if expiry <= now:
        return new
    cross = _sign(new.certificate.subject, new.key.public_key(), old, now, expiry, _ca_extensions(0))
    return CertificateAuthority(new.certificate, new.key, (new.certificate, old.certificate), (cross,))


def sign_server(ca: CertificateAuthority, names: Sequence[str], now: datetime) -> tuple[list[x509.Certificate], _Key]:
    """Issue a serving certificate for some names. Returns it with its chain, and its key."""
    alternatives = [x509.IPAddress(ip_address(name)) if parse_address(name) else x509.DNSName(name) for name in names]
    extensions = [(x509.SubjectAlternativeName(alternatives), False)]
    return _issue(ca, "webhooks", ExtendedKeyUsageOID.SERVER_AUTH, extensions, now)


def sign_client(ca: CertificateAuthority, name: str, now: datetime) -> tuple[list[x509.Certificate], _Key]:
    """Issue a client certificate with a common name. Returns it with its chain, and its key."""
    return _issue(ca, name, ExtendedKeyUsageOID.CLIENT_AUTH, [], now)


def _issue(
    ca: CertificateAuthority, name: str, usage: x509.ObjectIdentifier, extensions: _Extensions, now: datetime
) -> tuple[list[x509.Certificate], _Key]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    common: _Extensions = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_allow_usages("digital_signature"), True),
        (x509.ExtendedKeyUsage([usage]), False),
        *extensions,
    )
    certificate = _sign(subject, key.public_key(), ca, now, now + _LIFETIME, common)
    return [certificate, *(cross for cross in ca.cross if cross.not_valid_after_utc > now)], key


def _ca_extensions(path_length: int) -> _Extensions:
    return (
        (x509.BasicConstraints(ca=True, path_length=path_length), True),
        (_allow_usages("key_cert_sign", "crl_sign"), True),
    )


def _sign(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    ca: CertificateAuthority,
    now: datetime,
    expiry: datetime,
    extensions: _Extensions,
) -> x509.Certificate:
    """Sign a certificate, which expires with the CA at the latest."""
    issuer = ca.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = _build(subject, key, issuer.subject, now, min(expiry, issuer.not_valid_after_utc), extensions)
    extension = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return builder.add_extension(extension, critical=False).sign(ca.key, hashes.SHA256())


def _build(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    now: datetime,
    expiry: datetime,
    extensions: _Extensions,
) -> x509.CertificateBuilder:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(expiry)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder


def _allow_usages(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _KEY_USAGES})


def is_ours(certificate: x509.Certificate) -> bool:
    """Check whether a CA that was created here issued the certificate."""
    organizations = certificate.issuer.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return any(organization.value == _ORGANIZATION for organization in organizations)


def is_ca(certificate: x509.Certificate) -> bool:
    """Check whether the certificate is that of a CA."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def get_validity(certificate: x509.Certificate) -> Validity:
    """Return the lifetime of a certificate."""
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def list_names(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names and IP addresses of a certificate."""
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
    return [*alternatives.get_values_for_type(x509.DNSName), *addresses]


def is_signed_by_any(cas: Iterable[bytes], certificate: bytes) -> bool:
    """Check whether one of these CAs signed a certificate directly (all in DER); false if that cannot be verified."""
    return any(_is_signed_by(ca, certificate) for ca in cas)


def _is_signed_by(ca: bytes, certificate: bytes) -> bool:
    try:
        x509.load_der_x509_certificate(certificate).verify_directly_issued_by(x509.load_der_x509_certificate(ca))
    except Exception:  # such as a type of key that TLS supports and this library does not
        return False
    return True

"""Certificates as they are made and read: the authority, the one that follows it, and what they sign.

An authority that takes another's place is signed by that one too. This cross certificate goes with whatever the new one
signs, so whoever trusts either of the two trusts that (RFC 4210, section 4.4, knows it as "new with old").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhooks.certificates.names import as_address
from webhooks.certificates.validity import Validity

_ORGANIZATION = "cluster-webhooks"  # of our authorities: by it we know what is ours
_AUTHORITY_LIFE = timedelta(days=3650)
_LIFE = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)

_Key = ec.EllipticCurvePrivateKey
_Extensions = Sequence[tuple[x509.ExtensionType, bool]]
_USAGES = (
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
class Authority:
    """One that can sign.

    Attributes:
        certificate: of it, signed by itself.
        key: its private key.
        trusted: what callers trust: it, and the one it follows as long as that one lasts.
        cross: its certificate by the one it follows, for callers who know only that one.
    """

    certificate: x509.Certificate
    key: _Key
    trusted: tuple[x509.Certificate, ...]
    cross: tuple[x509.Certificate, ...] = ()


def first(now: datetime) -> Authority:
    """A new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, f"webhooks CA {identifier[:4].hex()}"),
        ]
    )
    builder = _unsigned(subject, key.public_key(), subject, now, now + _AUTHORITY_LIFE, _signs_certificates(1))
    builder = builder.add_extension(x509.AuthorityKeyIdentifier(identifier, None, None), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    return Authority(certificate, key, trusted=(certificate,))


def follow(authority: Authority, now: datetime) -> Authority:
    """A new authority that takes another's place; who trusts that one trusts it too, until that one ends."""
    new = first(now)
    until = authority.certificate.not_valid_after_utc
    if until <= now:
        return new
    cross = _signed(new.certificate.subject, new.key.public_key(), authority, now, until, _signs_certificates(0))
    return Authority(new.certificate, new.key, (new.certificate, authority.certificate), (cross,))


def sign_server(authority: Authority, names: Sequence[str], now: datetime) -> tuple[list[x509.Certificate], _Key]:
    """A certificate for a server of these names, with its chain, and its key."""
    alternatives = [x509.IPAddress(ip_address(name)) if as_address(name) else x509.DNSName(name) for name in names]
    extensions = [(x509.SubjectAlternativeName(alternatives), False)]
    return _leaf(authority, "webhooks", ExtendedKeyUsageOID.SERVER_AUTH, extensions, now)


def sign_client(authority: Authority, name: str, now: datetime) -> tuple[list[x509.Certificate], _Key]:
    """A certificate for a caller of this common name, with its chain, and its key."""
    return _leaf(authority, name, ExtendedKeyUsageOID.CLIENT_AUTH, [], now)


def _leaf(
    authority: Authority, name: str, usage: x509.ObjectIdentifier, extensions: _Extensions, now: datetime
) -> tuple[list[x509.Certificate], _Key]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    common: _Extensions = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([usage]), False),
        *extensions,
    )
    certificate = _signed(subject, key.public_key(), authority, now, now + _LIFE, common)
    return [certificate, *(cross for cross in authority.cross if cross.not_valid_after_utc > now)], key


def _signs_certificates(path_length: int) -> _Extensions:
    return (
        (x509.BasicConstraints(ca=True, path_length=path_length), True),
        (_key_usage("key_cert_sign", "crl_sign"), True),
    )


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    authority: Authority,
    now: datetime,
    until: datetime,
    extensions: _Extensions,
) -> x509.Certificate:
    """A certificate that an authority signs; it does not outlive the authority."""
    issuer = authority.certificate
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = _unsigned(subject, key, issuer.subject, now, min(until, issuer.not_valid_after_utc), extensions)
    extension = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return builder.add_extension(extension, critical=False).sign(authority.key, hashes.SHA256())


def _unsigned(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    now: datetime,
    until: datetime,
    extensions: _Extensions,
) -> x509.CertificateBuilder:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder


def _key_usage(*allowed: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _USAGES})


def is_ours(certificate: x509.Certificate) -> bool:
    """Whether an authority of ours signed it."""
    organizations = certificate.issuer.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return any(organization.value == _ORGANIZATION for organization in organizations)


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether it may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def validity(certificate: x509.Certificate) -> Validity:
    """From when to when it is good."""
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def names(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses it is for."""
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
    return [*alternatives.get_values_for_type(x509.DNSName), *addresses]

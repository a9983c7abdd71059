"""The certificates that our CA signs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhooks.certificates import signing
from webhooks.certificates.signing import CertificateAuthority

from ..support.certificates import foreign_ca
from ..support.identities import Identity, identity

NOW = datetime.now(UTC).replace(microsecond=0)
YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def ca() -> CertificateAuthority:
    return signing.create_ca(NOW)


def lifetime(certificate: x509.Certificate) -> timedelta:
    """Return the lifetime from now on, and check that clocks may differ by an hour."""
    assert certificate.not_valid_before_utc == NOW - timedelta(hours=1)
    return certificate.not_valid_after_utc - NOW


def test_a_serving_certificate(ca: CertificateAuthority) -> None:
    names = ["localhost", "127.0.0.1", "::1", "webhooks.default.svc"]
    [certificate], key = signing.sign_server(ca, names, NOW)
    extensions = certificate.extensions
    alternatives = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == ["localhost", "webhooks.default.svc"]
    assert alternatives.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]
    assert signing.list_names(certificate) == ["localhost", "webhooks.default.svc", "127.0.0.1", "::1"]
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert not constraints.value.ca
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]
    issuer_identifier = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    ca_identifier = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert issuer_identifier == ca_identifier.digest
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert certificate.public_key() == key.public_key()
    assert certificate.serial_number != ca.certificate.serial_number
    assert lifetime(certificate) == YEAR


def test_a_client_certificate(ca: CertificateAuthority) -> None:
    [certificate], _ = signing.sign_client(ca, "system:apiserver", NOW)
    [common_name] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert common_name.value == "system:apiserver"
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert signing.list_names(certificate) == []
    assert lifetime(certificate) == YEAR


def test_a_ca(ca: CertificateAuthority) -> None:
    extensions = ca.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=1)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert lifetime(ca.certificate) == 10 * YEAR


def test_a_rotated_ca_is_also_signed_by_the_old_one(ca: CertificateAuthority) -> None:
    new = signing.rotate_ca(ca, NOW + 7 * YEAR)
    assert new.trusted == (new.certificate, ca.certificate)
    assert new.certificate.subject != ca.certificate.subject
    [cross] = new.cross
    assert (cross.subject, cross.issuer) == (new.certificate.subject, ca.certificate.subject)
    assert cross.not_valid_after_utc == ca.certificate.not_valid_after_utc
    cross.verify_directly_issued_by(ca.certificate)


def test_an_expired_ca_signs_no_cross_certificate(ca: CertificateAuthority) -> None:
    new = signing.rotate_ca(ca, NOW + 11 * YEAR)
    assert (new.trusted, new.cross) == ((new.certificate,), ())


def test_a_chain_has_no_expired_cross_certificate(ca: CertificateAuthority) -> None:
    new = signing.rotate_ca(ca, NOW + 7 * YEAR)
    assert [len(signing.sign_client(new, "jane", NOW + years * YEAR)[0]) for years in (8, 11)] == [2, 1]


def test_a_certificate_does_not_outlive_its_ca(ca: CertificateAuthority) -> None:
    [certificate], _ = signing.sign_client(ca, "jane", NOW + 9.5 * YEAR)
    assert certificate.not_valid_after_utc == ca.certificate.not_valid_after_utc


def test_our_certificates_are_recognized(ca: CertificateAuthority) -> None:
    [leaf], _ = signing.sign_client(ca, "jane", NOW)
    foreign, _ = foreign_ca()
    assert [signing.is_ours(certificate) for certificate in (ca.certificate, leaf, foreign)] == [True, True, False]
    assert [signing.is_ca(certificate) for certificate in (ca.certificate, leaf, foreign)] == [True, False, True]


# Whether a CA signed a certificate.


def der(of: Identity) -> bytes:
    return of.certificate.public_bytes(Encoding.DER)


@pytest.fixture
def client_ca(tmp_path: Path) -> Identity:
    return identity(tmp_path, "clients", is_ca=True)


def test_the_signer_of_a_certificate(tmp_path: Path, client_ca: Identity) -> None:
    other, same_name = (identity(tmp_path, name, is_ca=True) for name in ("others", "clients"))
    client = der(identity(tmp_path, "listed", client_ca))
    assert signing.is_signed_by_any([der(other), der(client_ca)], client)
    assert not signing.is_signed_by_any([der(other), der(same_name)], client)
    assert not signing.is_signed_by_any([], client)


def test_unreadable_certificates_are_not_trusted(tmp_path: Path, client_ca: Identity) -> None:
    client = der(identity(tmp_path, "listed", client_ca))
    assert signing.is_signed_by_any([b"rubbish", der(client_ca)], client)
    assert not signing.is_signed_by_any([der(client_ca)], b"rubbish")

"""Serving certificates as clients verify them."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from webhooks.certificates import ServingPair, issue, verification
from webhooks.certificates.verification import Validity
from webhooks.errors import ConfigurationError

from ..support.certificates import read_all

NOW = datetime.now(UTC)
YEAR = timedelta(days=365)


def server_context(pair: ServingPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.mark.parametrize("known", [[0], [1], [0, 1]], ids=["new", "old", "both"])
def test_clients_of_either_ca_accept_a_certificate_after_a_rotation(tmp_path: Path, known: list[int]) -> None:
    issue(tmp_path, names=["localhost"], now=NOW - 7 * YEAR)
    pair = issue(tmp_path, names=["localhost"], now=NOW)
    cas = read_all(pair.ca)
    client = verification.client_context(ssl.VERIFY_X509_STRICT)
    client.load_verify_locations(cadata=b"".join(cas[index].public_bytes(Encoding.DER) for index in known))
    certificate = verification.peer_certificate(server_context(pair), client)
    assert certificate["subjectAltName"] == (("DNS", "localhost"),)


def test_clients_of_another_ca_reject_a_certificate(tmp_path: Path) -> None:
    pair, other = (issue(tmp_path / name, names=["localhost"]) for name in ("one", "other"))
    client = verification.client_context()
    client.load_verify_locations(other.ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        verification.peer_certificate(server_context(pair), client)


def test_an_expired_certificate_is_accepted_only_at_any_time(tmp_path: Path) -> None:
    pair = issue(tmp_path, names=["localhost"], now=NOW - 2 * YEAR)
    client, lenient = verification.client_context(), verification.client_context(verification.ANY_TIME)
    for context in (client, lenient):
        context.load_verify_locations(pair.ca)
    with pytest.raises(ssl.SSLCertVerificationError, match="has expired"):
        verification.peer_certificate(server_context(pair), client)
    validity = Validity.from_peercert(verification.peer_certificate(server_context(pair), lenient))
    [certificate] = read_all(pair.certificate)
    assert validity == (certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def test_a_renewal_is_due_after_two_thirds_of_the_lifetime() -> None:
    validity = Validity(NOW, NOW + timedelta(days=90))
    assert [validity.is_renewal_due(NOW + timedelta(days=days)) for days in (0, 59, 60, 100)] == [
        False,
        False,
        True,
        True,
    ]


def test_a_client_context_for_the_cas_of_a_file(tmp_path: Path) -> None:
    pair = issue(tmp_path, names=["localhost"])
    context = verification.load_client_context(pair.ca)
    assert [len(context.get_ca_certs()), context.check_hostname, context.verify_mode] == [1, True, ssl.CERT_REQUIRED]
    assert verification.load_client_context(None).verify_mode == ssl.CERT_REQUIRED


def test_files_without_a_ca(tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_text("rubbish")
    for name, message in (("rubbish", "must contain CA certificates"), ("none", "cannot be read: No such file")):
        with pytest.raises(ConfigurationError, match=f"^{tmp_path / name}: {message}"):
            verification.load_client_context(tmp_path / name)

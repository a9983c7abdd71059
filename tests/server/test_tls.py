"""TLS contexts: the protocol versions and ciphers they support, and the files they reject."""

import socket
import ssl
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from webhooks import certificates
from webhooks.errors import ConfigurationError
from webhooks.server import tls
from webhooks.server.tls import TlsFiles

from ..support.mounts import Mount, invalid_secrets, secret
from ..support.pairs import GOOD, VALIDATE, assert_serves
from ..support.servers import Connection, Server, client_context, request, serving

# Python's event loops close the connection after a failed handshake, without the alert of OpenSSL.
REJECTED = (ssl.SSLError, ConnectionResetError, BrokenPipeError, EOFError)
AEAD = {
    f"ECDHE-{kind}-{cipher}"
    for kind in ("ECDSA", "RSA")
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
}
BAD = {
    "half a certificate": r"tls\.crt: the certificate or its key .*tls\.key is invalid",
    "half a key": r"tls\.crt: the certificate or its key .*tls\.key is invalid",
    "another key": r"tls\.crt: the certificate or its key .*tls\.key is invalid \(KEY_VALUES_MISMATCH\)",
    "a key with a password": r"tls\.crt: the certificate or its key .*tls\.key is invalid",
    "no certificate": r"tls\.crt: cannot be read: No such file or directory",
    "an expired certificate": r"tls\.crt: clients would reject the certificate: certificate has expired",
    "a certificate that is not yet valid": r"tls\.crt: clients would reject the certificate: .* is not yet valid",
    "a client certificate": r"tls\.crt: clients would reject the certificate: unsuitable certificate purpose",
}


def files(folder: Path, contents: dict[str, bytes], *, client_ca: bool = False) -> TlsFiles:
    folder = Mount(folder / "mount", contents).folder
    return TlsFiles(folder / "tls.crt", folder / "tls.key", client_ca=folder / "ca.crt" if client_ca else None)


@pytest.mark.parametrize("name", BAD)
def test_errors_name_the_file_and_the_problem(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=BAD[name]) as error:
        tls.load(files(tmp_path, invalid_secrets()[name]))
    assert "PRIVATE" not in str(error.value)


def rsa_secret() -> dict[str, bytes]:
    """A self-signed certificate with an RSA key and without a key usage, such as people create by hand."""
    key, now = rsa.generate_private_key(65537, 2048), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return {
        "tls.crt": certificate,
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
        "ca.crt": certificate,
    }


def negotiate(server: ssl.SSLContext, version: ssl.TLSVersion, ciphers: str = "ALL:@SECLEVEL=0") -> str | None:
    """Return the cipher of a handshake with a client of one version and some ciphers; None if it fails."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(ciphers)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server)
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, serving, client, serving):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            return None
    cipher = client.cipher()
    return cipher and cipher[0]


@pytest.fixture(params=[secret, rsa_secret], ids=["ECDSA", "RSA"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> TlsFiles:
    return files(tmp_path, request.param())


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [
        (ssl.TLSVersion.TLSv1, False),
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_versions(version: ssl.TLSVersion, is_supported: bool, served: TlsFiles) -> None:
    assert (negotiate(tls.load(served).context, version) is not None) is is_supported


def test_weak_ciphers_of_tls_1_2_are_rejected(served: TlsFiles) -> None:
    """Ciphers without forward secrecy, authenticated encryption or authentication are weak."""
    all_ciphers = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    all_ciphers.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    names = {cipher["name"] for cipher in all_ciphers.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert len(names) > 50
    context = tls.load(served).context
    supported = {name for name in names if negotiate(context, ssl.TLSVersion.TLSv1_2, f"{name}:@SECLEVEL=0")}
    assert supported
    assert supported <= AEAD


def test_client_certificates_require_tls_1_3(tmp_path: Path) -> None:
    context = tls.load(files(tmp_path, secret(), client_ca=True)).context
    assert negotiate(context, ssl.TLSVersion.TLSv1_2) is None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.num_tickets == 0


def test_the_first_expiry_of_several_cas_counts(tmp_path: Path) -> None:
    contents = secret()
    contents["ca.crt"] += secret(days_ago=100)["ca.crt"]
    expiry = tls.load(files(tmp_path, contents, client_ca=True)).expiry
    now = datetime.now(UTC).timestamp()
    days = {name: (seconds - now) / 86_400 for name, seconds in expiry.items()}
    assert days == {"serving": pytest.approx(365, abs=0.01), "client_ca": pytest.approx(3550, abs=0.01)}


# A server.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a serving pair and a client pair."""
    folder = tmp_path_factory.mktemp("issued")
    certificates.issue(folder, names=["127.0.0.1"])
    certificates.issue_client(folder, "apiserver")
    return folder


def offer(version: ssl.TLSVersion) -> ssl.SSLContext:
    """A client that supports only one version of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_supported_versions(version: ssl.TLSVersion, server: Server) -> None:
    with server.connect(offer(version)) as connection:
        assert_serves(connection)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_rejected(version: ssl.TLSVersion, server: Server) -> None:
    with pytest.raises(REJECTED):
        server.connect(offer(version))


def test_a_weak_cipher_is_rejected(server: Server) -> None:
    context = offer(ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("AES128-SHA:@SECLEVEL=0")
    with pytest.raises(REJECTED):
        server.connect(context)


@pytest.mark.parametrize("data", [request("GET", "/livez", headers={}), b"\0" * 100, b"\x16\x03\x01\xff\xff"])
def test_data_that_is_not_tls_is_harmless(data: bytes, server: Server) -> None:
    with Connection(server.port, None) as plain:
        plain.send(data)
        plain.socket.shutdown(socket.SHUT_WR)
        while plain.socket.recv(4096):
            pass
    with server.connect() as connection:
        assert_serves(connection)


def count_reviews(server: Server) -> float:
    samples = server.get("/metrics", ops=True).body.decode().splitlines()
    return sum(float(sample.split()[-1]) for sample in samples if sample.startswith("webhooks_reviews_total"))


def test_clients_need_a_certificate_of_the_client_ca(issued: Path, tmp_path: Path) -> None:
    foreign = certificates.issue_client(tmp_path / "foreign", "apiserver")
    with serving(tmp_path, "--client-ca", issued / "ca.pem") as server:
        ca = server.folder / "certs" / "ca.pem"
        trusted = (issued / "apiserver.pem", issued / "apiserver-key.pem")
        old = offer(ssl.TLSVersion.TLSv1_2)
        old.load_cert_chain(*trusted)
        untrusted = {
            "no certificate": client_context(ca),
            "a certificate of another CA": client_context(ca, (foreign.certificate, foreign.key)),
            "a certificate for servers": client_context(ca, (issued / "tls.pem", issued / "tls-key.pem")),
            "TLS 1.2, whose sessions could be resumed after the CA was removed": old,
        }
        for name, context in untrusted.items():
            with pytest.raises(REJECTED), server.connect(context) as connection:
                pytest.fail(f"{name}: {connection.post(VALIDATE, GOOD)}")
        assert count_reviews(server) == 0
        with server.connect(client_context(ca, trusted)) as connection:
            assert_serves(connection)
        assert count_reviews(server) == 1


def test_sessions_are_not_resumed(server: Server) -> None:
    """A resumed session would remain valid after the CA of its client was removed."""
    with server.connect() as first:
        assert_serves(first)
        session = first.socket.session
    assert session is None or not session.has_ticket

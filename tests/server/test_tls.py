"""Contexts of files: what they speak, and what they refuse to be made of."""

import ssl
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from webhooks.errors import ConfigurationError
from webhooks.server import tls
from webhooks.server.tls import Files

from ..support.mounts import Mount, invalid_secrets, secret

AEAD = {
    f"ECDHE-{kind}-{cipher}"
    for kind in ("ECDSA", "RSA")
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
}
BAD = {
    "half a certificate": r"tls\.crt: with its key .*tls\.key, no usable certificate",
    "half a key": r"tls\.crt: with its key .*tls\.key, no usable certificate",
    "another key": r"tls\.crt: with its key .*tls\.key, no usable certificate \(KEY_VALUES_MISMATCH\)",
    "a key with a password": r"tls\.crt: with its key .*tls\.key, no usable certificate",
    "no certificate": r"tls\.crt: cannot be read: No such file or directory",
    "an expired certificate": r"tls\.crt: callers would refuse it: certificate has expired",
    "a certificate that is not yet valid": r"tls\.crt: callers would refuse it: certificate is not yet valid",
    "a client certificate": r"tls\.crt: callers would refuse it: unsuitable certificate purpose",
}


def files(folder: Path, contents: dict[str, bytes], *, client_ca: bool = False) -> Files:
    at = Mount(folder / "mount", contents).folder
    return Files(at / "tls.crt", at / "tls.key", client_ca=at / "ca.crt" if client_ca else None)


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_said_with_its_place(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=BAD[name]) as error:
        tls.fresh(files(tmp_path, invalid_secrets()[name]))
    assert "PRIVATE" not in str(error.value)


def rsa_secret() -> dict[str, bytes]:
    """A self-signed certificate with an RSA key, as people make them by hand: it says nothing of what it is for."""
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


def speaks(server: ssl.SSLContext, version: ssl.TLSVersion, ciphers: str = "ALL:@SECLEVEL=0") -> str | None:
    """The cipher of a handshake with a caller that speaks this version with these ciphers alone; None for a refusal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(ciphers)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(down, up)
    serving = server.wrap_bio(up, down, server_side=True)
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
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return files(tmp_path, request.param())


@pytest.mark.parametrize(
    ("version", "spoken"),
    [
        (ssl.TLSVersion.TLSv1, False),
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_versions(version: ssl.TLSVersion, spoken: bool, served: Files) -> None:
    assert (speaks(tls.fresh(served).context, version) is not None) is spoken


def test_every_weak_cipher_of_tls_1_2_is_refused(served: Files) -> None:
    """Those without forward secrecy, without authenticated encryption, or without authentication at all."""
    every = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    every.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    names = {cipher["name"] for cipher in every.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert len(names) > 50
    context = tls.fresh(served).context
    spoken = {name for name in names if speaks(context, ssl.TLSVersion.TLSv1_2, f"{name}:@SECLEVEL=0") is not None}
    assert spoken
    assert spoken <= AEAD


def test_where_callers_show_certificates_tls_1_3_is_asked_for(tmp_path: Path) -> None:
    context = tls.fresh(files(tmp_path, secret(), client_ca=True)).context
    assert speaks(context, ssl.TLSVersion.TLSv1_2) is None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.num_tickets == 0


def test_of_several_authorities_the_first_that_ends_counts(tmp_path: Path) -> None:
    contents = secret()
    contents["ca.crt"] += secret(days_ago=100)["ca.crt"]
    ends = tls.fresh(files(tmp_path, contents, client_ca=True)).ends
    left = {name: end - datetime.now(UTC).timestamp() for name, end in ends.items()}
    assert left == {"serving": pytest.approx(365 * 86400, abs=60), "client_ca": pytest.approx(3550 * 86400, abs=60)}

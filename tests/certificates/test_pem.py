"""Certificates and keys in PEM files."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)

from webhooks.certificates import pem, signing
from webhooks.errors import ConfigurationError


def encode(key: PrivateKeyTypes, encryption: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def test_certificates_and_keys_are_read_as_written(tmp_path: Path) -> None:
    cas = [signing.create_ca(datetime.now(UTC)) for _ in range(2)]
    pem.write_certificates(tmp_path / "ca.pem", [ca.certificate for ca in cas])
    pem.write_key(tmp_path / "key.pem", cas[0].key)
    assert pem.read_certificates(tmp_path / "ca.pem") == [ca.certificate for ca in cas]
    key = pem.read_key(tmp_path / "key.pem")
    assert key is not None
    assert key.public_key() == cas[0].key.public_key()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"ca.pem": 0o644, "key.pem": 0o600}


def test_missing_files(tmp_path: Path) -> None:
    assert pem.read_certificates(tmp_path / "none.pem") == []
    assert pem.read_key(tmp_path / "none.pem") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"rubbish",
        encode(ec.generate_private_key(ec.SECP256R1()), BestAvailableEncryption(b"secret")),
        encode(ed25519.Ed25519PrivateKey.generate(), NoEncryption()),
    ],
    ids=["empty", "rubbish", "encrypted", "Ed25519"],
)
def test_other_contents(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.pem"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"^{path}: not a certificate in PEM form: restore the right file"):
        pem.read_certificates(path)
    with pytest.raises(ConfigurationError, match=f"^{path}: not an EC key in PEM form without a password: restore"):
        pem.read_key(path)

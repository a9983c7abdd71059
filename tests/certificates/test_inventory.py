"""Certificates and keys that are found in files and folders."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from webhooks.certificates import issue, issue_client
from webhooks.certificates.inventory import Inventory

from ..support.certificates import foreign_ca, to_pem


def test_the_certificates_of_a_folder(tmp_path: Path) -> None:
    issue(tmp_path, names=["localhost", "::1"])
    issue_client(tmp_path, "jane")
    (tmp_path / "notes.txt").write_text("ignored")
    inventory = Inventory.from_paths([tmp_path])
    assert inventory.errors == []
    ca, jane, tls = inventory.entries
    assert [entry.path.name for entry in inventory.entries] == ["ca.pem", "jane.pem", "tls.pem"]
    assert [entry.key_path and entry.key_path.name for entry in inventory.entries] == [
        "ca-key.pem",
        "jane-key.pem",
        "tls-key.pem",
    ]
    assert (tls.subject, tls.names, tls.issuer) == ("webhooks", ["localhost", "::1"], ca.subject)
    assert (jane.subject, jane.names, jane.key_type) == ("jane", [], "ECDSA P-256")
    assert (tls.not_after - datetime.now(UTC)).days == 364
    assert len(tls.fingerprint) == 95


def test_a_key_file_next_to_the_certificate(tmp_path: Path) -> None:
    pair = issue_client(tmp_path, "jane")
    [entry] = Inventory.from_paths([pair.certificate]).entries
    assert entry.key_path == pair.key
    pair.key.unlink()
    [entry] = Inventory.from_paths([pair.certificate]).entries
    assert entry.key_path is None


def test_a_certificate_with_its_key_in_one_file(tmp_path: Path) -> None:
    certificate, key = foreign_ca()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "both.pem").write_bytes(to_pem(certificate) + pem)
    [entry] = Inventory.from_paths([tmp_path / "both.pem"]).entries
    assert entry.key_path == tmp_path / "both.pem"


def test_errors_do_not_hide_the_other_files(tmp_path: Path) -> None:
    issue(tmp_path, names=["localhost"])
    (tmp_path / "half.pem").write_bytes((tmp_path / "tls.pem").read_bytes()[:200])
    inventory = Inventory.from_paths([tmp_path, tmp_path / "none.pem"])
    assert [entry.path.name for entry in inventory.entries] == ["ca.pem", "tls.pem"]
    assert inventory.errors == [
        f"{tmp_path}/half.pem: not a certificate in PEM form",
        f"{tmp_path}/none.pem: no such file or folder",
    ]


def test_keys_of_other_types(tmp_path: Path) -> None:
    for name, key in (("rsa", rsa.generate_private_key(65537, 2048)), ("ec", ec.generate_private_key(ec.SECP384R1()))):
        content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{name}.key").write_bytes(content)
    inventory = Inventory.from_paths([tmp_path])
    assert (inventory.entries, inventory.errors) == ([], [])

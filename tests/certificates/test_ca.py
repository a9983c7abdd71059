"""The CA of a directory: created, rotated, and never replaced while clients trust it."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from webhooks.certificates import issue, issue_client, pem, signing
from webhooks.certificates.ca import ensure_ca, store_ca
from webhooks.errors import ConfigurationError

from ..support.certificates import changed, contents, foreign_ca, read_all

NOW = datetime.now(UTC).replace(microsecond=0)
YEAR = timedelta(days=365)


def test_a_ca_is_created_and_kept(tmp_path: Path) -> None:
    ca = ensure_ca(tmp_path, NOW)
    before = contents(tmp_path)
    assert sorted(before) == ["ca-key.pem", "ca.pem"]
    assert ensure_ca(tmp_path, NOW + 6 * YEAR).certificate == ca.certificate
    assert changed(before, tmp_path) == set()


def test_a_ca_is_rotated_after_two_thirds_of_its_lifetime(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issue(tmp_path, names=["localhost"], now=NOW)
    client = issue_client(tmp_path, "client", now=NOW + 6.5 * YEAR)
    [old] = read_all(tmp_path / "ca.pem")
    now = NOW + 7 * YEAR
    issue(tmp_path, names=["localhost"], now=now)
    new, kept = read_all(tmp_path / "ca.pem")
    assert kept == old
    assert new.subject != old.subject
    assert new.not_valid_after_utc - now == 10 * YEAR
    key = load_pem_private_key((tmp_path / "ca-key.pem").read_bytes(), None)
    assert key.public_key() == new.public_key()
    certificate, cross = read_all(tmp_path / "tls.pem")
    assert (cross.subject, cross.issuer) == (new.subject, old.subject)
    certificate.verify_directly_issued_by(new)
    read_all(client.certificate)[0].verify_directly_issued_by(old)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith(f"before the old CA expires on {old.not_valid_after_utc:%F}")


def test_an_expired_ca_is_removed_from_the_bundle(tmp_path: Path) -> None:
    old = signing.create_ca(NOW)
    new = store_ca(tmp_path, signing.rotate_ca(old, NOW + 7 * YEAR))
    assert ensure_ca(tmp_path, NOW + 9 * YEAR).trusted == (new.certificate, old.certificate)
    ensure_ca(tmp_path, NOW + 11 * YEAR)
    assert read_all(tmp_path / "ca.pem") == [new.certificate]


def test_after_a_crash_during_a_rotation_the_old_ca_signs(tmp_path: Path) -> None:
    old = store_ca(tmp_path, signing.create_ca(NOW))
    new = signing.rotate_ca(old, NOW)
    pem.write_certificates(tmp_path / "ca-cross.pem", new.cross)
    pem.write_certificates(tmp_path / "ca.pem", new.trusted)
    ca = ensure_ca(tmp_path, NOW)
    assert (ca.certificate, ca.cross) == (old.certificate, ())


@pytest.mark.parametrize("remains", ["ca.pem", "ca-key.pem", "tls.pem", "tls-key.pem"])
def test_no_ca_is_created_next_to_the_remains_of_another(tmp_path: Path, remains: str) -> None:
    issue(tmp_path / "old", names=["localhost"])
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / remains).rename(tmp_path / "new" / remains)
    with pytest.raises(ConfigurationError, match=rf"remove {remains}, and distribute"):
        ensure_ca(tmp_path / "new", NOW)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [remains]


def test_a_foreign_ca_signs_nothing(tmp_path: Path) -> None:
    certificate, key = foreign_ca()
    pem.write_certificates(tmp_path / "ca.pem", [certificate])
    pem.write_key(tmp_path / "ca-key.pem", key)
    with pytest.raises(ConfigurationError, match="not a CA that was created here"):
        ensure_ca(tmp_path, NOW)


def test_the_key_of_another_ca(tmp_path: Path) -> None:
    store_ca(tmp_path, signing.create_ca(NOW))
    pem.write_key(tmp_path / "ca-key.pem", signing.create_ca(NOW).key)
    with pytest.raises(ConfigurationError, match=r"ca-key\.pem: not the key of .*/ca\.pem: restore the right one"):
        ensure_ca(tmp_path, NOW)

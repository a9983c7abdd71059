"""CA bundles for API servers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from webhooks.certificates import ca_bundle, issue, signing
from webhooks.errors import ConfigurationError

YEAR = timedelta(days=365)


def create_ca(age: timedelta = timedelta()) -> x509.Certificate:
    return signing.create_ca(datetime.now(UTC) - age).certificate


def test_the_path_of_the_bundle(tmp_path: Path) -> None:
    assert ca_bundle.path_for(tmp_path, None) == tmp_path / "ca.pem"
    assert ca_bundle.path_for(tmp_path, Path("/tls/tls.crt")) == Path("/tls/ca.crt")


def test_a_merge_drops_expired_cas_and_duplicates() -> None:
    own, other, expired = create_ca(), create_ca(YEAR), create_ca(11 * YEAR)
    assert ca_bundle.merge([own], [expired, other, own, other]) == [own, other]


def test_a_merge_drops_the_oldest_cas_beyond_the_limit() -> None:
    own = create_ca()
    others = [create_ca(timedelta(days=age)) for age in range(1, 12)]
    assert ca_bundle.merge([own], reversed(others)) == [own, *others[: ca_bundle.MAX_CAS - 1]]


def test_expired_cas_are_not_read(tmp_path: Path) -> None:
    own, expired = create_ca(), create_ca(11 * YEAR)
    path = tmp_path / "ca.pem"
    path.write_bytes(ca_bundle.to_pem([expired, own]))
    assert ca_bundle.read(path) == [own]
    path.write_bytes(ca_bundle.to_pem([expired]))
    with pytest.raises(ConfigurationError, match="all CAs in it have expired"):
        ca_bundle.read(path)


@pytest.mark.parametrize(("name", "message"), [("tls.pem", "is not a CA certificate"), ("none.pem", "no such file")])
def test_invalid_files(tmp_path: Path, name: str, message: str) -> None:
    issue(tmp_path, names=["localhost"])
    with pytest.raises(ConfigurationError, match=message):
        ca_bundle.read(tmp_path / name)

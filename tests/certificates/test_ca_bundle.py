"""Bundles of authorities."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webhooks.certificates import ca_bundle, issue, signing
from webhooks.errors import ConfigurationError

YEARS = timedelta(days=365)


def authority(age: timedelta = timedelta()) -> signing.Authority:
    return signing.first(datetime.now(UTC) - age)


def test_it_is_found_among_our_own_files_or_beside_others(tmp_path: Path) -> None:
    assert ca_bundle.of(tmp_path, None) == tmp_path / "ca.pem"
    assert ca_bundle.of(tmp_path, Path("/tls/tls.crt")) == Path("/tls/ca.crt")


def test_ours_come_first_then_others_that_last() -> None:
    own, other, ended = authority().certificate, authority(YEARS).certificate, authority(11 * YEARS).certificate
    assert ca_bundle.joined([own], [ended, other, own, other]) == [own, other]


def test_of_too_many_the_oldest_go() -> None:
    own = authority().certificate
    others = [authority(timedelta(days=age)).certificate for age in range(1, 12)]
    assert ca_bundle.joined([own], reversed(others)) == [own, *others[: ca_bundle.MOST - 1]]


def test_what_is_read_is_what_lasts(tmp_path: Path) -> None:
    own, ended = authority().certificate, authority(11 * YEARS).certificate
    file = tmp_path / "ca.pem"
    file.write_bytes(ca_bundle.written([ended, own]))
    assert ca_bundle.read(file) == [own]
    file.write_bytes(ca_bundle.written([ended]))
    with pytest.raises(ConfigurationError, match="all authorities in it have ended"):
        ca_bundle.read(file)


@pytest.mark.parametrize(("name", "says"), [("tls.pem", "is no authority"), ("none.pem", "no such file")])
def test_what_is_no_bundle(tmp_path: Path, name: str, says: str) -> None:
    issue(tmp_path, names=["localhost"])
    with pytest.raises(ConfigurationError, match=says):
        ca_bundle.read(tmp_path / name)

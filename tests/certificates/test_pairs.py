"""Pairs of certificates and keys: which are valid, and which may be replaced."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import pytest

from webhooks.certificates import ServingPair, issue, issue_client, pairs, signing
from webhooks.certificates.ca import ensure_ca
from webhooks.certificates.pairs import ValidPair
from webhooks.errors import ConfigurationError

from ..support.certificates import foreign_ca, to_pem

NOW = datetime.now(UTC)
YEAR = timedelta(days=365)
NAMES = ["localhost", "::1"]


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certs")
    issue(directory, names=NAMES, now=NOW)
    issue(directory.with_name("other"), names=NAMES, now=NOW)
    return directory


@pytest.fixture
def pair(issued: Path, tmp_path: Path) -> ServingPair:
    return ServingPair.from_directory(copytree(issued, tmp_path / "certs"))


@pytest.mark.parametrize("names", [(), ["localhost"], NAMES])
def test_a_valid_pair(pair: ServingPair, names: list[str]) -> None:
    valid_pair = ValidPair.load(pair, names)
    assert valid_pair is not None
    times = [NOW - timedelta(hours=2), NOW, NOW + YEAR * 2 / 3, NOW + YEAR]
    assert [valid_pair.is_valid(time) for time in times] == [False, True, True, False]
    assert [valid_pair.is_renewal_due(time) for time in times] == [False, False, True, True]


def test_a_pair_without_a_required_name(pair: ServingPair) -> None:
    assert ValidPair.load(pair, ["localhost", "example.org"]) is None


def other_key(pair: ServingPair, other: ServingPair) -> None:
    pair.key.write_bytes(other.key.read_bytes())


def other_ca(pair: ServingPair, other: ServingPair) -> None:
    pair.ca.write_bytes(other.ca.read_bytes())


def missing_file(pair: ServingPair, other: ServingPair) -> None:
    pair.ca.unlink()


def client_certificate(pair: ServingPair, other: ServingPair) -> None:
    pairs.write(pair, *signing.sign_client(ensure_ca(pair.ca.parent, NOW), "localhost", NOW))


@pytest.mark.parametrize("change", [other_key, other_ca, missing_file, client_certificate])
def test_invalid_pairs(pair: ServingPair, issued: Path, change: Callable[[ServingPair, ServingPair], None]) -> None:
    change(pair, ServingPair.from_directory(issued.with_name("other")))
    assert ValidPair.load(pair) is None


def test_an_expired_ca_in_the_bundle_makes_a_renewal_due(pair: ServingPair) -> None:
    expired = signing.create_ca(NOW - 11 * YEAR)
    pair.ca.write_bytes(pair.ca.read_bytes() + to_pem(expired.certificate))
    valid_pair = ValidPair.load(pair)
    assert valid_pair is not None
    assert valid_pair.is_renewal_due(NOW)


def test_our_certificate_is_replaceable(pair: ServingPair, tmp_path: Path) -> None:
    certificate = pairs.check_replaceable(pair)
    assert certificate is not None
    assert signing.list_names(certificate) == NAMES
    assert pairs.check_replaceable(ServingPair.from_directory(tmp_path / "empty")) is None


def test_a_foreign_certificate_is_not_replaceable(pair: ServingPair) -> None:
    pair.certificate.write_bytes(to_pem(foreign_ca()[0]))
    with pytest.raises(ConfigurationError, match=r"tls\.pem: not issued here, so it is not replaced"):
        pairs.check_replaceable(pair)


def test_a_key_without_its_certificate_is_not_replaceable(tmp_path: Path) -> None:
    pair = issue_client(tmp_path, "jane")
    pair.certificate.unlink()
    with pytest.raises(ConfigurationError, match=r"jane-key\.pem: a key without its certificate jane\.pem, .*"):
        pairs.check_replaceable(pair)

"""Renewal: in time, by an authority that callers know, and of what was issued here alone."""

import logging
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from webhooks.certificates import Renewal, issue, issue_client, renew, storage, verification
from webhooks.certificates.names import normal
from webhooks.errors import ConfigurationError

NAMES = ["webhooks.default.svc", "127.0.0.1"]
NOW = datetime.now(UTC).replace(microsecond=0)
YEAR = timedelta(days=365)
HOUR = timedelta(hours=1)


def read(path: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(path.read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def accepts(trusted: Sequence[x509.Certificate], directory: Path, now: datetime) -> bool:
    """Whether a caller who trusts these accepts what the server of the directory shows at that time."""
    certificate, *chain = read(directory / "tls.pem")
    verifier = PolicyBuilder().store(Store(trusted)).time(now).build_server_verifier(x509.DNSName(NAMES[0]))
    try:
        verifier.verify(certificate, chain)
    except VerificationError:
        return False
    return True


def test_for_forty_years_whoever_knows_an_authority_that_lasts_trusts_the_server(tmp_path: Path) -> None:
    """Each caller knows one authority alone, from the day on that it was first told of, until it ends."""
    issue(tmp_path, names=NAMES, now=NOW)
    known: dict[bytes, x509.Certificate] = {}
    renewed = 0
    for days in range(0, 40 * 365, 40):
        now = NOW + timedelta(days=days)
        renewed += renew(tmp_path, now=now)
        bundle = read(tmp_path / "ca.pem")
        known |= {authority.public_bytes(Encoding.DER): authority for authority in bundle}
        lasting = [authority for authority in known.values() if authority.not_valid_after_utc > now]
        assert set(bundle) == set(lasting)
        assert len(lasting) in (1, 2)
        for authority in lasting:
            assert accepts([authority], tmp_path, now), (days, authority.subject)
        assert accepts(lasting, tmp_path, now)
        assert read(tmp_path / "tls.pem")[0].not_valid_after_utc - now > YEAR / 4
    assert len(known) == 6
    assert 50 < renewed < 80
    assert names_in(tmp_path) == NAMES


@pytest.mark.parametrize(
    ("passed", "due"),
    [
        (timedelta(), False),
        (YEAR * 2 / 3 - HOUR, False),
        (YEAR * 2 / 3, True),
        (YEAR - HOUR, True),
        (YEAR + HOUR, True),
        (4 * YEAR, True),
        (12 * YEAR, True),
    ],
)
def test_a_certificate_is_renewed_when_two_thirds_of_its_life_are_over(
    tmp_path: Path, passed: timedelta, due: bool
) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    before = contents(tmp_path)
    assert renew(tmp_path, now=NOW + passed) is due
    assert (contents(tmp_path) != before) is due
    if due:
        assert accepts(read(tmp_path / "ca.pem"), tmp_path, NOW + passed)
        assert not renew(tmp_path, now=NOW + passed)
        assert (tmp_path / "ca.pem").read_bytes() == before["ca.pem"] or passed > 6 * YEAR
        assert names_in(tmp_path) == NAMES


def names_in(directory: Path) -> list[str]:
    names = read(directory / "tls.pem")[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return normal([*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))])


def test_an_authority_follows_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    client = issue_client(tmp_path, "client", now=NOW + 6.5 * YEAR)
    [old] = read(tmp_path / "ca.pem")
    now = NOW + 7 * YEAR
    issue(tmp_path, names=NAMES, now=now)
    new, kept = read(tmp_path / "ca.pem")
    assert kept == old
    assert new.subject != old.subject
    assert new.not_valid_after_utc - now == 10 * YEAR
    key = load_pem_private_key((tmp_path / "ca-key.pem").read_bytes(), None)
    assert key.public_key() == new.public_key()
    certificate, cross = read(tmp_path / "tls.pem")
    assert (cross.subject, cross.issuer) == (new.subject, old.subject)
    assert cross.not_valid_after_utc == old.not_valid_after_utc
    certificate.verify_directly_issued_by(new)
    read(client.certificate)[0].verify_directly_issued_by(old)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith(f"need it by {old.not_valid_after_utc:%F}")


@pytest.mark.parametrize("knows", [[0], [1], [0, 1]], ids=["new", "old", "both"])
def test_a_handshake_with_a_caller_who_knows_an_authority(tmp_path: Path, knows: list[int]) -> None:
    issue(tmp_path, names=NAMES, now=NOW - 7 * YEAR)
    pair = issue(tmp_path, names=NAMES, now=NOW)
    authorities = read(pair.ca)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    client = verification.client_context(ssl.VERIFY_X509_STRICT)
    client.load_verify_locations(cadata=b"".join(authorities[each].public_bytes(Encoding.DER) for each in knows))
    assert verification.shown(server, client)["subjectAltName"][0] == ("DNS", NAMES[0])


def test_a_callers_certificate_makes_the_authority_follow_too(tmp_path: Path) -> None:
    """The server's, signed by the one before, is good still; and those who know one authority alone trust the next."""
    issue(tmp_path, names=NAMES, now=NOW + 0 * YEAR)
    [old] = read(tmp_path / "ca.pem")
    issue(tmp_path, names=NAMES, now=NOW + 6.6 * YEAR)
    now = NOW + 6.7 * YEAR
    issue_client(tmp_path, "client", now=now)
    new = read(tmp_path / "ca.pem")[0]
    assert new != old
    assert accepts([old], tmp_path, now)
    assert accepts([new, old], tmp_path, now)
    assert renew(tmp_path, now=NOW + 7.5 * YEAR)
    assert all(accepts([each], tmp_path, NOW + 7.5 * YEAR) for each in (old, new))


class Stopped(Exception):
    """The process ends here."""


@pytest.mark.parametrize("writes", range(6))
@pytest.mark.parametrize("years", [0.7, 7])
def test_a_renewal_that_is_stopped_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: float, writes: int
) -> None:
    """Whatever has been written by then, callers who know the authority from before still trust what comes after."""
    issue(tmp_path, names=NAMES, now=NOW)
    [old] = read(tmp_path / "ca.pem")
    now = NOW + years * YEAR
    write, written = storage.write, []

    def stops(path: Path, content: bytes, mode: int) -> None:
        if len(written) == writes:
            raise Stopped
        write(path, content, mode)
        written.append(path.name)

    monkeypatch.setattr(storage, "write", stops)
    with suppress(Stopped):
        renew(tmp_path, now=now)
    monkeypatch.undo()
    issue(tmp_path, names=NAMES, now=now)
    assert accepts([old], tmp_path, now)
    assert accepts(read(tmp_path / "ca.pem")[:1], tmp_path, now)
    assert not renew(tmp_path, now=now)


def lost(name: str):
    def losing(directory: Path) -> None:
        (directory / name).unlink()

    return losing


def garbled(name: str):
    def garbling(directory: Path) -> None:
        (directory / name).write_bytes((directory / name).read_bytes()[:100])

    return garbling


@pytest.mark.parametrize(
    "spoil", [lost("ca.pem"), lost("tls.pem"), lost("tls-key.pem"), garbled("tls.pem"), garbled("tls-key.pem")]
)
def test_what_is_not_as_it_should_be_is_left_alone(tmp_path: Path, spoil) -> None:
    """Somebody may be at it; the server serves what it has."""
    issue(tmp_path, names=NAMES, now=NOW)
    spoil(tmp_path)
    before = contents(tmp_path)
    assert not renew(tmp_path, now=NOW + 0.9 * YEAR)
    assert contents(tmp_path) == before


def test_without_the_authoritys_key_nothing_is_renewed(tmp_path: Path) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca-key.pem").unlink()
    before = contents(tmp_path)
    with pytest.raises(ConfigurationError, match=r"ca-key\.pem .* is missing"):
        renew(tmp_path, now=NOW + 0.7 * YEAR)
    assert contents(tmp_path) == before


def test_what_keeps_it_from_being_renewed_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    issue(tmp_path, names=NAMES, now=datetime.now(UTC) - 0.7 * YEAR)
    key = (tmp_path / "ca-key.pem").read_bytes()
    (tmp_path / "ca-key.pem").unlink()
    renewal = Renewal(tmp_path)
    for _ in range(3):
        renewal.attempt()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "cannot be renewed" in record.getMessage()
    (tmp_path / "ca-key.pem").write_bytes(key)
    renewal.attempt()
    renewal.attempt()
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.INFO]


def test_of_many_that_renew_at_once_one_does(tmp_path: Path) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: renew(tmp_path, now=NOW + 0.7 * YEAR), range(8))) == [False] * 7 + [True]

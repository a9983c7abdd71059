"""Renewals: in time, accepted by every client of a CA that is still valid, and only of our own files."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from webhooks.certificates import issue, issue_client, renew, storage
from webhooks.certificates.names import normalize
from webhooks.errors import ConfigurationError

from ..support import certificates
from ..support.certificates import contents, read_all, server_names

NAMES = ["webhooks.default.svc", "127.0.0.1"]
NOW = datetime.now(UTC).replace(microsecond=0)
YEAR = timedelta(days=365)
HOUR = timedelta(hours=1)


def accepts(trusted: list[x509.Certificate], directory: Path, now: datetime) -> bool:
    return certificates.accepts(trusted, directory, NAMES[0], now)


def test_for_forty_years_each_valid_ca_is_enough_to_accept_the_server(tmp_path: Path) -> None:
    """Each client trusts a single CA, from its first day until it expires."""
    issue(tmp_path, names=NAMES, now=NOW)
    known: set[x509.Certificate] = set()
    renewed = 0
    for days in range(0, 40 * 365, 40):
        now = NOW + timedelta(days=days)
        renewed += renew(tmp_path, now=now)
        bundle = read_all(tmp_path / "ca.pem")
        known |= set(bundle)
        valid = [ca for ca in known if ca.not_valid_after_utc > now]
        assert set(bundle) == set(valid)
        assert len(valid) in (1, 2)
        for ca in valid:
            assert accepts([ca], tmp_path, now), (days, ca.subject)
        assert accepts(valid, tmp_path, now)
        assert read_all(tmp_path / "tls.pem")[0].not_valid_after_utc - now > YEAR / 4
    assert len(known) == 6
    assert 50 < renewed < 80
    assert normalize(server_names(tmp_path)) == NAMES


@pytest.mark.parametrize(
    ("age", "is_due"),
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
def test_a_certificate_is_renewed_after_two_thirds_of_its_lifetime(
    tmp_path: Path, age: timedelta, is_due: bool
) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    before = contents(tmp_path)
    assert renew(tmp_path, now=NOW + age) is is_due
    assert (contents(tmp_path) != before) is is_due
    if is_due:
        assert accepts(read_all(tmp_path / "ca.pem"), tmp_path, NOW + age)
        assert not renew(tmp_path, now=NOW + age)
        assert (tmp_path / "ca.pem").read_bytes() == before["ca.pem"] or age > 6 * YEAR
        assert normalize(server_names(tmp_path)) == NAMES


def test_a_client_certificate_rotates_the_ca_too(tmp_path: Path) -> None:
    """The serving certificate of the previous CA stays valid; clients of either CA accept the next one."""
    issue(tmp_path, names=NAMES, now=NOW + 0 * YEAR)
    [old] = read_all(tmp_path / "ca.pem")
    issue(tmp_path, names=NAMES, now=NOW + 6.6 * YEAR)
    now = NOW + 6.7 * YEAR
    issue_client(tmp_path, "client", now=now)
    new = read_all(tmp_path / "ca.pem")[0]
    assert new != old
    assert accepts([old], tmp_path, now)
    assert accepts([new, old], tmp_path, now)
    assert renew(tmp_path, now=NOW + 7.5 * YEAR)
    assert all(accepts([ca], tmp_path, NOW + 7.5 * YEAR) for ca in (old, new))


class Crash(Exception):
    """The process ends here."""


@pytest.mark.parametrize("writes", range(6))
@pytest.mark.parametrize("years", [0.7, 7])
def test_a_renewal_continues_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: float, writes: int
) -> None:
    """At every point of the crash, clients of the previous CA accept the next certificate."""
    issue(tmp_path, names=NAMES, now=NOW)
    [old] = read_all(tmp_path / "ca.pem")
    now = NOW + years * YEAR
    write, paths = storage.write, []

    def write_or_crash(path: Path, content: bytes, mode: int) -> None:
        if len(paths) == writes:
            raise Crash
        write(path, content, mode)
        paths.append(path)

    monkeypatch.setattr(storage, "write", write_or_crash)
    with suppress(Crash):
        renew(tmp_path, now=now)
    monkeypatch.undo()
    issue(tmp_path, names=NAMES, now=now)
    assert accepts([old], tmp_path, now)
    assert accepts(read_all(tmp_path / "ca.pem")[:1], tmp_path, now)
    assert not renew(tmp_path, now=now)


def remove(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def truncate(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).write_bytes((directory / name).read_bytes()[:100])


@pytest.mark.parametrize(
    "change", [remove("ca.pem"), remove("tls.pem"), remove("tls-key.pem"), truncate("tls.pem"), truncate("tls-key.pem")]
)
def test_an_invalid_pair_is_not_changed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """Another program may be about to replace it; the server serves the pair that it has loaded."""
    issue(tmp_path, names=NAMES, now=NOW)
    change(tmp_path)
    before = contents(tmp_path)
    assert not renew(tmp_path, now=NOW + 0.9 * YEAR)
    assert contents(tmp_path) == before


def test_without_the_key_of_the_ca_nothing_is_renewed(tmp_path: Path) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    (tmp_path / "ca-key.pem").unlink()
    before = contents(tmp_path)
    with pytest.raises(ConfigurationError, match=r"without ca-key\.pem"):
        renew(tmp_path, now=NOW + 0.7 * YEAR)
    assert contents(tmp_path) == before


def test_of_concurrent_renewals_one_renews(tmp_path: Path) -> None:
    issue(tmp_path, names=NAMES, now=NOW)
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(lambda _: renew(tmp_path, now=NOW + 0.7 * YEAR), range(8))) == [False] * 7 + [True]

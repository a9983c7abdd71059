"""Certificates are issued, kept while they are usable, and never replace foreign files."""

import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import pytest

from webhooks import certificates
from webhooks.certificates import ServingPair, default_names, ensure, issue, issue_client, pem
from webhooks.errors import ConfigurationError

from ..support.certificates import changed, contents, contexts, foreign_ca, server_names, shake_hands, to_pem

NAMES = ["localhost", "127.0.0.1", "::1", "webhooks.default.svc"]
FILES = ["ca-key.pem", "ca.pem", "tls-key.pem", "tls.pem"]
SERVING = {"tls.pem", "tls-key.pem"}
Change = Callable[[Path], list[str]]
"""Changes a directory, and returns the names to request then."""


@pytest.fixture(scope="session")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("parent") / "certs"
    issue(directory, names=NAMES)
    return directory


@pytest.fixture
def directory(issued: Path, tmp_path: Path) -> Path:
    return copytree(issued, tmp_path / "certs")


def test_the_files(issued: Path) -> None:
    assert sorted(os.listdir(issued)) == FILES
    assert stat.S_IMODE(issued.stat().st_mode) == 0o700
    modes = {name: stat.S_IMODE((issued / name).stat().st_mode) for name in FILES}
    assert modes["ca-key.pem"] == modes["tls-key.pem"] == 0o600
    assert ensure(issued, names=NAMES) == ServingPair(issued / "ca.pem", issued / "tls.pem", issued / "tls-key.pem")


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_ca_accepts_the_server(issued: Path, name: str) -> None:
    server, client = contexts(ensure(issued, names=NAMES))
    shake_hands(server, client, name)


def test_a_client_rejects_other_names(issued: Path) -> None:
    server, client = contexts(ensure(issued, names=NAMES))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, client, "example.org")


@pytest.mark.parametrize("names", [NAMES, NAMES[:1], ["LOCALHOST"], ["0:0:0:0:0:0:0:1", "::1"]])
def test_a_usable_pair_is_kept(directory: Path, names: list[str]) -> None:
    before = contents(directory)
    ensure(directory, names=names)
    assert changed(before, directory) == set()


def test_a_usable_pair_needs_no_import_of_cryptography(issued: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from webhooks.certificates import ensure\n"
        "ensure(Path(sys.argv[1]), names=['localhost']); sys.exit('cryptography' in sys.modules)"
    )
    root = Path(certificates.__file__).parents[1]
    subprocess.run([sys.executable, "-c", program, str(issued)], check=True, cwd=root, timeout=30)


def add_name(directory: Path) -> list[str]:
    return [*NAMES, "other.example.org"]


def swap_key(directory: Path) -> list[str]:
    issue_client(directory, "other")
    (directory / "other-key.pem").replace(directory / "tls-key.pem")
    (directory / "other.pem").unlink()
    return NAMES


def remove(name: str) -> Change:
    def removing(directory: Path) -> list[str]:
        (directory / name).unlink()
        return NAMES

    removing.__name__ = f"remove_{name}"
    return removing


def make_due(directory: Path) -> list[str]:
    issue(directory, names=NAMES, now=datetime.now(UTC) - timedelta(days=244))
    return NAMES


def expire(directory: Path) -> list[str]:
    issue(directory, names=NAMES, now=datetime.now(UTC) - timedelta(days=366))
    return NAMES


def swap_ca(directory: Path) -> list[str]:
    other = directory.parent / "other"
    issue(other, names=NAMES)
    for name in ("ca.pem", "ca-key.pem"):
        (other / name).replace(directory / name)
    return NAMES


@pytest.mark.parametrize(
    "change",
    [
        add_name,
        swap_key,
        remove("tls-key.pem"),
        make_due,
        expire,
        swap_ca,
    ],
)
def test_an_unusable_pair_is_replaced(directory: Path, change: Change) -> None:
    names = change(directory)
    before = contents(directory)
    pair = ensure(directory, names=names)
    assert changed(before, directory) == SERVING
    server, client = contexts(pair)
    shake_hands(server, client, names[-1])
    assert ensure(directory, names=names) == pair
    assert changed(before, directory) == SERVING


def test_a_new_pair_keeps_the_names_of_the_previous_one(directory: Path) -> None:
    """A server that starts with other names does not break the names of a Service."""
    issue(directory, names=["webhooks.default.svc", "10.0.0.5"])
    ensure(directory, names=["other.example.org"])
    assert server_names(directory) == ["webhooks.default.svc", "other.example.org", "10.0.0.5"]


def test_the_first_pair_has_the_names_of_this_host(tmp_path: Path) -> None:
    ensure(tmp_path, names=["192.0.2.1"])
    assert set(server_names(tmp_path)) == {*default_names(), "192.0.2.1"}


def foreign_certificate(directory: Path) -> None:
    (directory / "tls.pem").write_bytes(to_pem(foreign_ca()[0]))


def use_foreign_ca(directory: Path) -> None:
    certificate, key = foreign_ca()
    pem.write_certificates(directory / "ca.pem", [certificate])
    pem.write_key(directory / "ca-key.pem", key)


def leaf_as_ca(directory: Path) -> None:
    (directory / "ca.pem").write_bytes((directory / "tls.pem").read_bytes())
    (directory / "ca-key.pem").write_bytes((directory / "tls-key.pem").read_bytes())


def key_of_another_ca(directory: Path) -> None:
    issue(directory.parent / "other", names=NAMES)
    (directory.parent / "other" / "ca-key.pem").replace(directory / "ca-key.pem")


def remove_ca(directory: Path) -> None:
    for name in ("ca.pem", "ca-key.pem"):
        (directory / name).unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (foreign_certificate, r"/tls\.pem: not issued here, so it is not replaced: choose another directory, "),
        (remove("tls.pem"), r"/tls-key\.pem: a key without its certificate tls\.pem, .*: remove it"),
        (use_foreign_ca, r"/ca\.pem: not a CA that was created here, .*: choose another directory"),
        (leaf_as_ca, r"/ca\.pem: not a CA that was created here, .*: choose another directory"),
        (key_of_another_ca, r"/ca-key\.pem: not the key of .*/ca\.pem: restore the right one"),
        (
            remove("ca-key.pem"),
            r": .* without ca-key\.pem .* remove ca\.pem, tls\.pem, tls-key\.pem, and distribute .*",
        ),
        (
            remove("ca.pem"),
            r": .* without ca\.pem .* remove ca-key\.pem, tls\.pem, tls-key\.pem, and distribute .*",
        ),
        (
            remove_ca,
            r": .* without ca\.pem and ca-key\.pem .* remove tls\.pem, tls-key\.pem, and distribute .*",
        ),
    ],
)
def test_foreign_files_and_the_ca_are_not_replaced(
    directory: Path, change: Callable[[Path], object], message: str
) -> None:
    change(directory)
    before = contents(directory)
    for issuing in (issue, lambda directory, names: ensure(directory, names=names)):
        with pytest.raises(ConfigurationError, match=message):
            issuing(directory, names=add_name(directory))
        assert changed(before, directory) == set()


def test_a_foreign_client_certificate_is_not_replaced(directory: Path) -> None:
    (directory / "jane.pem").write_bytes(to_pem(foreign_ca()[0]))
    (directory / "joe-key.pem").write_bytes((directory / "tls-key.pem").read_bytes())
    for name, message in (("jane", "not issued here"), ("joe", r"a key without its certificate joe\.pem")):
        with pytest.raises(ConfigurationError, match=message):
            issue_client(directory, name)


def test_a_usable_pair_needs_no_key_of_the_ca(directory: Path) -> None:
    """Moving the key of the CA elsewhere is recommended."""
    (directory / "ca-key.pem").unlink()
    before = contents(directory)
    assert ensure(directory, names=NAMES) == ServingPair.from_directory(directory)
    assert changed(before, directory) == set()


def test_a_valid_pair_that_cannot_be_renewed_is_used_with_a_warning(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_due(directory)
    (directory / "ca-key.pem").unlink()
    before = contents(directory)
    assert ensure(directory, names=NAMES) == ServingPair.from_directory(directory)
    assert changed(before, directory) == set()
    [record] = caplog.records
    assert "cannot be renewed: " in record.getMessage()
    assert "without ca-key.pem of the CA" in record.getMessage()


def test_issuing_keeps_the_ca(directory: Path) -> None:
    before = contents(directory)
    issue(directory, names=NAMES)
    assert changed(before, directory) == SERVING


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"rubbish", b"half"])
def test_a_corrupt_file_is_reported_and_kept(directory: Path, name: str, content: bytes) -> None:
    path = directory / name
    path.write_bytes(path.read_bytes()[:100] if content == b"half" else content)
    before = contents(directory)
    with pytest.raises(ConfigurationError, match="remove it") as error:
        ensure(directory, names=add_name(directory))
    assert str(error.value).startswith(f"{path}: ")
    assert changed(before, directory) == set()


@pytest.mark.parametrize("name", FILES)
def test_an_unreadable_file_is_reported(directory: Path, name: str) -> None:
    (directory / name).unlink()
    (directory / name).mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read") as error:
        ensure(directory, names=add_name(directory))
    assert str(error.value).startswith(f"{directory / name}: ")


def test_a_failed_write_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigurationError, match=r"ca\.pem: cannot be written: No space left on device"):
        issue(tmp_path, names=NAMES)
    assert list(tmp_path.iterdir()) == []


def test_concurrent_starts_use_one_pair(tmp_path: Path) -> None:
    directory = tmp_path / "certs"

    def start(_: int) -> bytes:
        return ensure(directory, names=NAMES).certificate.read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1
    assert sorted(os.listdir(directory)) == FILES


def test_a_client_certificate(directory: Path) -> None:
    before = contents(directory)
    pair = issue_client(directory, "system:apiserver")
    assert changed(before, directory) == {"system:apiserver.pem", "system:apiserver-key.pem"}
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
    server, client = contexts(ensure(directory, names=NAMES))
    server.load_verify_locations(directory / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client.load_cert_chain(pair.certificate, pair.key)
    shake_hands(server, client, "localhost")

"""Atomic writes in a locked directory."""

import os
import stat
from pathlib import Path
from threading import Event, Thread

import pytest

from webhooks.certificates import storage
from webhooks.errors import ConfigurationError


def test_a_file_is_read_if_present(tmp_path: Path) -> None:
    assert storage.read(tmp_path / "file") is None
    (tmp_path / "file").write_bytes(b"content")
    assert storage.read(tmp_path / "file") == b"content"


def test_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        storage.read(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}: cannot be read: Is a directory: make it readable to this user, or remove it"
    )


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    storage.write(tmp_path / "file.pem", b"before", 0o644)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigurationError, match=r"file\.pem: cannot be written: No space left on device: choose"):
        storage.write(tmp_path / "file.pem", b"after", 0o644)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file.pem": b"before"}


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_never_has_wider_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    modes: list[int] = []
    real = os.open

    def open_and_record(path, flags, mode=0o777, **more) -> int:
        assert flags & os.O_EXCL
        descriptor = real(path, flags, mode, **more)
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", open_and_record)
    before = os.umask(0)
    try:
        storage.write(tmp_path / "file.pem", b"content", mode)
    finally:
        os.umask(before)
    assert modes == [mode]
    assert stat.S_IMODE((tmp_path / "file.pem").stat().st_mode) == mode


def test_a_locked_directory_is_private_and_has_one_owner(tmp_path: Path) -> None:
    directory, entered = tmp_path / "parent" / "certs", Event()

    def enter() -> None:
        with storage.locked(directory):
            entered.set()

    with storage.locked(directory):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        thread = Thread(target=enter)
        thread.start()
        assert not entered.wait(0.1)
    thread.join(10)
    assert entered.is_set()


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "certs"):
        with (
            pytest.raises(ConfigurationError, match=f"^{directory}: cannot be written: .*: choose a directory"),
            storage.locked(directory),
        ):
            pass

"""Tests of file watching and of periodic threads."""

import logging
import os
import threading
from pathlib import Path

import pytest

from webhooks.errors import ConfigurationError
from webhooks.watch import FileWatcher, digest, run_periodically


class Number:
    """A watched file with a number. Other contents are invalid."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "number"
        self.file.write_text("1")
        self.loaded: list[int] = []
        self.errors: list[str] = []
        self.written_during_load = ""
        self.watcher = FileWatcher(
            lambda: [self.file], self.load, self.loaded.append, lambda error: self.errors.append(str(error))
        )

    def load(self) -> int:
        text = self.file.read_text()
        if self.written_during_load:
            self.file.write_text(self.written_during_load)
            self.written_during_load = ""
        if not text.isdigit():
            raise ConfigurationError(f"{text!r} is not a number")
        return int(text)

    def write(self, text: str, polls: int = 1) -> None:
        self.file.write_text(text)
        for _ in range(polls):
            self.watcher.poll()


@pytest.fixture
def number(tmp_path: Path) -> Number:
    return Number(tmp_path)


def test_unchanged_contents_are_not_loaded(number: Number) -> None:
    number.write("1", polls=3)
    assert (number.loaded, number.errors) == ([], [])


def test_a_change_is_loaded_once(number: Number) -> None:
    number.write("2", polls=3)
    number.write("3", polls=3)
    assert (number.loaded, number.errors) == ([2, 3], [])


@pytest.mark.parametrize("part", ["2", "half"])
def test_a_file_that_is_being_written_is_not_loaded(number: Number, part: str) -> None:
    """A part of the contents may be valid."""
    number.write(part)
    number.write("22")
    assert (number.loaded, number.errors) == ([], [])
    number.watcher.poll()
    assert (number.loaded, number.errors) == ([22], [])


def test_an_error_is_reported_once(number: Number) -> None:
    number.write("invalid", polls=4)
    assert (number.loaded, number.errors) == ([], ["'invalid' is not a number"])


def test_old_contents_are_loaded_again_after_an_error(number: Number) -> None:
    number.write("invalid", polls=2)
    number.write("1", polls=2)
    assert (number.loaded, len(number.errors)) == ([1], 1)


def test_a_change_during_loading_is_discarded(number: Number, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    number.write("2")
    number.written_during_load = "3"
    number.watcher.poll()
    assert number.loaded == []
    assert "changed while they were loaded" in caplog.text
    number.watcher.poll()
    number.watcher.poll()
    assert number.loaded == [3]


def test_old_contents_that_return_during_loading_are_loaded(number: Number) -> None:
    """Otherwise the user of the watcher would wait for a result forever."""
    number.write("2")
    number.written_during_load = "1"
    for _ in range(3):
        number.watcher.poll()
    assert number.loaded == [1]


@pytest.mark.parametrize("kind", ["none", "folder", "pipe", "loop"])
def test_paths_that_are_not_regular_files(number: Number, kind: str) -> None:
    """A pipe is not read, because that may never end. When there is a file again, it is loaded."""
    number.file.unlink()
    match kind:
        case "folder":
            number.file.mkdir()
        case "pipe":
            os.mkfifo(number.file)
        case "loop":
            number.file.symlink_to(number.file)
    number.watcher.poll()
    if kind == "folder":
        number.file.rmdir()
    else:
        number.file.unlink(missing_ok=True)
    number.write("2", polls=2)
    assert number.loaded == [2]


def test_paths_that_cannot_exist(number: Number) -> None:
    paths = [Path("a\0b")]
    watcher = FileWatcher(lambda: paths, lambda: 2, number.loaded.append, lambda error: None)
    watcher.poll()
    paths[:] = [number.file]
    watcher.poll()
    watcher.poll()
    assert number.loaded == [2]


def test_an_error_of_the_callback_is_reported(number: Number) -> None:
    def reject(value: int) -> None:
        raise ConfigurationError(f"{value} is not usable")

    errors: list[str] = []
    number.watcher = FileWatcher(lambda: [number.file], number.load, reject, lambda error: errors.append(str(error)))
    number.write("2", polls=3)
    assert errors == ["2 is not usable"]


def test_a_function_runs_periodically() -> None:
    called = threading.Semaphore(0)
    names: list[str] = []

    def action() -> None:
        names.append(threading.current_thread().name)
        called.release()

    with run_periodically(action, 0.001, "polling"):
        for _ in range(3):
            assert called.acquire(timeout=10)
    count = len(names)
    assert set(names) == {"polling"}
    assert not called.acquire(timeout=0.05) or len(names) <= count + 1


@pytest.mark.parametrize("immediately", [False, True])
def test_the_first_call(immediately: bool) -> None:
    called = threading.Event()
    with run_periodically(called.set, 3600, "polling", immediately=immediately):
        assert called.wait(10 if immediately else 0.05) == immediately


def test_exceptions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Semaphore(0)

    def fail() -> None:
        called.release()
        raise ValueError("a reason")

    with run_periodically(fail, 0.001, "polling"):
        for _ in range(2):
            assert called.acquire(timeout=10)
    record = caplog.records[0]
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "polling failed; it will be retried")


def test_a_change_since_an_earlier_load_is_loaded(tmp_path: Path) -> None:
    file, loaded = tmp_path / "number", list[bytes]()
    file.write_bytes(b"2")
    known = {file: digest(b"1")}
    watcher = FileWatcher(lambda: [file], file.read_bytes, loaded.append, lambda error: None, known)
    watcher.poll()
    assert loaded == []
    for _ in range(3):
        watcher.poll()
    assert loaded == [b"2"]


def test_contents_that_were_loaded_before_are_not_loaded_again(tmp_path: Path) -> None:
    file, loaded = tmp_path / "number", list[bytes]()
    file.write_bytes(b"1")
    known = {file: digest(b"1")}
    watcher = FileWatcher(lambda: [file], file.read_bytes, loaded.append, lambda error: None, known)
    for _ in range(3):
        watcher.poll()
    assert loaded == []

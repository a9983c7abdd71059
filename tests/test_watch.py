"""Taking over what files hold: whole, once, and only what is good."""

import os
from pathlib import Path

import pytest

from webhooks.errors import ConfigurationError
from webhooks.watch import FileWatcher, LastError


class Followed:
    """A file of numbers, which is followed; those that are no numbers are no good."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "number"
        self.file.write_text("1")
        self.taken: list[int] = []
        self.refused: list[str] = []
        self.during = ""
        self.changes = FileWatcher(
            lambda: [self.file], self.build, self.taken.append, lambda error: self.refused.append(str(error))
        )

    def build(self) -> int:
        text = self.file.read_text()
        if self.during:
            self.file.write_text(self.during)
            self.during = ""
        if not text.isdigit():
            raise ConfigurationError(f"{text!r} is no number")
        return int(text)

    def put(self, text: str, looks: int = 1) -> None:
        self.file.write_text(text)
        for _ in range(looks):
            self.changes.poll()


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


def test_what_is_the_same_is_let_be(followed: Followed) -> None:
    followed.put("1", looks=3)
    assert (followed.taken, followed.refused) == ([], [])


def test_what_is_new_is_taken_once(followed: Followed) -> None:
    followed.put("2", looks=3)
    followed.put("3", looks=3)
    assert (followed.taken, followed.refused) == ([2, 3], [])


@pytest.mark.parametrize("begun", ["2", "half"])
def test_what_somebody_writes_is_let_be_until_they_are_done(followed: Followed, begun: str) -> None:
    """A part of it can be as good as the whole."""
    followed.put(begun)
    followed.put("22")
    assert (followed.taken, followed.refused) == ([], [])
    followed.changes.poll()
    assert (followed.taken, followed.refused) == ([22], [])


def test_what_is_no_good_is_complained_of_once(followed: Followed) -> None:
    followed.put("half of", looks=4)
    assert (followed.taken, followed.refused) == ([], ["'half of' is no number"])


def test_what_was_before_is_taken_again_after_what_was_refused(followed: Followed) -> None:
    followed.put("bad", looks=2)
    followed.put("1", looks=2)
    assert (followed.taken, len(followed.refused)) == ([1], 1)


def test_what_changes_meanwhile_is_not_taken(followed: Followed) -> None:
    followed.put("2")
    followed.during = "3"
    followed.changes.poll()
    assert followed.taken == []
    followed.changes.poll()
    followed.changes.poll()
    assert followed.taken == [3]


@pytest.mark.parametrize("kind", ["none", "folder", "pipe", "loop"])
def test_what_is_no_file_keeps_nobody(followed: Followed, kind: str) -> None:
    """A pipe is not read, since that might never end; and when a file is there again, it is taken."""
    followed.file.unlink()
    match kind:
        case "folder":
            followed.file.mkdir()
        case "pipe":
            os.mkfifo(followed.file)
        case "loop":
            followed.file.symlink_to(followed.file)
    followed.changes.poll()
    if kind == "folder":
        followed.file.rmdir()
    else:
        followed.file.unlink(missing_ok=True)
    followed.put("2", looks=2)
    assert followed.taken == [2]


def test_what_cannot_be_used_is_refused(followed: Followed) -> None:
    def use(number: int) -> None:
        raise ConfigurationError(f"{number} is of no use")

    refused: list[str] = []
    followed.changes = FileWatcher(
        lambda: [followed.file], followed.build, use, lambda error: refused.append(str(error))
    )
    followed.put("2", looks=3)
    assert refused == ["2 is of no use"]


def test_the_last_error_is_new_once() -> None:
    last_error = LastError()
    errors = ["", "disk full", "disk full", "no such file", "", "no such file"]
    assert [last_error.is_new(error) for error in errors] == [False, True, False, True, False, True]

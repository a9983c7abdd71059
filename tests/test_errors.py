"""Tests of the exceptions and of the parts of messages that many modules share."""

import sys
from pathlib import Path

import pytest

from webhooks.errors import (
    ClusterError,
    ConfigurationError,
    LoadError,
    MalformedReview,
    missing_extra,
    printable,
    reason_for,
    unreadable,
    unwritable,
)


def test_a_load_error_starts_with_the_path_and_the_line() -> None:
    assert str(LoadError("no policy", path="a.py")) == "a.py: no policy"
    assert str(LoadError("no policy", path="a.py", line=3)) == "a.py:3: no policy"


def test_errors_carry_an_http_code() -> None:
    assert (MalformedReview("bad").code, MalformedReview("large", code=413).code) == (400, 413)
    assert (ClusterError("gone").code, ClusterError("gone", code=404).code) == (0, 404)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Grüße, 日本 🙂", "Grüße, 日本 🙂"),
        (r"C:\temp", r"C:\temp"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("left\u202eright\u2028", r"left\u202eright\u2028"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
        ("'\"", "'\""),
    ],
)
def test_printable_escapes_what_a_terminal_would_obey(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_every_character_becomes_printable() -> None:
    assert printable("".join(map(chr, range(sys.maxunicode + 1)))).isprintable()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory", "/a"), "No such file or directory"),
        (OSError("no number"), "no number"),
        (OSError(), "OSError"),
        (ValueError("embedded null byte"), "embedded null byte"),
        (ValueError("two\nlines\n"), r"two\nlines"),
        (ValueError(" "), "ValueError"),
        (KeyError(), "KeyError"),
    ],
)
def test_the_reason_of_an_error_is_one_line(error: Exception, reason: str) -> None:
    assert reason_for(error) == reason


def test_files_that_cannot_be_read_or_written() -> None:
    error = PermissionError(13, "Permission denied", "/etc/key")
    assert isinstance(unreadable("a", error), ConfigurationError)
    assert str(unreadable(Path("/etc/key"), error)) == "/etc/key: cannot be read: Permission denied"
    assert str(unreadable("a\nb", error)) == r"a\nb: cannot be read: Permission denied"
    assert (
        str(unwritable("a", error, "use another folder"))
        == "a: cannot be written: Permission denied: use another folder"
    )


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    with pytest.raises(ModuleNotFoundError) as raised:
        import no_such_module  # noqa: F401
    assert str(missing_extra("--oidc-issuer", "oidc", raised.value)) == (
        "--oidc-issuer requires the module no_such_module: install the extra oidc: pip install "
        "'cluster-webhooks[oidc]', or '.[oidc]' in a clone"
    )

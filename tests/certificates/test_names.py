"""Names of servers and of callers."""

import socket
from pathlib import Path

import pytest

from webhooks.certificates import default_names, ensure, issue_client
from webhooks.certificates.names import normal
from webhooks.errors import ConfigurationError


@pytest.mark.parametrize(
    "name",
    ["", "ca", "tls", "ca-key", "ca-cross", "x-key", "../x", "a/b", ".a", "a b", "a\n", "a" * 65, "\u00e4"],
)
def test_a_client_name_that_is_no_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="client name"):
        issue_client(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "a b", "-a", "a..b", "a" * 64, "fe80::1%eth0", "300.1.2.3", "*", "a.*.b", "n\u00e4me", "a\n"]
)
def test_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="neither a DNS name nor an IP address"):
        ensure(tmp_path, names=["localhost", name])


def test_names_are_compared_in_one_form() -> None:
    assert normal(["LOCALHOST", "0:0:0:0:0:0:0:1", "localhost", "::1"]) == ["localhost", "::1"]


@pytest.mark.parametrize(
    ("host", "more"),
    [
        ("box", ["box"]),
        ("Box.example.org", ["box.example.org", "box"]),
        ("localhost", []),
        ("not a name", []),
    ],
)
def test_default_names(monkeypatch: pytest.MonkeyPatch, host: str, more: list[str]) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert default_names() == ["localhost", "127.0.0.1", "::1", *more]

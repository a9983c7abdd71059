"""Names of servers and clients."""

import socket
from pathlib import Path

import pytest

from webhooks.certificates import default_names, ensure, issue_client
from webhooks.certificates.names import normalize, parse_address
from webhooks.errors import ConfigurationError


@pytest.mark.parametrize(
    "name",
    ["", "ca", "tls", "ca-key", "ca-cross", "x-key", "../x", "a/b", ".a", "a b", "a\n", "a" * 65, "\u00e4"],
)
def test_a_client_name_that_is_not_a_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="client name"):
        issue_client(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "a b", "-a", "a..b", "a" * 64, "fe80::1%eth0", "300.1.2.3", "*", "a.*.b", "n\u00e4me", "a\n"]
)
def test_an_invalid_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="must be a DNS name or an IP address"):
        ensure(tmp_path, names=["localhost", name])


def test_the_canonical_form() -> None:
    assert normalize(["LOCALHOST", "0:0:0:0:0:0:0:1", "localhost", "::1"]) == ["localhost", "::1"]
    assert [parse_address(name) for name in ("10.0.0.1", "0::1", "fe80::1%eth0", "x")] == [
        "10.0.0.1",
        "::1",
        None,
        None,
    ]


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

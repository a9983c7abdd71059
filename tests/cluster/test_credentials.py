"""Credentials: tokens that change, and plugins that provide them."""

from pathlib import Path

import pytest

from webhooks.cluster.credentials import Credentials
from webhooks.cluster.kubeconfig import Kubeconfig
from webhooks.errors import ClusterError

from ..support.kubeconfigs import plugin_user, write_kubeconfig

PRINT_STATUS = "print(r'''{\"status\": %s}''')"
INVALID_TOKEN = "the token must be printable ASCII without spaces, and not empty"


def credentials_of(path: Path) -> Credentials:
    return Kubeconfig.read([path]).resolve(None).credentials


def test_a_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    credentials = Credentials(token_file=tmp_path / "token")
    assert credentials.refresh() is credentials
    assert credentials.read_token() == "one"
    (tmp_path / "token").write_text("two\n")
    assert credentials.read_token() == "two"


@pytest.mark.parametrize("content", [b"secret\nother", b"", b"secret\xff", b"\xc3\xa4"])
def test_an_invalid_token_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(ClusterError, match=f"^{tmp_path}/token: {INVALID_TOKEN}") as raised:
        Credentials(token_file=tmp_path / "token").read_token()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "runs_again"),
    [((), False), (("2020-01-01T00:00:00Z",), True), (("2099-01-01T00:00:00Z",), False)],
)
def test_a_plugin_runs_again_when_its_credentials_expire(
    tmp_path: Path, arguments: tuple[str, ...], runs_again: bool
) -> None:
    credentials = credentials_of(write_kubeconfig(tmp_path, user=plugin_user(tmp_path, *arguments)))
    first, second = credentials.refresh().read_token(), credentials.refresh().read_token()
    assert first
    assert (first != second) is runs_again


def test_a_plugin_provides_a_client_certificate(tmp_path: Path) -> None:
    text = PRINT_STATUS % '{"clientCertificateData": "certificate", "clientKeyData": "key"}'
    credentials = credentials_of(write_kubeconfig(tmp_path, user=plugin_user(tmp_path, text=text))).refresh()
    assert (credentials.certificate, credentials.key, credentials.read_token()) == (b"certificate", b"key", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import sys; sys.exit('secret')", "failed with exit code 1 and 7 bytes on standard error"),
        (PRINT_STATUS % '{"token": "secret\\n"}', INVALID_TOKEN),
        (PRINT_STATUS % '{"token": 1}', "must be an ExecCredential with a status"),
        (PRINT_STATUS % '{"expirationTimestamp": "2099-01-01T00:00:00"}', "must be an ExecCredential with a status"),
        ("print('hello')", "must be an ExecCredential with a status"),
        ("print('{}')", "must be an ExecCredential with a status"),
    ],
)
def test_a_plugin_that_fails(tmp_path: Path, text: str, message: str) -> None:
    credentials = credentials_of(write_kubeconfig(tmp_path, user=plugin_user(tmp_path, text=text)))
    with pytest.raises(ClusterError, match=message) as raised:
        credentials.refresh()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("command", "env"), [("./none", {}), ("none-of-the-path", {}), ("a\0", {}), ("true", {"A": "secret\0"})]
)
def test_a_plugin_that_cannot_run(tmp_path: Path, command: str, env: dict[str, str]) -> None:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "env": variables}}
    credentials = credentials_of(write_kubeconfig(tmp_path, user=user))
    with pytest.raises(ClusterError, match="cannot be run: ") as raised:
        credentials.refresh()
    assert "secret" not in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_plugin_that_does_not_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks.cluster.credentials._PLUGIN_TIMEOUT", 0.2)
    user = plugin_user(tmp_path, text="import time; time.sleep(60)")
    with pytest.raises(ClusterError, match=r"did not finish within 0\.2 s"):
        credentials_of(write_kubeconfig(tmp_path, user=user)).refresh()


def test_secrets_are_not_in_the_representation(tmp_path: Path) -> None:
    user = plugin_user(tmp_path, text=PRINT_STATUS % '{"token": "hidden-value"}')
    user["exec"]["env"] = [{"name": "PASSWORD", "value": "hidden-value"}]
    credentials = credentials_of(write_kubeconfig(tmp_path, user=user))
    assert credentials.refresh().read_token() == "hidden-value"
    assert "hidden-value" not in repr(credentials)
    assert "hidden-value" not in repr(Credentials(token="hidden-value", key=b"hidden-value"))

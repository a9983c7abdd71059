"""Kubeconfigs: what is read, and what is rejected."""

import base64
from pathlib import Path

import pytest

from webhooks.cluster.kubeconfig import Kubeconfig, ResolvedContext
from webhooks.errors import ClusterError

from ..support.kubeconfigs import Json, write_kubeconfig

HOSTS = (
    *(
        "https://[bad",
        "https://[bad]",
        "https://127.0.0.1:x",
        "https://a..b",
        "https://",
        "https://a\nb",
        "https://a b",
    ),
    *(f"https://{'a' * 64}", "https://\u00e4", "https://a?b=c", "http://me:secret@x"),
)
INVALID_TOKEN = "the token must be printable ASCII without spaces, and not empty"


def resolve(path: Path, context: str | None = None) -> ResolvedContext:
    return Kubeconfig.read([path]).resolve(context)


def read_all(resolved: ResolvedContext) -> None:
    resolved.cluster.read_ca()
    resolved.credentials.read_token()


def test_embedded_data_takes_precedence_over_files(tmp_path: Path) -> None:
    user = {
        "client-certificate-data": base64.b64encode(b"certificate").decode(),
        "client-certificate": "missing.pem",
        "client-key-data": base64.b64encode(b"key").decode(),
    }
    credentials = resolve(write_kubeconfig(tmp_path, user=user)).credentials
    assert (credentials.certificate, credentials.key, credentials.read_token()) == (b"certificate", b"key", None)


def test_the_first_of_several_files_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = (
        write_kubeconfig(folder, user={"tokenFile": "token"}, server=f"https://{name}")
        for folder, name in ((tmp_path, "first"), (tmp_path / "other", "second"))
    )
    resolved = Kubeconfig.read([first, tmp_path / "missing", second]).resolve(None)
    assert (resolved.cluster.server, resolved.credentials.token_file) == ("https://first", tmp_path / "token")
    assert Kubeconfig.read([second, first]).resolve(None).credentials.token_file == tmp_path / "other" / "token"


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=f"^{tmp_path}/a, {tmp_path}/b: no such file$"):
        Kubeconfig.read([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("server", ["https://[fd00::1]:6443", "https://10.0.0.1", "https://a.b:6443/k8s/clusters/c-1"])
def test_valid_servers(tmp_path: Path, server: str) -> None:
    assert resolve(write_kubeconfig(tmp_path, server=server)).cluster.server == server


@pytest.mark.parametrize(
    ("user", "cluster", "context", "message"),
    [
        ({}, {}, "other", "no context 'other'; it has config"),
        ({"username": "me", "password": "secret"}, {}, None, "passwords and auth providers are not supported"),
        ({"auth-provider": {"name": "gcp"}}, {}, None, "passwords and auth providers are not supported"),
        ({"token": "x", "as": "admin"}, {}, None, "impersonation is not supported"),
        ({}, {"insecure-skip-tls-verify": True}, None, "insecure-skip-tls-verify is not supported"),
        ({}, {"server": "http://localhost:8080"}, None, "server must be an https:// URL"),
        ({}, {"server": 5}, None, "server: Invalid value"),
        ({}, {"certificate-authority": "none.pem"}, None, "none.pem: cannot be read"),
        ({"client-key-data": "%"}, {}, None, "embedded certificates and keys must be base64"),
        *(({}, {"server": server}, None, "server must be an https:// URL with a host") for server in HOSTS),
        ({}, {"server": "https://me:secret@x"}, None, "server must not contain a user or a password"),
        *(
            ({}, {"proxy-url": proxy}, None, "proxy-url must be an http:// or https:// URL")
            for proxy in ("junk", "http://a..b", "x:")
        ),
        ({}, {"tls-server-name": "a..b"}, None, "tls-server-name must be a host name"),
        ({}, {"certificate-authority": "a\0b"}, None, "cannot be read: embedded null byte"),
        ({}, {"certificate-authority-data": "\u00e4"}, None, "embedded certificates and keys must be base64"),
        ({"tokenFile": "a\0b"}, {}, None, "cannot be read: embedded null byte"),
        *(({"token": f"secret{end}"}, {}, None, INVALID_TOKEN) for end in ("\n", "\r", "\0", "\u00e4", " x")),
        ({"token": ""}, {}, None, INVALID_TOKEN),
    ],
)
def test_rejected_settings(tmp_path: Path, user: Json, cluster: Json, context: str | None, message: str) -> None:
    path = write_kubeconfig(tmp_path, user=user, **cluster)
    with pytest.raises(ClusterError, match=message) as raised:
        read_all(resolve(path, context))
    assert "secret" not in str(raised.value)
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize(
    "user",
    [
        {"token": 271828},
        {"client-certificate-data": 271828},
        {"client-key-data": 271828},
        {"username": "me", "password": 271828},
        {"auth-provider": 271828},
        {"exec": {"apiVersion": "v1", "command": "x", "env": [{"name": "A", "value": 271828}]}},
        {"exec": {"apiVersion": "v1", "command": "x", "args": [271828]}},
    ],
)
def test_a_secret_that_is_not_a_string_is_not_shown(tmp_path: Path, user: Json) -> None:
    with pytest.raises(ClusterError) as raised:
        resolve(write_kubeconfig(tmp_path, user=user))
    assert str(tmp_path) in str(raised.value)
    assert "271828" not in str(raised.value)

"""Ways to a cluster: kubeconfigs, programs that give credentials, and pods."""

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks.cluster.access import Access
from webhooks.errors import ClusterError

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that knows of no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


def kubeconfig(folder: Path, name: str = "config", user: Json | None = None, **cluster: Any) -> Path:
    file = folder / name
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": f"{name}-cluster", "cluster": {"server": f"https://{name}:6443/"} | cluster}],
        "users": [{"name": f"{name}-me", "user": user or {"token": "secret"}}],
        "contexts": [{"name": name, "context": {"cluster": f"{name}-cluster", "user": f"{name}-me", "namespace": "x"}}],
        "current-context": name,
    }
    file.write_text(yaml.safe_dump(tree))
    return file


def test_what_a_kubeconfig_says(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"who signs")
    file = kubeconfig(
        tmp_path, **{"certificate-authority": "ca.pem", "tls-server-name": "api", "proxy-url": "http://p"}
    )
    found = Access.found(file, None)
    assert (found.server, found.ca, found.server_name, found.proxy) == (
        "https://config:6443",
        b"who signs",
        "api",
        "http://p",
    )
    assert found.user.bearer() == "secret"


def test_what_is_embedded_counts_more_than_files(tmp_path: Path) -> None:
    user = {
        "client-certificate-data": base64.b64encode(b"certificate").decode(),
        "client-certificate": "missing.pem",
        "client-key-data": base64.b64encode(b"key").decode(),
    }
    found = Access.found(kubeconfig(tmp_path, user=user), None).user
    assert (found.certificate, found.key, found.bearer()) == (b"certificate", b"key", None)


def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    user = Access.found(kubeconfig(tmp_path, user={"tokenFile": "token"}), None).user
    assert user.bearer() == "one"
    (tmp_path / "token").write_text("two\n")
    assert user.bearer() == "two"


def test_several_files_are_taken_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [kubeconfig(tmp_path, "first"), tmp_path / "missing", kubeconfig(tmp_path, "second")]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    assert Access.found(None, None).server == "https://first:6443"
    assert Access.found(None, "second").server == "https://second:6443"


def test_the_usual_file(tmp_path: Path) -> None:
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    kubeconfig(tmp_path / "home" / ".kube")
    assert Access.found(None, None).server == "https://config:6443"


PROGRAM = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential" and os.environ["REGION"] == "eu"
ends = {"expirationTimestamp": sys.argv[1]} if sys.argv[1:] else {}
status = {"token": str(os.getpid()), **ends}
print(json.dumps({"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


STATUS = "print(r'''{\"status\": %s}''')"


def program(folder: Path, *arguments: str, text: str = PROGRAM) -> Json:
    (folder / "program.py").write_text(text)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(folder / "program.py"), *arguments],
            "env": [{"name": "REGION", "value": "eu"}],
            "interactiveMode": "Never",
        }
    }


@pytest.mark.parametrize(
    ("arguments", "again"), [((), False), (("2020-01-01T00:00:00Z",), True), (("2099-01-01T00:00:00Z",), False)]
)
def test_a_program_is_asked_again_when_its_credentials_end(
    tmp_path: Path, arguments: tuple[str, ...], again: bool
) -> None:
    user = Access.found(kubeconfig(tmp_path, user=program(tmp_path, *arguments)), None).user
    first, second = user.ready().bearer(), user.ready().bearer()
    assert first
    assert (first != second) is again


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys; sys.exit('secret')", "ended with code 1, and said 7 bytes on standard error"),
        (STATUS % '{"token": "secret\\n"}', "the token is empty, or has what no header can hold"),
        (STATUS % '{"token": 1}', "gives no credentials that can be understood"),
        (STATUS % '{"expirationTimestamp": "2099-01-01T00:00:00"}', "gives no credentials that can be understood"),
        ("print('hello')", "gives no credentials that can be understood"),
        ("print('{}')", "gives no credentials that can be understood"),
    ],
)
def test_a_program_that_fails(tmp_path: Path, text: str, says: str) -> None:
    user = Access.found(kubeconfig(tmp_path, user=program(tmp_path, text=text)), None).user
    with pytest.raises(ClusterError, match=says) as raised:
        user.ready()
    assert "secret" not in str(raised.value)


SERVERS = (
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
UNSENT = "the token is empty, or has what no header can hold"


@pytest.mark.parametrize(
    ("user", "cluster", "context", "says"),
    [
        ({}, {}, "other", "no context 'other'; it has config"),
        ({"username": "me", "password": "secret"}, {}, None, "passwords and auth providers are gone"),
        ({"auth-provider": {"name": "gcp"}}, {}, None, "passwords and auth providers are gone"),
        ({"token": "x", "as": "admin"}, {}, None, "being somebody else is not taken"),
        ({}, {"insecure-skip-tls-verify": True}, None, "insecure-skip-tls-verify is not taken"),
        ({}, {"server": "http://localhost:8080"}, None, "its server is no https:// URL"),
        ({}, {"server": 5}, None, "server: Invalid value"),
        ({}, {"certificate-authority": "none.pem"}, None, "none.pem: cannot be read"),
        ({"client-key-data": "%"}, {}, None, "embedded are in base64"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./none"}}, {}, None, "does not run"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "a\0"}}, {}, None, "does not run"),
        *(({}, {"server": server}, None, "its server is no https:// URL of a host") for server in SERVERS),
        ({}, {"server": "https://me:secret@x"}, None, "its server has a user or a password in its URL"),
        *(
            ({}, {"proxy-url": proxy}, None, "its proxy-url is no http:// or")
            for proxy in ("junk", "http://a..b", "x:")
        ),
        ({}, {"tls-server-name": "a..b"}, None, "its tls-server-name is no name of a host"),
        ({}, {"certificate-authority": "a\0b"}, None, "cannot be read: embedded null byte"),
        ({}, {"certificate-authority-data": "\u00e4"}, None, "embedded are in base64"),
        ({"tokenFile": "a\0b"}, {}, None, "cannot be read: embedded null byte"),
        *(({"token": f"secret{end}"}, {}, None, UNSENT) for end in ("\n", "\r", "\0", "\u00e4", " x")),
        ({"token": ""}, {}, None, UNSENT),
    ],
)
def test_what_is_not_taken(tmp_path: Path, user: Json, cluster: Json, context: str | None, says: str) -> None:
    file = kubeconfig(tmp_path, user=user, **cluster)
    with pytest.raises(ClusterError, match=says) as raised:
        Access.found(file, context).user.ready().bearer()
    assert "secret" not in str(raised.value)
    assert str(tmp_path) in str(raised.value) or "does not run" in says


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
def test_what_is_secret_is_not_shown_where_it_is_no_text(tmp_path: Path, user: Json) -> None:
    with pytest.raises(ClusterError) as raised:
        Access.found(kubeconfig(tmp_path, user=user), None)
    assert str(tmp_path) in str(raised.value)
    assert "271828" not in str(raised.value)


@pytest.mark.parametrize("content", [b"secret\nother", b"", b"secret\xff", b"\xc3\xa4"])
def test_a_token_file_that_no_header_can_hold(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    user = Access.found(kubeconfig(tmp_path, user={"tokenFile": "token"}), None).user
    with pytest.raises(ClusterError, match=f"{tmp_path}/token: {UNSENT}") as raised:
        user.bearer()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("server", ["https://[fd00::1]:6443", "https://10.0.0.1", "https://a.b:6443/k8s/clusters/c-1"])
def test_servers_that_are_taken(tmp_path: Path, server: str) -> None:
    assert Access.found(kubeconfig(tmp_path, server=server), None).server == server


def test_no_cluster_at_all() -> None:
    with pytest.raises(ClusterError, match="no cluster to ask: there is no --kubeconfig"):
        Access.found(None, None)


def test_in_a_pod_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ClusterError, match="this pod has no token of a service account"):
        Access.found(None, None)


def test_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr("webhooks.cluster.access._SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    found = Access.found(None, None)
    assert (found.server, found.ca, found.user.bearer()) == ("https://[fd00::1]:6443", b"ca.crt", "token")

"""Where the address and the credentials of a cluster come from."""

from pathlib import Path

import pytest

from webhooks.cluster.access import Access
from webhooks.errors import ClusterError

from ..support.kubeconfigs import forget_clusters, write_kubeconfig


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_clusters(tmp_path / "home", monkeypatch)


def test_a_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"a CA")
    path = write_kubeconfig(
        tmp_path, **{"certificate-authority": "ca.pem", "tls-server-name": "api", "proxy-url": "http://p"}
    )
    access = Access.discover(path, None)
    assert (access.server, access.ca, access.tls_server_name, access.proxy_url) == (
        "https://config:6443",
        b"a CA",
        "api",
        "http://p",
    )
    assert access.credentials.read_token() == "secret"


def test_the_variable_lists_several_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write_kubeconfig(tmp_path, "first"), tmp_path / "missing", write_kubeconfig(tmp_path, "second")]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    assert Access.discover(None, None).server == "https://first:6443"
    assert Access.discover(None, "second").server == "https://second:6443"


def test_the_default_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    write_kubeconfig(tmp_path / "home" / ".kube")
    assert Access.discover(None, None).server == "https://config:6443"


def test_no_access() -> None:
    with pytest.raises(ClusterError, match=r"no access to a cluster: give --kubeconfig, or set \$KUBECONFIG"):
        Access.discover(None, None)


def test_a_pod_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ClusterError, match="this pod has no service account token"):
        Access.discover(None, None)


def test_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr("webhooks.cluster.access._SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    access = Access.discover(None, None)
    assert (access.server, access.ca, access.credentials.read_token()) == ("https://[fd00::1]:6443", b"ca.crt", "token")
    (tmp_path / "token").write_text("rotated")
    assert access.credentials.read_token() == "rotated"


def test_a_kubeconfig_takes_precedence_over_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    path = write_kubeconfig(tmp_path)
    assert Access.discover(path, None).server == "https://config:6443"
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert Access.discover(None, None).server == "https://config:6443"

"""The synchronization of caBundle without a real cluster; tests/e2e has tests with one."""

import base64
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from webhooks.certificates import ca_bundle, issue, signing
from webhooks.cluster.ca_bundle_sync import CaBundleSync, sync_periodically
from webhooks.errors import ClusterError, ConfigurationError
from webhooks.kube.api_groups import WEBHOOK_CONFIGURATION_PLURALS
from webhooks.observability.metrics import MetricRegistry

from ..support.kubeconfigs import forget_clusters

KIND = WEBHOOK_CONFIGURATION_PLURALS[0]
LABELS = {"app.kubernetes.io/managed-by": "webhooks"}


class FakeClient:
    """A cluster with one webhook configuration of each kind."""

    def __init__(self, bundle: bytes = b"", labels: dict[str, str] = LABELS) -> None:
        self.gets = 0
        self.conflicts = 0
        self.bundle = bundle
        self.labels = labels
        self.patches: list[Any] = []

    def get(self, path: str) -> Any:
        self.gets += 1
        config = {"caBundle": base64.b64encode(self.bundle).decode()}
        metadata = {"name": "webhooks", "resourceVersion": str(self.gets), "labels": self.labels}
        return {"metadata": metadata, "webhooks": [{"name": "a.example.org", "clientConfig": config}]}

    def patch(self, path: str, patch: Any, media_type: str) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise ClusterError("conflict", code=409)
        self.patches.append(patch)
        self.bundle = base64.b64decode(patch["webhooks"][0]["clientConfig"]["caBundle"])


class BrokenClient:
    """A cluster whose responses no API server sends."""

    def __init__(self) -> None:
        self.gets = 0

    def get(self, path: str) -> object:
        self.gets += 1
        return ["not an object"]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return issue(tmp_path, names=["localhost"]).ca


def create_sync(bundle: Path, client: Any) -> CaBundleSync:
    return CaBundleSync("webhooks", bundle, client, MetricRegistry())


def test_the_bundle_is_updated_once(bundle: Path) -> None:
    client = FakeClient()
    sync = create_sync(bundle, client)
    assert [sync.sync(KIND), sync.sync(KIND)] == [True, False]
    assert client.bundle == bundle.read_bytes()
    assert [patch["metadata"] for patch in client.patches] == [{"resourceVersion": "1"}]


def test_other_cas_stay_in_the_bundle(bundle: Path) -> None:
    other = signing.create_ca(datetime.now(UTC)).certificate
    client = FakeClient(ca_bundle.to_pem([other]))
    assert create_sync(bundle, client).sync(KIND)
    assert client.bundle == ca_bundle.to_pem([*ca_bundle.read(bundle), other])


def test_a_conflict_is_retried_with_the_new_version(bundle: Path) -> None:
    client = FakeClient()
    client.conflicts = 4
    assert create_sync(bundle, client).sync(KIND)
    assert client.patches[0]["metadata"] == {"resourceVersion": "5"}
    client.bundle, client.conflicts = b"", 5
    with pytest.raises(ClusterError, match="conflict"):
        create_sync(bundle, client).sync(KIND)


def test_an_object_without_our_label_is_not_changed(bundle: Path) -> None:
    client = FakeClient(labels={})
    with pytest.raises(ConfigurationError, match=r"does not have the label app\.kubernetes\.io/managed-by: webhooks"):
        create_sync(bundle, client).sync(KIND)
    assert client.patches == []


def test_an_error_is_logged_once(bundle: Path, caplog: pytest.LogCaptureFixture) -> None:
    client, metrics = BrokenClient(), MetricRegistry()
    sync = CaBundleSync("webhooks", bundle, client, metrics)  # type: ignore[arg-type]
    for _ in range(3):
        sync.sync_all()
    assert client.gets == 6
    assert len(caplog.records) == 2
    assert "caBundle cannot be updated: unexpected TypeError" in caplog.records[0].message
    assert set(metrics.by_name["webhooks_ca_bundle_out_of_sync"].values.values()) == {1}


@pytest.mark.parametrize(
    ("file", "kubeconfig", "message"),
    [
        ("ca.pem", None, "no access to a cluster"),
        ("ca.pem", Path("none.yaml"), "none.yaml: no such file"),
        ("none.crt", None, "none.crt: no such file"),
    ],
)
def test_errors_at_the_start(
    bundle: Path, file: str, kubeconfig: Path | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_clusters(bundle.parent, monkeypatch)
    path = bundle.with_name(file)
    with (
        pytest.raises(ConfigurationError, match=message),
        sync_periodically("webhooks", path, kubeconfig, None, MetricRegistry()),
    ):
        pass


def test_a_server_that_does_not_synchronize_needs_no_extra() -> None:
    program = "import sys; sys.modules['httpx2'] = None; import webhooks.server.supervisor, webhooks.server.process"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)

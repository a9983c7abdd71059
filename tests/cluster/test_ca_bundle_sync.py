"""What keeps a server from managing its registrations, found before it answers; the rest needs a cluster: see e2e/."""

from pathlib import Path

import pytest

from webhooks.certificates import issue
from webhooks.cluster.ca_bundle_sync import CaBundleSync, keeping
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that knows of no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"sync_ca_bundle": "webhooks"}, "no cluster to ask"),
        ({"sync_ca_bundle": "webhooks", "kubeconfig": Path("none.yaml")}, "none.yaml: no such file"),
        ({"sync_ca_bundle": "webhooks", "tls_cert": Path("/none/tls.crt")}, "/none/ca.crt: no such file"),
    ],
)
def test_what_keeps_it_from_starting(tmp_path: Path, told: dict, says: str) -> None:
    issue(tmp_path, names=["localhost"])
    with pytest.raises(ConfigurationError, match=says), keeping(Settings(certs_dir=tmp_path, **told), MetricRegistry()):
        pass


class Odd:
    """A cluster that answers what no API server does."""

    def __init__(self) -> None:
        self.asked = 0

    def get(self, path: str) -> object:
        self.asked += 1
        return ["no object"]


def test_an_answer_that_is_none_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    issue(tmp_path, names=["localhost"])
    cluster, meters = Odd(), MetricRegistry()
    keeper = CaBundleSync("webhooks", tmp_path / "ca.pem", cluster, meters)
    for _ in range(3):
        keeper.attempt()
    assert cluster.asked == 6
    assert len(caplog.records) == 2
    assert "caBundle cannot be kept in step: TypeError" in caplog.records[0].message
    assert set(meters.by_name["webhooks_ca_bundle_out_of_sync"].values.values()) == {1}


def test_who_manages_none_needs_nothing(tmp_path: Path) -> None:
    with keeping(Settings(certs_dir=tmp_path), MetricRegistry()):
        pass

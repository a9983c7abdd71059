"""docs/guides/install.md, from its first command to its last, on a real API server."""

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import ROOT, Cluster
from .kubectl import Kubectl
from .pages import Page

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

# Nothing here builds images (see tests/test_image.py), runs pods, or ends namespaces.
ELSEWHERE = re.compile("^(deploy/build-image|kubectl .* rollout .*)$", re.MULTILINE)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Kubectl]:
    """Of an API server where nothing has been installed yet."""
    with cluster.beside() as port:
        yield cluster.user("admin", "system:masters", port=port)


def test_the_page_from_its_beginning_to_its_end(admin: Kubectl, tmp_path: Path) -> None:
    page = Page("guides/install", tmp_path)
    shutil.copytree(ROOT / "deploy" / "kustomize", tmp_path / "deploy" / "kustomize")
    budget = tmp_path / "deploy" / "kustomize" / "base" / "disruption-budget.yaml"
    budget.write_text(budget.read_text().replace("policy/v1", "policy/v1beta1"))  # as this old API server knows it
    *installing, removing = [ELSEWHERE.sub("", block) for block in page.blocks("sh")]
    for block in installing:
        page.run(block, admin)

    secrets = ("webhooks-tls", "webhooks-authority", "webhooks-redis")
    kept = {name: set(admin.get("secret", name, "-n", "webhooks")["data"]) for name in secrets}
    assert kept == {
        "webhooks-tls": {"tls.crt", "tls.key"},
        "webhooks-authority": {"ca.pem", "ca-key.pem"},
        "webhooks-redis": {"password"},
    }
    [container] = admin.get("deployment", "webhooks", "-n", "webhooks")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/cluster-webhooks:")
    [webhook] = admin.get("validatingwebhookconfiguration", "webhooks")["webhooks"]
    authority = (tmp_path / "certs" / "ca.pem").read_bytes()
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == authority

    page.run(removing.replace("delete -k my-cluster", "delete -k my-cluster --wait=false"), admin)
    assert gone(admin, "validatingwebhookconfiguration", "webhooks")
    assert gone(admin, "deployment", "webhooks", "-n", "webhooks")


def gone(admin: Kubectl, *words: str) -> bool:
    return "NotFound" in admin.refused("get", *words)

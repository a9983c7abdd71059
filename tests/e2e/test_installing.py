"""Runs all commands of docs/guides/install.md on a real API server."""

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

# There is no image (see tests/deploy/test_image.py), no kubelet and no controller.
SKIPPED = re.compile("^(deploy/build-image|kubectl .* rollout .*)$", re.MULTILINE)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Kubectl]:
    """The administrator of an API server without any installation."""
    with cluster.running_api_server() as port:
        yield cluster.user("admin", "system:masters", port=port)


def test_the_commands_of_the_page(admin: Kubectl, tmp_path: Path) -> None:
    page = Page("guides/install", tmp_path)
    shutil.copytree(ROOT / "deploy" / "kustomize", tmp_path / "deploy" / "kustomize")
    budget = tmp_path / "deploy" / "kustomize" / "base" / "disruption-budget.yaml"
    budget.write_text(budget.read_text().replace("policy/v1", "policy/v1beta1"))  # the version of this old API server
    *installing, removing = [SKIPPED.sub("", block) for block in page.blocks("sh")]
    for block in installing:
        page.run(block, admin)

    secrets = ("webhooks-tls", "webhooks-authority", "webhooks-redis")
    keys = {name: set(admin.get("secret", name, "-n", "webhooks")["data"]) for name in secrets}
    assert keys == {
        "webhooks-tls": {"tls.crt", "tls.key"},
        "webhooks-authority": {"ca.pem", "ca-key.pem"},
        "webhooks-redis": {"password"},
    }
    [container] = admin.get("deployment", "webhooks", "-n", "webhooks")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/cluster-webhooks:")
    [webhook] = admin.get("validatingwebhookconfiguration", "webhooks")["webhooks"]
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == (tmp_path / "certs" / "ca.pem").read_bytes()

    page.run(removing.replace("delete -k my-cluster", "delete -k my-cluster --wait=false"), admin)
    assert is_deleted(admin, "validatingwebhookconfiguration", "webhooks")
    assert is_deleted(admin, "deployment", "webhooks", "-n", "webhooks")


def is_deleted(admin: Kubectl, *words: str) -> bool:
    return "NotFound" in admin.error("get", *words)

"""The commands in the picture of the README have the same output on a real API server."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..generate.terminal import POLICY, SCENE
from .cluster import Cluster
from .objects import make_object
from .processes import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SECONDS = 60


def test_the_commands_of_the_picture(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "labels.py"
    file.write_text(POLICY)
    [port] = free_ports(1)
    server = cluster.serve("readme", port, "--policies", file, "--ops-port", 0)
    api_server = cluster.start_api_server("--authorization-mode=RBAC")
    api_server.admin.create(
        make_object("v1", "Namespace", "shop", None, labels={"kubernetes.io/metadata.name": "shop"}),
    )
    configurations = subprocess.run(
        [
            *(sys.executable, "-m", "webhooks", "manifests", "--policies", file, "--only", "webhook-configurations"),
            *("--reached-by", "url", "--url", f"https://127.0.0.1:{port}", "--ca-bundle", cluster.ca),
            *("--cluster-version", "1.20", "-o", tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert configurations.returncode == 0, configurations.stderr
    api_server.admin.apply(*(tmp_path / "out").glob("*.yaml"))
    _, _, denied, allowed = (shlex.split(command.line)[1:] for command in SCENE)
    api_server.admin.retry_until(lambda output: output.code != 0, *denied, "--dry-run=server")
    assert api_server.admin.error(*denied).split() == SCENE[2].output.split()
    assert api_server.admin(*allowed).out == SCENE[3].output
    server.stop()

"""The scene that the picture of the README shows happens on a real API server."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..generate.terminal import POLICY, SCENE
from .cluster import Cluster
from .objects import thing
from .processes import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SECONDS = 60


def test_the_scene_of_the_picture_happens(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "labels.py"
    file.write_text(POLICY)
    [port] = free_ports(1)
    server = cluster.serve("readme", port, "--policies", file, "--ops-port", 0)
    another = cluster.another("--authorization-mode=RBAC")
    another.admin.create(
        thing("v1", "Namespace", "shop", None, labels={"kubernetes.io/metadata.name": "shop"}),
    )
    configurations = subprocess.run(
        [
            *(sys.executable, "-m", "webhooks", "manifests", "--policies", file, "--only", "webhook-configurations"),
            *("--reached-by", "url", "--url", f"https://127.0.0.1:{port}", "--ca-bundle", cluster.authority),
            *("--cluster-version", "1.20", "-o", tmp_path / "out"),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert configurations.returncode == 0, configurations.stderr
    another.admin.apply(*(tmp_path / "out").glob("*.yaml"))
    _, _, denied, allowed = (shlex.split(command.line)[1:] for command in SCENE)
    another.admin.until(lambda output: output.code != 0, *denied, "--dry-run=server")
    assert another.admin.refused(*denied).split() == SCENE[2].output.split()
    assert another.admin(*allowed).out == SCENE[3].output
    server.stop()

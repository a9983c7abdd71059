"""What `kubectl kustomize` makes of our bases and overlays, and of those that a test writes."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .builders import Json

KUSTOMIZE = Path(__file__).parents[2] / "deploy" / "kustomize"
FOLDERS = ("base", "overlays/cert-manager", "overlays/redis", "overlays/self-managed")


def kubectl() -> str:
    """The program; the test is skipped where there is none."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    found = shutil.which("kubectl", path=folder) if folder else shutil.which("kubectl")
    if found is None:
        pytest.skip("there is no kubectl")
    return found


def render(folder: Path) -> list[Json]:
    """The objects that a folder describes, in their order."""
    done = subprocess.run([kubectl(), "kustomize", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def combined(folder: Path, *components: str, resources: dict[str, Json] | None = None) -> list[Json]:
    """The base with components, and with objects of a user's own."""
    written = {"resources": [_from(folder, KUSTOMIZE / "base"), *(resources or {})]}
    written["components"] = [_from(folder, KUSTOMIZE / "components" / name) for name in components]
    for name, content in (resources or {}).items():
        (folder / name).write_text(yaml.safe_dump(content))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(written))
    return render(folder)


def _from(folder: Path, path: Path) -> str:
    return os.path.relpath(path, folder.resolve())


def found(objects: list[Json], kind: str, name: str = "webhooks") -> Json:
    """The one of a kind and name; of a generated one's name the digest is left out."""
    named = [each for each in objects if each["kind"] == kind and _plain(each) == name]
    assert len(named) == 1, f"{kind} {name}: {len(named)} of them"
    return named[0]


def _plain(given: Json) -> str:
    name: str = given["metadata"]["name"]
    return name.rpartition("-")[0] if given["kind"] == "ConfigMap" else name


def pods(objects: list[Json]) -> Iterator[Any]:
    """The specs of the pods of all Deployments."""
    for each in objects:
        if each["kind"] == "Deployment":
            yield each["spec"]["template"]["spec"]


def containers(pod: Json) -> list[Json]:
    return [*pod.get("initContainers", ()), *pod["containers"]]

"""Renders the kustomizations in `deploy/kustomize`, and those that a test writes."""

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
    """Return the path of kubectl. The test is skipped if it is not installed."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    path = shutil.which("kubectl", path=folder) if folder else shutil.which("kubectl")
    if path is None:
        pytest.skip("kubectl is not installed")
    return path


def render(folder: Path) -> list[Json]:
    """Return the objects of a kustomization in their order."""
    done = subprocess.run([kubectl(), "kustomize", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def render_with_components(folder: Path, *components: str, resources: dict[str, Json] | None = None) -> list[Json]:
    """Render the base with components and further resources."""
    kustomization = {"resources": [_relative_path(folder, KUSTOMIZE / "base"), *(resources or {})]}
    kustomization["components"] = [_relative_path(folder, KUSTOMIZE / "components" / name) for name in components]
    for name, content in (resources or {}).items():
        (folder / name).write_text(yaml.safe_dump(content))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return render(folder)


def _relative_path(folder: Path, path: Path) -> str:
    return os.path.relpath(path, folder.resolve())


def find_object(objects: list[Json], kind: str, name: str = "webhooks") -> Json:
    """Return the object of a kind and name; the digest in a generated name is ignored."""
    matches = [obj for obj in objects if obj["kind"] == kind and _name_without_digest(obj) == name]
    assert len(matches) == 1, f"{len(matches)} objects {kind} {name}"
    return matches[0]


def _name_without_digest(obj: Json) -> str:
    name: str = obj["metadata"]["name"]
    return name.rpartition("-")[0] if obj["kind"] == "ConfigMap" else name


def pods(objects: list[Json]) -> Iterator[Any]:
    """Yield the pod specs of all Deployments."""
    for obj in objects:
        if obj["kind"] == "Deployment":
            yield obj["spec"]["template"]["spec"]


def containers(pod: Json) -> list[Json]:
    return [*pod.get("initContainers", ()), *pod["containers"]]

"""Builds the image without a daemon on Debian packages, and runs containers of it as a cluster does."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from webhooks import __version__

from .builders import Json
from .kustomize import find_object
from .servers import SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
IMAGE = f"localhost/cluster-webhooks:{__version__}"
BUILD_SECONDS = 600
CA_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

# Mounts a read-only root file system with writable mounts, then runs the program as an unprivileged user.
CONTAINED = """
root=$1 user=$2 home=$3
shift 3
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir -p "$root$2"; elif [ ! -e "$root$2" ]; then touch "$root$2"; fi
  mount --bind "$1" "$root$2"
  mount -o "remount,bind,$3" "$root$2"
  shift 3
done
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs unshare --root="$root" --wd="$home" --setgid="$user" --setuid="$user" "$@"
"""


class Mount(NamedTuple):
    """A file or folder of this host, mounted in a container."""

    source: Path
    target: str
    mode: str = "ro"


@dataclass(frozen=True)
class Image:
    """The image, mounted on this host.

    Attributes:
        root: its root file system.
        config: its configuration, such as the entry point and the user.
    """

    root: Path
    config: dict[str, Any]

    @property
    def user(self) -> int:
        return int(self.config["User"].partition(":")[0])

    def command(self, *arguments: object, mounts: Iterable[Mount] = ()) -> list[str]:
        """Return the command that runs a command in a container, in the same process."""
        outer = [word for mount in mounts for word in (mount.source, mount.target, mount.mode)]
        inner = ["sh", "-euc", CONTAINED, "-", self.root, self.user, self.config["WorkingDir"], *outer, "--"]
        return [*map(str, ["unshare", "--mount", "--propagation=private", "--", *inner, *arguments])]

    def run(self, *arguments: object, mounts: Iterable[Mount] = ()) -> subprocess.CompletedProcess[str]:
        """Run a command in a container and wait for it."""
        command = self.command(*arguments, mounts=mounts)
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)

    def owned(self, folder: Path) -> Path:
        """Create a folder that belongs to the user of the image."""
        folder.mkdir()
        os.chown(folder, self.user, self.user)
        return folder


class Pod:
    """A pod of the image with its volumes, as the kubelet creates them.

    Args:
        image: the image.
        spec: the spec of the pod.
        folder: the folder for the volumes.
        objects: rendered objects, including the ConfigMaps of the pod.
        secrets: the files of each Secret by its name.
    """

    def __init__(
        self, image: Image, spec: Json, folder: Path, objects: list[Json], secrets: Mapping[str, Mapping[str, Path]]
    ) -> None:
        self._image = image
        self._spec = spec
        self.volumes = {volume["name"]: folder / volume["name"] for volume in spec["volumes"]}
        for volume in spec["volumes"]:
            path = self.volumes[volume["name"]]
            path.mkdir(parents=True)
            if "configMap" in volume:
                config_map = find_object(objects, "ConfigMap", volume["configMap"]["name"].rpartition("-")[0])
                for name, text in config_map["data"].items():
                    (path / name).write_text(text)
            elif "secret" in volume:
                for name, file in secrets[volume["secret"]["secretName"]].items():
                    shutil.copy(file, path / name)
                    os.chown(path / name, 0, spec["securityContext"]["fsGroup"])
                    (path / name).chmod(volume["secret"]["defaultMode"])
            else:
                os.chown(path, 0, spec["securityContext"]["fsGroup"])
                path.chmod(0o2777)

    def command(self, kind: str, *more: object) -> list[str]:
        """Return the command of the only container of ``containers`` or ``initContainers``, with more arguments."""
        [container] = self._spec[kind]
        mounts = [self._mount(volume_mount) for volume_mount in container["volumeMounts"]]
        for outer in mounts:
            for inner in mounts:
                if inner.target.startswith(f"{outer.target}/") and inner.source.is_dir():
                    (outer.source / inner.target.removeprefix(f"{outer.target}/")).mkdir(exist_ok=True)
        mounts.sort(key=lambda mount: mount.target)
        return self._image.command(*self._image.config["Entrypoint"], *container["args"], *more, mounts=mounts)

    def _mount(self, volume_mount: Json) -> Mount:
        mode = "ro" if volume_mount.get("readOnly") else "rw"
        source = self.volumes[volume_mount["name"]] / volume_mount.get("subPath", "")
        return Mount(source, volume_mount["mountPath"], mode)


def run(*command: object, **variables: str) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=BUILD_SECONDS, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@contextmanager
def build_image(folder: Path) -> Iterator[Image]:
    """Build the image with `deploy/build-image`. The test is skipped if this host cannot build it."""
    if os.geteuid() != 0 or not shutil.which("buildah") or not shutil.which("mmdebstrap"):
        pytest.skip("needs root, buildah and mmdebstrap")
    host = platform.freedesktop_os_release()
    if host["ID"] != "debian" or int(host.get("VERSION_ID", 0)) < 12:
        pytest.skip("needs Debian 12 or newer")
    store = folder / "storage.conf"
    store.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n')
    there = {"CONTAINERS_STORAGE_CONF": str(store)}
    try:
        _base(folder, "build", "python3,python3-venv,dash,coreutils", **there)
        _base(folder, "plain", "python3", **there)
        bases = ("--build-arg", "BUILD_BASE=localhost/build", "--build-arg", "BASE=localhost/plain")
        run(DEPLOY / "build-image", "--pull-never", *bases, **there)
        container = run("buildah", "from", "--pull-never", IMAGE, **there)
        config = json.loads(run("buildah", "inspect", "--type", "image", IMAGE, **there))["Docker"]["config"]
        yield Image(Path(run("buildah", "mount", container, **there)), config)
    finally:
        run("buildah", "rm", "--all", **there)
        shutil.rmtree(folder)  # several hundred megabytes


def _base(folder: Path, name: str, packages: str, **there: str) -> None:
    """Build a base image of these packages and their dependencies, with the CA certificates of this host."""
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    archive = folder / f"{name}.tar"
    run("mmdebstrap", "--quiet", "--variant=extract", f"--include={packages}", suite, archive)
    container = run("buildah", "from", "scratch", **there)
    run("buildah", "add", "--quiet", container, archive, "/", **there)
    run("buildah", "copy", "--quiet", container, CA_CERTIFICATES, CA_CERTIFICATES, **there)
    run("buildah", "config", "--env", f"PIP_CERT={CA_CERTIFICATES}", container, **there)
    run("buildah", "commit", "--quiet", "--rm", container, f"localhost/{name}", **there)
    archive.unlink()

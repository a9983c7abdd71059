"""The image, built without a daemon on what Debian's packages make, and containers of it as a cluster runs them."""

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
from .kustomize import found
from .servers import SECONDS

DEPLOY = Path(__file__).parents[2] / "deploy"
IMAGE = f"localhost/cluster-webhooks:{__version__}"
BUILD_SECONDS = 600
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")

# A root file system that cannot be written, but for what is mounted there; then the program, as a user without rights.
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
    """Something of this host at a place in a container."""

    source: Path
    place: str
    mode: str = "ro"


@dataclass(frozen=True)
class Image:
    """The image, where its files can be seen.

    Attributes:
        root: its root file system.
        config: what it says of how to run it.
    """

    root: Path
    config: dict[str, Any]

    @property
    def user(self) -> int:
        return int(self.config["User"].partition(":")[0])

    def command(self, *arguments: object, mounts: Iterable[Mount] = ()) -> list[str]:
        """A command of this host that runs one in it, as the same process."""
        outer = [word for mount in mounts for word in (mount.source, mount.place, mount.mode)]
        inner = ["sh", "-euc", CONTAINED, "-", self.root, self.user, self.config["WorkingDir"], *outer, "--"]
        return [*map(str, ["unshare", "--mount", "--propagation=private", "--", *inner, *arguments])]

    def run(self, *arguments: object, mounts: Iterable[Mount] = ()) -> subprocess.CompletedProcess[str]:
        """A command in it, that ends."""
        command = self.command(*arguments, mounts=mounts)
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)

    def owned(self, folder: Path) -> Path:
        """A folder, made for its user."""
        folder.mkdir()
        os.chown(folder, self.user, self.user)
        return folder


class Pod:
    """A pod of the image, with its volumes: ConfigMaps of rendered objects, and Secrets that somebody made.

    Args:
        image: the image.
        spec: of the pod.
        folder: where the volumes shall be, which are what the kubelet makes of them.
        objects: the ConfigMaps, among others.
        secrets: the files of each Secret, by its name.
    """

    def __init__(
        self, image: Image, spec: Json, folder: Path, objects: list[Json], secrets: Mapping[str, Mapping[str, Path]]
    ) -> None:
        self._image = image
        self._spec = spec
        self.volumes = {each["name"]: folder / each["name"] for each in spec["volumes"]}
        for each in spec["volumes"]:
            place = folder / each["name"]
            place.mkdir(parents=True)
            if "configMap" in each:
                config_map = found(objects, "ConfigMap", each["configMap"]["name"].rpartition("-")[0])
                for name, text in config_map["data"].items():
                    (place / name).write_text(text)
            elif "secret" in each:
                for name, file in secrets[each["secret"]["secretName"]].items():
                    shutil.copy(file, place / name)
                    os.chown(place / name, 0, spec["securityContext"]["fsGroup"])
                    (place / name).chmod(each["secret"]["defaultMode"])
            else:
                os.chown(place, 0, spec["securityContext"]["fsGroup"])
                place.chmod(0o2777)

    def command(self, kind: str, *more: object) -> list[str]:
        """A command that runs the only one of its ``containers`` or ``initContainers``, with more arguments."""
        [container] = self._spec[kind]
        mounts = [self._mount(each) for each in container["volumeMounts"]]
        for outer in mounts:
            for inner in mounts:
                if inner.place.startswith(f"{outer.place}/") and inner.source.is_dir():
                    (outer.source / inner.place.removeprefix(f"{outer.place}/")).mkdir(exist_ok=True)
        mounts.sort(key=lambda mount: mount.place)
        return self._image.command(*self._image.config["Entrypoint"], *container["args"], *more, mounts=mounts)

    def _mount(self, given: Json) -> Mount:
        mode = "ro" if given.get("readOnly") else "rw"
        return Mount(self.volumes[given["name"]] / given.get("subPath", ""), given["mountPath"], mode)


def run(*command: object, **variables: str) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=BUILD_SECONDS, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@contextmanager
def built(folder: Path) -> Iterator[Image]:
    """The image, as `deploy/build-image` builds it; the test is skipped where it cannot be built."""
    if os.geteuid() != 0 or not shutil.which("buildah") or not shutil.which("mmdebstrap"):
        pytest.skip("needs buildah and mmdebstrap, and the rights to use them")
    host = platform.freedesktop_os_release()
    if host["ID"] != "debian" or int(host.get("VERSION_ID", 0)) < 12:
        pytest.skip("needs Debian's packages, in versions that have our Python")
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
        shutil.rmtree(folder)  # some hundred megabytes


def _base(folder: Path, name: str, packages: str, **there: str) -> None:
    """A base of nothing but these packages and what they need, with the authorities that are known here."""
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    archive = folder / f"{name}.tar"
    run("mmdebstrap", "--quiet", "--variant=extract", f"--include={packages}", suite, archive)
    container = run("buildah", "from", "scratch", **there)
    run("buildah", "add", "--quiet", container, archive, "/", **there)
    run("buildah", "copy", "--quiet", container, AUTHORITIES, AUTHORITIES, **there)
    run("buildah", "config", "--env", f"PIP_CERT={AUTHORITIES}", container, **there)
    run("buildah", "commit", "--quiet", "--rm", container, f"localhost/{name}", **there)
    archive.unlink()

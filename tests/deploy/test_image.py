"""The container image, run alone and as in the manifests."""

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from webhooks import certificates

from ..support.api_server import accept_admission
from ..support.images import DEPLOY, Image, Mount, Pod, build_image
from ..support.kustomize import KUSTOMIZE, find_object, render
from ..support.servers import Server, client_context, free_port, review, running_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SERVICE = "webhooks.webhooks.svc"


def locked(file: str) -> dict[str, str]:
    """Return the versions in a lock file by name; each must have hashes."""
    versions = {}
    for entry in re.split(r"\n(?=\S)", (DEPLOY / file).read_text()):
        if match := re.match(r"([a-z0-9-]+)==([^ ]+)", entry):
            assert "--hash=sha256:" in entry
            versions[match[1]] = match[2]
    return versions


def unmet(requirements: list[str], versions: dict[str, str]) -> list[str]:
    """Return the requirements that a lock file does not meet."""
    by_name = [(canonicalize_name(item.name), item) for item in map(Requirement, requirements)]
    return [str(item) for name, item in by_name if name not in versions or versions[name] not in item.specifier]


def test_all_requirements_are_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    requirements = [*project["project"]["dependencies"], *extras["oidc"], *extras["redis"], *extras["tracing"]]
    assert unmet(requirements, locked("requirements.txt")) == []
    assert unmet(project["build-system"]["requires"], locked("build-requirements.txt")) == []


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with build_image(tmp_path_factory.mktemp("image")) as built:
        yield built


@pytest.fixture(scope="module")
def server(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A container with a bundled policy; only its home and /tmp are writable."""
    folder, ops_port = tmp_path_factory.mktemp("run"), free_port()
    options = ("serve", "--policies", "library:required_labels", "--shutdown-delay", 0)
    where = ("--host", "127.0.0.1", "--port", 0, "--ops-port", ops_port)
    home = Mount(image.owned(folder / "home"), image.config["WorkingDir"], "rw")
    mounts = [home, Mount(image.owned(folder / "tmp"), "/tmp", "rw")]
    with running_process(
        image.command(*image.config["Entrypoint"], *options, *where, mounts=mounts), folder
    ) as running:
        running.port = int(running.output.await_line("ready https://").rpartition(":")[2])
        running.ops_port = ops_port
        running.tls = client_context(home.source / "certs" / "ca.pem")
        yield running


def test_it_serves_reviews_over_tls(server: Server) -> None:
    body = review("web", resource="pods")
    reply = server.post("/admission/validate", body)
    assert reply.status == 200
    response = accept_admission(json.loads(body), reply.body, mutating=False)
    assert not response["allowed"]
    assert "owner" in response["status"]["message"]


def test_it_runs_as_an_unprivileged_user(server: Server, image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    assert re.search(r"^Uid:\t65532\t65532\t65532\t65532$", status, re.MULTILINE)
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)


def test_its_health_check(server: Server, image: Image) -> None:
    kind, *check = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"  # without a shell
    healthy = image.run(*check, f"http://127.0.0.1:{server.ops_port}/readyz")
    assert (healthy.returncode, healthy.stderr) == (0, "")
    unreachable = image.run(*check, f"http://127.0.0.1:{free_port()}/readyz")
    assert (unreachable.returncode, unreachable.stdout) == (1, "")


def test_it_has_no_shell_and_all_extras(image: Image) -> None:
    assert not (image.root / "bin/sh").exists()
    modules = "httpx2, joserfc, hiredis, opentelemetry.sdk, opentelemetry.exporter.otlp.proto.http"
    done = image.run("/opt/webhooks/bin/python", "-c", f"import {modules}")
    assert done.returncode == 0, done.stderr


def test_it_contains_no_build_files(image: Image) -> None:
    assert not [name for name in ("source", "locks", "wheels", "pip") if (image.root / name).exists()]
    assert not list(image.root.rglob("*-key.pem"))
    assert not list((image.root / "opt").rglob("pip"))


def test_sigterm_stops_it(image: Image, tmp_path: Path) -> None:
    """The server is the process that receives the signal."""
    options = ("serve", "--policies", "library:required_labels", "--port", 0, "--ops-port", 0, "--shutdown-delay", 0)
    mounts = [Mount(image.owned(tmp_path / "home"), image.config["WorkingDir"], "rw")]
    with running_process(image.command(*image.config["Entrypoint"], *options, mounts=mounts), tmp_path) as running:
        running.output.await_line("ready https://")
        assert running.stop() == 0


@contextmanager
def replica(pod: Pod, folder: Path, ca: Path, *more: object) -> Iterator[Server]:
    """Run a pod on free ports within the block, with the name of its Service."""
    ops_port = free_port()
    where = ("--host", "127.0.0.1", "--port", 0, "--ops-port", ops_port, "--shutdown-delay", 0, *more)
    with running_process(pod.command("containers", *where), folder) as running:
        running.port = int(running.output.await_line("ready https://").rpartition(":")[2])
        running.ops_port = ops_port
        running.tls = client_context(ca)
        running.name = SERVICE
        yield running


def warnings(server: Server) -> list[str]:
    """Return the warnings about a Deployment without an owner."""
    body = review("web", resource="deployments").replace(b'"v1"', b'"apps/v1"')
    given = json.loads(body)
    given["request"]["resource"] = {"group": "apps", "version": "v1", "resource": "deployments"}
    given["request"]["requestResource"] = given["request"]["resource"]
    reply = server.post("/admission/validate", json.dumps(given).encode())
    response = accept_admission(given, reply.body, mutating=False)
    assert response["allowed"]
    return response["warnings"]


def test_the_base_runs(image: Image, tmp_path: Path) -> None:
    """With a Secret as in docs/guides/install.md."""
    objects = render(KUSTOMIZE / "base")
    pair = certificates.issue(tmp_path / "certs", names=[SERVICE])
    secrets = {"webhooks-tls": {"tls.crt": pair.certificate, "tls.key": pair.key}}
    spec = find_object(objects, "Deployment")["spec"]["template"]["spec"]
    pod = Pod(image, spec, tmp_path / "pod", objects, secrets)
    with replica(pod, tmp_path, pair.ca) as server:
        assert server.get("/readyz", ops=True).body == b"ok"
        assert any("has no label 'owner'" in warning for warning in warnings(server))


def test_replicas_with_self_managed_certificates_share_a_ca(image: Image, tmp_path: Path) -> None:
    objects = render(KUSTOMIZE / "overlays" / "self-managed")
    made = certificates.issue(tmp_path / "certs", names=[SERVICE])
    secrets = {"webhooks-authority": {"ca.pem": made.ca, "ca-key.pem": made.ca.with_name("ca-key.pem")}}
    spec = find_object(objects, "Deployment")["spec"]["template"]["spec"]
    spec["containers"][0]["args"].remove("--sync-ca-bundle=webhooks")  # there is no API server here
    served = set()
    for name in ("first", "second"):
        pod = Pod(image, spec, tmp_path / name, objects, secrets)
        with running_process(pod.command("initContainers"), tmp_path) as issuing:
            assert issuing.wait() == 0, issuing.errors.all()
        with replica(pod, tmp_path, made.ca) as server:
            assert warnings(server)
        served.add((pod.volumes["certs"] / "tls.pem").read_bytes())
    assert len(served) == 2

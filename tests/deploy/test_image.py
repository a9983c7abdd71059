"""The image answers reviews, alone and as the manifests run it."""

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
    """The versions in a lock, by name; each has the hashes of its files."""
    versions = {}
    for entry in re.split(r"\n(?=\S)", (DEPLOY / file).read_text()):
        if match := re.match(r"([a-z0-9-]+)==([^ ]+)", entry):
            assert "--hash=sha256:" in entry
            versions[match[1]] = match[2]
    return versions


def unmet(wanted: list[str], versions: dict[str, str]) -> list[str]:
    """The requirements that no version in a lock meets."""
    named = [(each, canonicalize_name(each.name)) for each in map(Requirement, wanted)]
    return [str(each) for each, name in named if name not in versions or versions[name] not in each.specifier]


def test_what_the_package_needs_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["oidc"], *extras["redis"], *extras["tracing"]]
    assert unmet(wanted, locked("requirements.txt")) == []
    assert unmet(project["build-system"]["requires"], locked("build-requirements.txt")) == []


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with build_image(tmp_path_factory.mktemp("image")) as made:
        yield made


@pytest.fixture(scope="module")
def server(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The image's own command with a policy of its library, and nothing to write to but its home and /tmp."""
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


def test_it_answers_reviews_over_tls(server: Server) -> None:
    body = review("web", resource="pods")
    reply = server.post("/admission/validate", body)
    assert reply.status == 200
    response = accept_admission(json.loads(body), reply.body, mutating=False)
    assert not response["allowed"]
    assert "owner" in response["status"]["message"]


def test_it_runs_as_a_user_without_rights(server: Server, image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    assert re.search(r"^Uid:\t65532\t65532\t65532\t65532$", status, re.MULTILINE)
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)


def test_its_health_check_tells_who_is_well(server: Server, image: Image) -> None:
    kind, *check = image.config["Healthcheck"]["Test"]
    assert kind == "CMD"  # no shell between
    well = image.run(*check, f"http://127.0.0.1:{server.ops_port}/readyz")
    assert (well.returncode, well.stderr) == (0, "")
    away = image.run(*check, f"http://127.0.0.1:{free_port()}/readyz")
    assert (away.returncode, away.stdout) == (1, "")


def test_it_needs_no_shell_and_has_every_extra(image: Image) -> None:
    assert not (image.root / "bin/sh").exists()
    modules = "httpx2, joserfc, hiredis, opentelemetry.sdk, opentelemetry.exporter.otlp.proto.http"
    done = image.run("/opt/webhooks/bin/python", "-c", f"import {modules}")
    assert done.returncode == 0, done.stderr


def test_nothing_of_its_making_is_left_in_it(image: Image) -> None:
    assert not [name for name in ("source", "locks", "wheels", "pip") if (image.root / name).exists()]
    assert not list(image.root.rglob("*-key.pem"))
    assert not list((image.root / "opt").rglob("pip"))


def test_a_signal_ends_it(image: Image, tmp_path: Path) -> None:
    """Nothing stands between a signal and the server."""
    options = ("serve", "--policies", "library:required_labels", "--port", 0, "--ops-port", 0, "--shutdown-delay", 0)
    mounts = [Mount(image.owned(tmp_path / "home"), image.config["WorkingDir"], "rw")]
    with running_process(image.command(*image.config["Entrypoint"], *options, mounts=mounts), tmp_path) as running:
        running.output.await_line("ready https://")
        assert running.stop() == 0


@contextmanager
def replica(pod: Pod, folder: Path, ca: Path, *more: object) -> Iterator[Server]:
    """A pod that runs, at ports that are free, as its Service is called."""
    ops_port = free_port()
    where = ("--host", "127.0.0.1", "--port", 0, "--ops-port", ops_port, "--shutdown-delay", 0, *more)
    with running_process(pod.command("containers", *where), folder) as running:
        running.port = int(running.output.await_line("ready https://").rpartition(":")[2])
        running.ops_port = ops_port
        running.tls = client_context(ca)
        running.name = SERVICE
        yield running


def warnings(server: Server) -> list[str]:
    """What is said of a Deployment that nobody owns."""
    body = review("web", resource="deployments").replace(b'"v1"', b'"apps/v1"')
    given = json.loads(body)
    given["request"]["resource"] = {"group": "apps", "version": "v1", "resource": "deployments"}
    given["request"]["requestResource"] = given["request"]["resource"]
    reply = server.post("/admission/validate", json.dumps(given).encode())
    response = accept_admission(given, reply.body, mutating=False)
    assert response["allowed"]
    return response["warnings"]


def test_the_base_runs(image: Image, tmp_path: Path) -> None:
    """With a Secret as docs/guides/install.md has it made."""
    objects = render(KUSTOMIZE / "base")
    pair = certificates.issue(tmp_path / "certs", names=[SERVICE])
    secrets = {"webhooks-tls": {"tls.crt": pair.certificate, "tls.key": pair.key}}
    spec = find_object(objects, "Deployment")["spec"]["template"]["spec"]
    pod = Pod(image, spec, tmp_path / "pod", objects, secrets)
    with replica(pod, tmp_path, pair.ca) as server:
        assert server.get("/readyz", ops=True).body == b"ok"
        assert any("has no label 'owner'" in each for each in warnings(server))


def test_replicas_that_issue_for_themselves_are_trusted_by_one_authority(image: Image, tmp_path: Path) -> None:
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

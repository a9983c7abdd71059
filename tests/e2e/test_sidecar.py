"""The files of deploy/sidecar: an API server with the webhook server next to it, and without it."""

import os
import re
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path

import pytest
import yaml

from .cluster import ROOT, START_SECONDS, Cluster
from .kubectl import Json, Kubectl
from .objects import make_object, object_list, pod, rbac_objects
from .pages import Page
from .processes import Process, Processes, free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SIDECAR = ROOT / "deploy" / "sidecar"
HOME = "/etc/kubernetes"
WEBHOOK_FLAGS = re.compile("--(authorization|authentication-token-webhook|enable-admission|admission-control)")
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")

# Tokens depend on the cluster: the files have no policy for them.
TOKENS = """
from webhooks import Authenticated, NoOpinion, TokenReview, authenticating


@authenticating
def tokens(review: TokenReview):
    return Authenticated("jane", groups=["developers"]) if review.token == "janes-token" else NoOpinion()
"""


def container(file: Path) -> Json:
    """Return the only container of a static pod."""
    [only] = yaml.safe_load(file.read_text())["spec"]["containers"]
    return only


API_SERVER = container(SIDECAR / "manifests" / "kube-apiserver.yaml")
PROBE_TIMEOUT = API_SERVER["livenessProbe"]["timeoutSeconds"]


class ControlPlane:
    """A node in a temporary folder, set up as on the page. Tests start and kill its webhook server."""

    def __init__(self, cluster: Cluster, processes: Processes, folder: Path) -> None:
        self._cluster = cluster
        self._processes = processes
        self._folder = folder
        self._port, self._ops_port = free_ports(2)
        self._server: Process | None = None
        self._page = Page("guides/sidecar", folder)
        (folder / "manifests").mkdir()
        for file in SIDECAR.rglob("*.yaml"):
            copied = folder / file.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_text(self._localize(file.read_text()))
        set_up, self._apply_command = map(self._localize, self._page.blocks("sh"))
        if os.geteuid() != 0:
            set_up = re.sub("^chown .*$", "", set_up, flags=re.MULTILINE)
        self._page.run(set_up)
        (folder / "webhooks" / "tokens.py").write_text(TOKENS)
        with (folder / "webhooks" / "webhooks.yaml").open("a") as configuration:
            configuration.write("  - use: tokens.py\n")

    @contextmanager
    def api_server(self) -> Iterator[int]:
        """Run an API server with the webhook flags of the static pod, and apply the webhook configurations."""
        flags = [self._localize(flag) for flag in API_SERVER["command"][1:] if WEBHOOK_FLAGS.match(flag)]
        with self._cluster.running_api_server(*flags) as port:
            self._create_objects(self._cluster.user("admin", "system:masters", port=port))
            yield port

    def _create_objects(self, admin: Kubectl) -> None:
        # Newer API servers label namespaces with their names.
        namespaces = [
            make_object("v1", "Namespace", name, None, labels={"kubernetes.io/metadata.name": name})
            for name in (*SYSTEM, "team-a")
        ]
        admin("apply", "--validate=false", "-f", "-", body=object_list(namespaces))
        self._page.run(self._apply_command, admin)

    def start_server(self) -> None:
        """Run the webhook server with the command of its static pod."""
        if self._server is None:
            self._server = self._processes.start(
                f"sidecar-{self._port}",
                *(sys.executable, "-m", "webhooks"),
                *container(self._folder / "manifests" / "webhooks.yaml")["args"],
                env={name: value for name, value in os.environ.items() if not name.startswith("WEBHOOKS_")},
            )
            server = self._server
            server.wait_until(lambda: "ready https://127.0.0.1" in server.text(), seconds=START_SECONDS)

    def kill_server(self) -> None:
        """Kill the webhook server if it runs."""
        if self._server is not None:
            os.kill(self._server.pid, signal.SIGKILL)
            self._processes.stop(self._server)
            self._server = None

    def _localize(self, text: str) -> str:
        """Replace the paths and ports of the files by those of this node."""
        replacements = {HOME: str(self._folder), "8443": str(self._port), "8080": str(self._ops_port)}
        return re.sub("|".join(replacements), lambda match: replacements[match[0]], text)


@pytest.fixture(scope="module")
def plane(cluster: Cluster, processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    plane = ControlPlane(cluster, processes, tmp_path_factory.mktemp("node"))
    yield plane
    plane.kill_server()


@pytest.fixture(scope="module")
def started_first(plane: ControlPlane) -> Iterator[int]:
    """The port of an API server that became ready before the webhook server was started."""
    plane.kill_server()
    with plane.api_server() as port:
        yield port


@pytest.fixture(params=["API server first", "webhook server first"], scope="module")
def reviewed(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[int]:
    """The port of an API server with the webhook server, for both orders of their start."""
    if request.param == "API server first":
        port = request.getfixturevalue("started_first")
        plane.start_server()
        yield port
    else:
        plane.start_server()
        with plane.api_server() as port:
            yield port


@pytest.fixture
def alone(started_first: int, plane: ControlPlane) -> int:
    """The port of an API server without the webhook server: not yet started, or killed."""
    plane.kill_server()
    return started_first


def may_delete(user: Kubectl, namespace: str) -> bool:
    return user.run("auth", "can-i", "delete", f"namespace/{namespace}").out.startswith("yes")


def test_alone_the_liveness_probe_succeeds_in_time(cluster: Cluster, alone: int) -> None:
    """Otherwise the kubelet would restart the API server forever."""
    connection = HTTPSConnection("127.0.0.1", alone, context=ssl._create_unverified_context(), timeout=PROBE_TIMEOUT)
    with closing(connection):
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b"ok"


def test_alone_a_node_joins_and_creates_its_mirror_pods(cluster: Cluster, alone: int) -> None:
    kubelet = cluster.user("system:node:n1", "system:nodes", port=alone)
    kubelet.create(make_object("v1", "Node", "n1", None))
    kubelet("annotate", "node", "n1", "joined=yes")
    kubelet.create(
        make_object("coordination.k8s.io/v1", "Lease", "n1", "kube-node-lease", spec={"holderIdentity": "n1"})
    )
    uid = kubelet.get("node", "n1")["metadata"]["uid"]
    mirror = yaml.safe_load((SIDECAR / "manifests" / "webhooks.yaml").read_text())
    mirror["metadata"] |= {
        "name": "webhooks-n1",
        "annotations": {"kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}],
    }
    mirror["spec"]["nodeName"] = "n1"
    kubelet.create(mirror)


def test_alone_the_control_plane_works(cluster: Cluster, alone: int) -> None:
    scheduler = cluster.user("system:kube-scheduler", port=alone)
    started = time.monotonic()
    scheduler.create(make_object("coordination.k8s.io/v1", "Lease", "kube-scheduler", "kube-system"))
    assert time.monotonic() - started < 10  # seconds in which a component must renew its lease
    admin = cluster.user("admin", "system:masters", port=alone)
    admin.create(pod("network", "kube-system", image="other.example.com/network:1"))


def test_alone_reviewed_requests_are_denied(cluster: Cluster, alone: int) -> None:
    admin = cluster.user("admin", "system:masters", port=alone)
    assert "failed calling webhook" in admin.create_error(pod("alone", "team-a", labels={"owner": "a"}))


def test_alone_an_administrator_can_delete_the_webhook_configurations(cluster: Cluster, alone: int) -> None:
    admin = cluster.user("admin", "system:masters", port=alone)
    kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    deleted = admin("delete", kinds, "webhooks", "--dry-run=server").out
    assert deleted.count("deleted (server dry run)") == 2


def test_alone_rbac_decides(cluster: Cluster, alone: int) -> None:
    admin = cluster.user("admin", "system:masters", port=alone)
    admin("apply", "--validate=false", "-f", "-", body=object_list(rbac_objects()))
    alice = cluster.user("alice", port=alone)
    alice.retry_until(lambda output: output.code == 0, "auth", "can-i", "list", "pods")
    assert may_delete(alice, "kube-system")  # with flags, a failed call is no opinion
    bob = cluster.user("bob", port=alone)
    assert "InternalError" in bob.error("get", "pods", "-n", "team-a")


def test_alone_tokens_are_rejected(cluster: Cluster, alone: int) -> None:
    user = cluster.bearer("unknown", "a-token", port=alone)
    assert "Unauthorized" in user.error("get", "pods", "-n", "team-a")


def test_pods_are_reviewed(cluster: Cluster, reviewed: int) -> None:
    admin = cluster.user("admin", "system:masters", port=reviewed)
    assert "label owner is missing" in admin.create_error(pod("web", "team-a"))
    plane = admin.create(pod("web", "team-a", labels={"owner": "a"}), "-o", "json").json()
    assert plane["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_images_are_reviewed_except_in_system_namespaces(cluster: Cluster, reviewed: int) -> None:
    admin = cluster.user("admin", "system:masters", port=reviewed)
    foreign = "other.example.com/app:1"
    assert foreign in admin.create_error(pod("foreign", "team-a", labels={"owner": "a"}, image=foreign))
    admin.create(pod("foreign", "kube-system", image=foreign))


def test_access_and_tokens_are_reviewed(cluster: Cluster, reviewed: int) -> None:
    admin = cluster.user("admin", "system:masters", port=reviewed)
    admin("apply", "--validate=false", "-f", "-", body=object_list(rbac_objects()))
    jane = cluster.bearer("jane", "janes-token", port=reviewed)
    jane.retry_until(lambda output: output.out.startswith("yes"), "auth", "can-i", "list", "pods")
    assert may_delete(jane, "team-a")
    assert not may_delete(jane, "kube-system")

"""The files of deploy/sidecar: an API server with ours beside it, whichever starts first, and one that is alone."""

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
from .objects import everything, pod, rights, thing
from .pages import Page
from .processes import Process, Processes, free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SIDECAR = ROOT / "deploy" / "sidecar"
HOME = "/etc/kubernetes"
OURS = re.compile("--(authorization|authentication-token-webhook|enable-admission|admission-control)")
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")

# Who holds a token is for each cluster to say: the files have no policy for it.
TOKENS = """
from webhooks import Authenticated, NoOpinion, TokenReview, authenticating


@authenticating
def tokens(review: TokenReview):
    return Authenticated("jane", groups=["developers"]) if review.token == "janes-token" else NoOpinion()
"""


def container(file: Path) -> Json:
    """The one of a static pod."""
    [found] = yaml.safe_load(file.read_text())["spec"]["containers"]
    return found


API_SERVER = container(SIDECAR / "manifests" / "kube-apiserver.yaml")
PATIENCE = API_SERVER["livenessProbe"]["timeoutSeconds"]


class ControlPlane:
    """A node, at another place and port, that is set up as the page says; ours is started and killed at will."""

    def __init__(self, cluster: Cluster, processes: Processes, folder: Path) -> None:
        self._cluster = cluster
        self._processes = processes
        self._folder = folder
        self._port, self._ops_port = free_ports(2)
        self._ours: Process | None = None
        self._page = Page("guides/sidecar", folder)
        (folder / "manifests").mkdir()
        for file in SIDECAR.rglob("*.yaml"):
            copied = folder / file.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_text(self._here(file.read_text()))
        set_up, self._register = map(self._here, self._page.blocks("sh"))
        if os.geteuid() != 0:
            set_up = re.sub("^chown .*$", "", set_up, flags=re.MULTILINE)
        self._page.run(set_up)
        (folder / "webhooks" / "tokens.py").write_text(TOKENS)
        with (folder / "webhooks" / "webhooks.yaml").open("a") as configuration:
            configuration.write("  - use: tokens.py\n")

    @contextmanager
    def api_server(self) -> Iterator[int]:
        """One with the flags of the static pod that are about us, and our registrations; its port."""
        flags = [self._here(flag) for flag in API_SERVER["command"][1:] if OURS.match(flag)]
        with self._cluster.beside(*flags) as port:
            self._fill(self._cluster.user("admin", "system:masters", port=port))
            yield port

    def _fill(self, admin: Kubectl) -> None:
        # This version of the API server does not label namespaces with their names, as newer ones do.
        names = [*SYSTEM, "team-a"]
        labels = [{"kubernetes.io/metadata.name": name} for name in names]
        everyone = [thing("v1", "Namespace", name, None, labels=one) for name, one in zip(names, labels, strict=True)]
        admin("apply", "--validate=false", "-f", "-", given=everything(everyone))
        self._page.run(self._register, admin)

    def with_us(self) -> None:
        """Our server answers, with the static pod's own command."""
        if self._ours is None:
            self._ours = self._processes.start(
                f"sidecar-{self._port}",
                *(sys.executable, "-m", "webhooks"),
                *container(self._folder / "manifests" / "webhooks.yaml")["args"],
                env={name: value for name, value in os.environ.items() if not name.startswith("WEBHOOKS_")},
            )
            ours = self._ours
            ours.wait_until(lambda: "ready https://127.0.0.1" in ours.text(), seconds=START_SECONDS)

    def without_us(self) -> None:
        """Nobody answers: our server was killed, if it had been started."""
        if self._ours is not None:
            os.kill(self._ours.pid, signal.SIGKILL)
            self._processes.stop(self._ours)
            self._ours = None

    def _here(self, text: str) -> str:
        """A file, or a part of it, as it is on this node."""
        there = {HOME: str(self._folder), "8443": str(self._port), "8080": str(self._ops_port)}
        return re.sub("|".join(there), lambda found: there[found[0]], text)


@pytest.fixture(scope="module")
def plane(cluster: Cluster, processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    made = ControlPlane(cluster, processes, tmp_path_factory.mktemp("node"))
    yield made
    made.without_us()


@pytest.fixture(scope="module")
def first(plane: ControlPlane) -> Iterator[int]:
    """The port of an API server that was started, and got ready, when we were not there yet."""
    plane.without_us()
    with plane.api_server() as port:
        yield port


@pytest.fixture(params=["API server first", "ours first"], scope="module")
def answered(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[int]:
    """The port of an API server, with ours beside it; whichever was there first."""
    if request.param == "API server first":
        port = request.getfixturevalue("first")
        plane.with_us()
        yield port
    else:
        plane.with_us()
        with plane.api_server() as port:
            yield port


@pytest.fixture
def alone(first: int, plane: ControlPlane) -> int:
    """The port of an API server with nobody beside it: before we were there, or after we died."""
    plane.without_us()
    return first


def may_delete(user: Kubectl, namespace: str) -> bool:
    return user.run("auth", "can-i", "delete", f"namespace/{namespace}").out.startswith("yes")


def test_alone_the_kubelets_probe_is_answered_in_time(cluster: Cluster, alone: int) -> None:
    """Else the kubelet would restart the API server for ever."""
    connection = HTTPSConnection("127.0.0.1", alone, context=ssl._create_unverified_context(), timeout=PATIENCE)
    with closing(connection):
        connection.request("GET", "/livez")
        assert connection.getresponse().read() == b"ok"


def test_alone_a_node_joins_and_its_static_pods_are_seen(cluster: Cluster, alone: int) -> None:
    kubelet = cluster.user("system:node:n1", "system:nodes", port=alone)
    kubelet.create(thing("v1", "Node", "n1", None))
    kubelet("annotate", "node", "n1", "joined=yes")
    kubelet.create(thing("coordination.k8s.io/v1", "Lease", "n1", "kube-node-lease", spec={"holderIdentity": "n1"}))
    uid = kubelet.get("node", "n1")["metadata"]["uid"]
    mirror = yaml.safe_load((SIDECAR / "manifests" / "webhooks.yaml").read_text())
    mirror["metadata"] |= {
        "name": "webhooks-n1",
        "annotations": {"kubernetes.io/config.mirror": "hash"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}],
    }
    mirror["spec"]["nodeName"] = "n1"
    kubelet.create(mirror)


def test_alone_the_control_plane_goes_on(cluster: Cluster, alone: int) -> None:
    scheduler = cluster.user("system:kube-scheduler", port=alone)
    started = time.monotonic()
    scheduler.create(thing("coordination.k8s.io/v1", "Lease", "kube-scheduler", "kube-system"))
    assert time.monotonic() - started < 10  # in which a component renews its lease, or ends
    admin = cluster.user("admin", "system:masters", port=alone)
    admin.create(pod("network", "kube-system", image="other.example.com/network:1"))


def test_alone_what_is_reviewed_is_refused(cluster: Cluster, alone: int) -> None:
    admin = cluster.user("admin", "system:masters", port=alone)
    assert "failed calling webhook" in admin.create_refused(pod("alone", "team-a", labels={"owner": "a"}))


def test_alone_an_administrator_mends_it(cluster: Cluster, alone: int) -> None:
    admin = cluster.user("admin", "system:masters", port=alone)
    kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    deleted = admin("delete", kinds, "webhooks", "--dry-run=server").out
    assert deleted.count("deleted (server dry run)") == 2


def test_alone_rbac_decides(cluster: Cluster, alone: int) -> None:
    admin = cluster.user("admin", "system:masters", port=alone)
    admin("apply", "--validate=false", "-f", "-", given=everything(rights()))
    alice = cluster.user("alice", port=alone)
    alice.until(lambda output: output.code == 0, "auth", "can-i", "list", "pods")
    assert may_delete(alice, "kube-system")  # by flags, no answer is no opinion
    bob = cluster.user("bob", port=alone)
    assert "InternalError" in bob.refused("get", "pods", "-n", "team-a")


def test_alone_nobody_holds_a_token_of_ours(cluster: Cluster, alone: int) -> None:
    somebody = cluster.bearer("somebody", "a-token", port=alone)
    assert "Unauthorized" in somebody.refused("get", "pods", "-n", "team-a")


def test_pods_are_reviewed(cluster: Cluster, answered: int) -> None:
    admin = cluster.user("admin", "system:masters", port=answered)
    assert "label owner is missing" in admin.create_refused(pod("web", "team-a"))
    made = admin.create(pod("web", "team-a", labels={"owner": "a"}), "-o", "json").json()
    assert made["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_images_are_reviewed_but_for_those_of_the_system(cluster: Cluster, answered: int) -> None:
    admin = cluster.user("admin", "system:masters", port=answered)
    strange = "other.example.com/app:1"
    assert strange in admin.create_refused(pod("strange", "team-a", labels={"owner": "a"}, image=strange))
    admin.create(pod("strange", "kube-system", image=strange))


def test_access_and_tokens_are_reviewed(cluster: Cluster, answered: int) -> None:
    admin = cluster.user("admin", "system:masters", port=answered)
    admin("apply", "--validate=false", "-f", "-", given=everything(rights()))
    jane = cluster.bearer("jane", "janes-token", port=answered)
    jane.until(lambda output: output.out.startswith("yes"), "auth", "can-i", "list", "pods")
    assert may_delete(jane, "team-a")
    assert not may_delete(jane, "kube-system")

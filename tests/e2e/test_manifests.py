"""What ``webhooks manifests`` writes, applied as it is; and registrations that a server keeps in step."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from webhooks import certificates
from webhooks.certificates import ca_bundle, pairs, signing
from webhooks.certificates.ca import store_ca
from webhooks.cluster import connect
from webhooks.cluster.ca_bundle_sync import CaBundleSync
from webhooks.cluster.client import ClusterClient
from webhooks.errors import ClusterError
from webhooks.observability.metrics import MetricRegistry

from .api import Api
from .cluster import Another, Cluster
from .kubectl import Json
from .objects import config_map, pod, thing
from .processes import Process, free_ports, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

POLICIES = Path(__file__).with_name("manifests_policies.py")
VERSION = "1.20"
CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
DENIED = 'admission webhook "validate.webhooks.svc.io" denied the request: missing labels: owner'
SECONDS = 60


def written(folder: Path, *options: object, code: int = 0) -> str:
    """Run `webhooks manifests`, as users do."""
    command = [sys.executable, "-m", "webhooks", "manifests", "--cluster-version", VERSION, *map(str, options)]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("WEBHOOKS_", "KUBE"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def another(cluster: Cluster) -> Another:
    """An API server that asks nobody yet."""
    found = cluster.another("--authorization-mode=RBAC")
    for name in ("shop", "webhooks"):
        found.admin.create(thing("v1", "Namespace", name, None, labels={"kubernetes.io/metadata.name": name}))
    label = ("label", "namespace", "kube-system", "kubernetes.io/metadata.name=kube-system")
    found.admin.until(lambda output: output.code == 0, *label)  # it is made a moment after the start
    return found


class Served:
    """A folder with certificates and manifests, and the port that they are for."""

    def __init__(self, cluster: Cluster, folder: Path, port: int) -> None:
        self._cluster = cluster
        self.folder = folder
        self.port = port
        self.certs = folder / "certs"
        self.servers: list[Process] = []

    def serve(self, name: str, port: int | None = None, *options: object) -> Process:
        told = ("--policies", POLICIES, "--certs-dir", self.certs, "--ops-port", 0)
        self.servers.append(self._cluster.serve(f"{name}-{self.port}", port or self.port, *told, *options))
        return self.servers[-1]

    def manifests(self, *options: object) -> Path:
        """The file of the registrations."""
        url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{self.port}", "--ca-bundle", self.certs / "ca.pem")
        written(self.folder, "--policies", POLICIES, "--only", "webhook-configurations", "-o", "out", *url, *options)
        return self.folder / "out" / "3-webhook-configurations.yaml"


@pytest.fixture
def served(cluster: Cluster, another: Another, tmp_path: Path) -> Iterator[Served]:
    """Certificates, and a port where nobody answers yet; what was registered is gone afterwards."""
    found = Served(cluster, tmp_path, free_ports(1)[0])
    certificates.issue(found.certs, names=["127.0.0.1"])
    yield found
    another.admin("delete", *(f"{kind}/webhooks" for kind in KINDS), "--ignore-not-found")
    with another.api() as api:
        _until_answers(api, "gone", 201)
    for server in found.servers:
        server.stop()


def register(another: Another, served: Served, *options: object) -> Path:
    """Apply the registrations, and wait until the API server asks: that takes it a moment."""
    file = served.manifests(*options)
    another.admin.apply(file)
    return file


def _until_answers(api: Api, name: str, code: int) -> None:
    """Wait until something without an owner gets this answer, which tells whether the API server asks."""
    given = config_map(f"asked-{name}")

    def probe() -> bool:
        reply = api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", given)
        changed = reply.object.get("data", {}).get("default") if reply.code == 201 else None
        return reply.code == code and not (code == 201 and changed)

    wait_for(f"the API server answers {code}", probe)


def test_users_see_denials_defaults_and_warnings(another: Another, served: Served) -> None:
    served.serve("webhooks")
    register(another, served, "--exempt-namespace", "webhooks")
    admin = another.admin
    with another.api() as api:
        _until_answers(api, "first", 403)
    assert DENIED in admin.create_refused(config_map("asked-nobody"))
    created = admin.create(config_map("asked-mine", labels={"owner": "me"}))
    assert "Warning: owners are asked every year" in created.err
    assert admin.get("configmap", "asked-mine", "-n", "shop")["data"] == {"default": "yes"}
    # Where the server and the cluster start from, nobody is asked.
    for namespace in ("webhooks", "kube-system"):
        admin.create(config_map("asked-nobody", namespace))


def test_each_policy_by_itself_behind_a_service(another: Another, served: Served) -> None:
    """API servers take no underscore in the path of a Service, whatever a policy is called."""
    names = ("library:required_labels", "library:default_seccomp", POLICIES)
    policies = [part for name in names for part in ("--policies", name)]
    told = ("--only", "webhook-configurations", "--per-policy", "-o", "out", "--ca-bundle", served.certs / "ca.pem")
    written(served.folder, *policies, *told)
    file = served.folder / "out" / "3-webhook-configurations.yaml"
    paths = {
        webhook["clientConfig"]["service"]["path"]
        for registration in yaml.safe_load_all(file.read_text())
        for webhook in registration["webhooks"]
    }
    assert {"/admission/validate/required-labels", "/admission/mutate/default-seccomp"} < paths
    another.admin("apply", "--dry-run=server", f"-f={file}")


def test_drift_is_told(another: Another, served: Served) -> None:
    register(another, served)
    admin = another.admin
    url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{served.port}", "--ca-bundle", served.certs / "ca.pem")
    told = (
        "--policies",
        POLICIES,
        "--only",
        "webhook-configurations",
        *url,
        "--check",
        "--kubeconfig",
        admin.kubeconfig,
    )
    assert written(served.folder, *told) == ""
    patch = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    admin("patch", KINDS[1], "webhooks", "--type=json", "-p", json.dumps(patch))
    assert written(served.folder, *told, code=1) == (
        "ValidatingWebhookConfiguration webhooks: webhooks[validate.webhooks.svc.io].failurePolicy: "
        'expected "Fail", but is "Ignore"\n'
    )
    admin("label", KINDS[1], "webhooks", "app.kubernetes.io/managed-by=others", "--overwrite")
    assert "belongs to another program" in written(served.folder, *told, code=1)
    admin("delete", KINDS[1], "webhooks")
    assert written(served.folder, *told, code=1) == "ValidatingWebhookConfiguration webhooks: missing\n"


def test_a_cluster_that_cannot_be_asked_is_told_of(another: Another, served: Served) -> None:
    kubeconfig = another.user("nobody").kubeconfig
    told = ("--policies", POLICIES, "--no-ca-bundle", "--only", "webhook-configurations", "--check", "--kubeconfig")
    assert "403: " in written(served.folder, *told, kubeconfig, code=2)
    assert "no context 'other'; it has me" in written(served.folder, *told, kubeconfig, "--context", "other", code=2)
    assert "nothing.yaml: no such file" in written(served.folder, *told, "nothing.yaml", code=2)
    down = served.folder / "down.yaml"
    down.write_text(kubeconfig.read_text().replace(f":{another.port}", f":{free_ports(1)[0]}"))
    assert "no response" in written(served.folder, *told, down, code=2)


@pytest.mark.parametrize(("failure_policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_what_becomes_of_requests_while_nobody_answers(
    another: Another, served: Served, failure_policy: str, code: int
) -> None:
    server = served.serve("webhooks")
    register(another, served, "--failure-policy", failure_policy)
    with another.api() as api:
        _until_answers(api, "before", 403)
        assert server.stop()
        reply = api.ask("POST", CONFIG_MAPS, config_map(f"asked-{failure_policy.lower()}"))
        assert reply.code == code, reply
        assert ("failed calling webhook" in reply.object.get("message", "")) is (code == 500)
        served.serve("webhooks-again")
        _until_answers(api, "after", 403)


def test_the_whole_of_it_is_taken(another: Another, served: Served) -> None:
    """Everything for a cluster that runs the server, in the order of the files; nothing is different then."""
    configuration = served.folder / "webhooks.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "webhooks.svc.io/v1alpha1",
                "kind": "WebhookConfiguration",
                "server": {"syncCaBundle": "webhooks"},
                "policies": [{"use": "policies/mine.py:owned"}, {"use": "library:default_seccomp"}],
            }
        )
    )
    (served.folder / "policies").mkdir()
    (served.folder / "policies" / "mine.py").write_text(POLICIES.read_text())
    told = (
        "--config",
        "webhooks.yaml",
        "--only",
        "server",
        "--only",
        "webhook-configurations",
        "--failure-policy",
        "Ignore",
    )
    written(served.folder, *told, "-o", "out")
    another.admin.apply(served.folder / "out")
    assert written(served.folder, *told, "--check", "--kubeconfig", another.admin.kubeconfig) == ""
    assert written(served.folder, *told, "--check", "-o", "out") == ""
    (served.folder / "policies" / "mine.py").write_text(POLICIES.read_text() + "\n# changed\n")
    drift = written(served.folder, *told, "--check", "--kubeconfig", another.admin.kubeconfig, code=1)
    assert "ConfigMap webhooks/webhooks-policies: data.mine.py" in drift
    assert "Deployment webhooks/webhooks: spec.template.metadata.annotations" in drift


def keeper(another: Another, folder: Path) -> Path:
    """A kubeconfig of the service account that the manifests make, with the rights that they give it."""
    test_folder = folder / "rights"
    (test_folder).mkdir()
    (test_folder / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        "server: {syncCaBundle: webhooks}\npolicies: [{use: library:required_labels}]\n"
    )
    written(test_folder, "--config", "webhooks.yaml", "--only", "server", "-o", "out")
    another.admin.apply(test_folder / "out")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    with another.api() as api:
        token = api.create("/api/v1/namespaces/webhooks/serviceaccounts/webhooks/token", request)["status"]["token"]
    kubeconfig = json.loads(another.admin.kubeconfig.read_text())
    (folder / "token").write_text(token)
    kubeconfig["users"] = [{"name": "me", "user": {"tokenFile": "token"}}]
    file = folder / "keeper.yaml"
    file.write_text(yaml.safe_dump(kubeconfig))
    return file


def bundles(api: Api) -> list[list[x509.Certificate]]:
    """Whom the API server trusts, by registration."""
    found = [api.ask("GET", f"{REGISTRATIONS}/{kind}/webhooks").object for kind in KINDS]
    texts = [webhook["clientConfig"].get("caBundle", "") for each in found for webhook in each["webhooks"]]
    return [x509.load_pem_x509_certificates(base64.b64decode(text)) if text else [] for text in texts]


def nearly_due(folder: Path, wait: timedelta) -> None:
    """Certificates that are good, of an authority that is to be followed by another after a while."""
    now = datetime.now(UTC)
    found = signing.get_validity(signing.create_ca(now).certificate)
    due = found.not_before + (found.not_after - found.not_before) * 2 / 3
    for file in folder.iterdir():
        file.unlink()
    authority = store_ca(folder, signing.create_ca(now - (due - now) + wait))
    pairs.write(pairs.ServingPair.from_directory(folder), *signing.sign_server(authority, ["127.0.0.1"], now))


class Stream:
    """Writes one after another, half of which must be denied, and what became of those that had another answer."""

    def __init__(self, another: Another) -> None:
        self._another = another
        self.count = 0
        self.wrong: list[str] = []
        self._ended = threading.Event()

    @contextmanager
    def running(self, writers: int = 3) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]
        threads.append(threading.Thread(target=self._type))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def grown_by(self, count: int) -> None:
        """Wait until so many more have been answered."""
        goal = self.count + count
        wait_for(f"{count} more writes", lambda: self.count >= goal, seconds=SECONDS)

    def _write(self, writer: int) -> None:
        with self._another.api() as api:
            number = 0
            while not self._ended.is_set():
                number += 1
                name = f"asked-{writer}-{number}-{self._another.port}"
                denied = api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(name))
                if denied.code != 403:
                    self.wrong.append(f"{name} without an owner: {denied.code} {denied.object}")
                allowed = api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(name, labels={"owner": "me"}))
                if allowed.code != 201 or allowed.object.get("data") != {"default": "yes"}:
                    self.wrong.append(f"{name}: {allowed.code} {allowed.object}")
                self.count += 2

    def _type(self) -> None:
        while not self._ended.is_set():
            given = config_map("asked-typed")
            output = self._another.admin.run("create", "--dry-run=server", "-f", "-", given=given)
            if DENIED not in output.err:
                self.wrong.append(f"kubectl: {output}")
            self.count += 1


def test_a_rotation_loses_nothing(another: Another, served: Served) -> None:
    """Certificate and authority are exchanged under load; the registrations follow, by rights to them alone."""
    nearly_due(served.certs, timedelta(minutes=20))
    old = x509.load_pem_x509_certificate((served.certs / "ca.pem").read_bytes())
    kept = ("--sync-ca-bundle", "webhooks", "--kubeconfig", keeper(another, served.folder))
    # Whoever waits for somebody to fill it in writes no bundle at all.
    url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{served.port}", "--no-ca-bundle")
    written(served.folder, "--policies", POLICIES, "--only", "webhook-configurations", "-o", "out", *url)
    another.admin.apply(served.folder / "out")
    served.serve("webhooks", None, *kept)
    [second] = free_ports(1)
    served.serve("webhooks-second", second, *kept)  # a replica that keeps them too
    stream = Stream(another)
    with another.api() as api:
        wait_for("the authority is trusted", lambda: bundles(api) == [[old], [old]], seconds=SECONDS)
        _until_answers(api, "trusted", 403)
        with stream.running():
            stream.grown_by(100)
            # Certificates begin an hour before they are made, so those of a while later are good now.
            assert certificates.renew(served.certs, now=datetime.now(UTC) + timedelta(minutes=30))
            new = x509.load_pem_x509_certificates((served.certs / "ca.pem").read_bytes())
            assert len(new) == 2
            wait_for(
                "both are trusted", lambda: [set(each) for each in bundles(api)] == [set(new)] * 2, seconds=SECONDS
            )
            wait_for("the new one serves", lambda: _issuer(served.port) == new[0].subject, seconds=SECONDS)
            for _ in range(3):
                certificates.issue(served.certs)
                stream.grown_by(60)
    assert stream.wrong == []


def _issuer(port: int) -> x509.Name:
    """Who signed what is shown to callers."""
    import ssl

    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()).issuer


class Balancer:
    """Takes connections at a port to servers that say they are ready, as a Service does."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(taken,), daemon=True).start()

    def _join(self, taken: socket.socket) -> None:
        with taken, socket.create_connection(("127.0.0.1", self.ready[0])) as other:
            back = threading.Thread(target=self._carry, args=(other, taken), daemon=True)
            back.start()
            self._carry(taken, other)
            back.join()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


def _is_ready(ops_port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ops_port}/readyz", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def test_a_rolling_replacement_loses_nothing(another: Another, served: Served) -> None:
    """As a Deployment does it: the next one is there before one goes, and who goes is no longer ready first."""
    with ExitStack() as stack:
        balancer = Balancer()
        stack.callback(balancer.close)
        served.port = balancer.port
        running: list[tuple[Process, int, int]] = []

        def begin(name: str) -> None:
            port, ops_port = free_ports(2)
            process = served.serve(name, port, "--ops-port", ops_port, "--shutdown-delay", "1s", "--grace", "10s")
            running.append((process, port, ops_port))
            balancer.ready.append(port)

        def end() -> None:
            process, port, ops_port = running.pop(0)
            os.kill(process.pid, signal.SIGTERM)
            wait_for("it is not ready", lambda: not _is_ready(ops_port))
            balancer.ready.remove(port)
            assert process._child.wait(30) == 0

        for name in ("one", "two"):
            begin(name)
        register(another, served)
        stream = Stream(another)
        with another.api() as api:
            _until_answers(api, "rolling", 403)
        with stream.running():
            for number in range(4):
                stream.grown_by(60)
                begin(f"next-{number}")
                end()
            stream.grown_by(60)
        assert stream.wrong == []


def test_registrations_of_others_are_left_alone(another: Another, served: Served) -> None:
    url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{served.port}", "--no-ca-bundle")
    told = ("--policies", POLICIES, "--only", "webhook-configurations", "-o", "out", "--failure-policy", "Ignore", *url)
    written(served.folder, *told)
    another.admin.apply(served.folder / "out")
    another.admin("label", KINDS[1], "webhooks", "app.kubernetes.io/managed-by=others", "--overwrite")
    kept = ("--sync-ca-bundle", "webhooks", "--kubeconfig", keeper(another, served.folder))
    server = served.serve("webhooks", None, *kept)
    server.wait_until(lambda: "does not have the label" in server.text(), seconds=SECONDS)
    with another.api() as api:
        wait_for("ours is in step", lambda: bundles(api)[0], seconds=SECONDS)
        assert bundles(api)[1] == []


def test_a_server_without_rights_serves_and_says_so(another: Another, served: Served) -> None:
    register(another, served)
    before = served.certs.rename(served.folder / "before")
    certificates.issue(served.certs, names=["127.0.0.1"])
    kept = ("--sync-ca-bundle", "--kubeconfig", another.user("nobody-at-all").kubeconfig)
    server = served.serve("webhooks", None, *kept)
    server.wait_until(lambda: "403: " in server.text(), seconds=SECONDS)
    trusted = x509.load_pem_x509_certificates((before / "ca.pem").read_bytes())
    with another.api() as api:
        assert bundles(api) == [trusted, trusted]


def test_the_api_servers_own_files_are_taken(cluster: Cluster, served: Served) -> None:
    """Another API server is started with the flags that are written: about access, tokens, images and admission."""
    folder = served.folder / "out" / "apiserver"
    callers = served.folder / "callers"
    certificates.issue_client(callers, "apiserver")
    configuration = served.folder / "webhooks.yaml"
    configuration.write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        f"server: {{port: {served.port}, clientCa: callers/ca.pem, allowClient: [apiserver]}}\n"
        f"policies: [{{use: {POLICIES}}}]\n"
    )
    told = ("--config", "webhooks.yaml", "--reached-by", "localhost", "--ca-bundle", served.certs / "ca.pem")
    written(served.folder, *told, "--api-server-dir", folder, "-o", "out")
    for name in ("apiserver.pem", "apiserver-key.pem"):
        (folder / name).write_bytes((callers / name).read_bytes())
    client = ("--client-ca", callers / "ca.pem", "--allow-client", "apiserver")
    served.serve("webhooks", None, *client)
    found = cluster.another(*(folder / "flags").read_text().split())
    found.admin.create(thing("v1", "Namespace", "shop", None))
    found.admin.apply(served.folder / "out")
    with found.api() as api:
        _until_answers(api, "first", 403)
    assert DENIED in found.admin.create_refused(config_map("asked-nobody"))
    error = found.admin.create_refused(pod("foreign", image="elsewhere.example.com/app:1"))
    assert "not from our registry: elsewhere.example.com/app:1" in error
    assert "the vault is sealed" in found.user("alice").refused("get", "secrets", "-n", "vault")
    jane = found.bearer("jane", "janes-token")
    jane.until(lambda output: output.code == 0, "get", "configmaps")


class Disturbed:
    """A cluster where somebody else changes whatever has been read, a few times."""

    def __init__(self, cluster: ClusterClient, another: Another, times: int) -> None:
        self._cluster = cluster
        self._another = another
        self.times = times

    def get(self, path: str) -> Json:
        found = self._cluster.get(path)
        if self.times:
            self.times -= 1
            kind, name = path.split("/")[-2:]
            self._another.admin("annotate", f"{kind}/{name}", f"disturbed={self.times}", "--overwrite")
        return found

    def patch(self, path: str, patch: Json, media_type: str) -> Json:
        return self._cluster.patch(path, patch, media_type)


@pytest.mark.parametrize(("times", "kept"), [(3, True), (9, False)])
def test_a_conflict_is_survived(another: Another, served: Served, times: int, kept: bool) -> None:
    register(another, served, "--failure-policy", "Ignore")
    other = signing.create_ca(datetime.now(UTC)).certificate
    file = served.folder / "other.pem"
    file.write_bytes(ca_bundle.to_pem([other]))
    with connect(another.admin.kubeconfig, None) as cluster, another.api() as api:
        before = bundles(api)
        keeper = CaBundleSync("webhooks", file, Disturbed(cluster, another, times), MetricRegistry())
        if kept:
            assert keeper.sync(KINDS[0])
            assert bundles(api)[0] == [other, *before[0]]
            assert not keeper.sync(KINDS[0])
        else:
            with pytest.raises(ClusterError, match="409: "):
                keeper.sync(KINDS[0])
            assert bundles(api) == before


def test_servers_with_authorities_of_their_own_are_all_trusted(another: Another, served: Served) -> None:
    """Two at once, over and over, and one of them from the beginning again."""
    register(another, served, "--failure-policy", "Ignore")
    own = [signing.create_ca(datetime.now(UTC)).certificate for _ in range(2)]
    for number, each in enumerate(own):
        (served.folder / f"{number}.pem").write_bytes(ca_bundle.to_pem([each]))

    def keep(number: int) -> None:
        for _ in range(5):
            with connect(another.admin.kubeconfig, None) as cluster:
                CaBundleSync("webhooks", served.folder / f"{number}.pem", cluster, MetricRegistry()).sync_all()

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = x509.load_pem_x509_certificates((served.certs / "ca.pem").read_bytes())
    with another.api() as api:
        assert [set(each) for each in bundles(api)] == [{*own, *first}] * 2

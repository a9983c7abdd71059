"""The output of ``webhooks manifests`` on a real API server, and the synchronization of CA bundles."""

import base64
import json
import os
import signal
import socket
import ssl
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
from .cluster import ApiServer, Cluster
from .kubectl import Json
from .objects import config_map, make_object, pod
from .processes import Process, free_ports, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

POLICIES = Path(__file__).with_name("manifests_policies.py")
VERSION = "1.20"
CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
CONFIGURATIONS_PATH = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
DENIED = 'admission webhook "validate.webhooks.svc.io" denied the request: missing labels: owner'
SECONDS = 60


def run_manifests(folder: Path, *options: object, code: int = 0) -> str:
    """Run `webhooks manifests` and return its output."""
    command = [sys.executable, "-m", "webhooks", "manifests", "--cluster-version", VERSION, *map(str, options)]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("WEBHOOKS_", "KUBE"))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=folder, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def api_server(cluster: Cluster) -> ApiServer:
    """An API server without webhook configurations."""
    started = cluster.start_api_server("--authorization-mode=RBAC")
    for name in ("shop", "webhooks"):
        started.admin.create(make_object("v1", "Namespace", name, None, labels={"kubernetes.io/metadata.name": name}))
    label = ("label", "namespace", "kube-system", "kubernetes.io/metadata.name=kube-system")
    started.admin.retry_until(lambda output: output.code == 0, *label)  # created shortly after the start
    return started


class ServedFolder:
    """A folder with certificates and manifests for a server on a port."""

    def __init__(self, cluster: Cluster, folder: Path, port: int) -> None:
        self._cluster = cluster
        self.folder = folder
        self.port = port
        self.certs = folder / "certs"
        self.servers: list[Process] = []

    def serve(self, name: str, port: int | None = None, *options: object) -> Process:
        arguments = ("--policies", POLICIES, "--certs-dir", self.certs, "--ops-port", 0)
        self.servers.append(self._cluster.serve(f"{name}-{self.port}", port or self.port, *arguments, *options))
        return self.servers[-1]

    def manifests(self, *options: object) -> Path:
        """Write the webhook configurations, and return their file."""
        url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{self.port}", "--ca-bundle", self.certs / "ca.pem")
        run_manifests(
            self.folder, "--policies", POLICIES, "--only", "webhook-configurations", "-o", "out", *url, *options
        )
        return self.folder / "out" / "3-webhook-configurations.yaml"


@pytest.fixture
def served(cluster: Cluster, api_server: ApiServer, tmp_path: Path) -> Iterator[ServedFolder]:
    """A folder with certificates, without a server yet. Webhook configurations are deleted after the test."""
    folder = ServedFolder(cluster, tmp_path, free_ports(1)[0])
    certificates.issue(folder.certs, names=["127.0.0.1"])
    yield folder
    api_server.admin("delete", *(f"{kind}/webhooks" for kind in KINDS), "--ignore-not-found")
    with api_server.api() as api:
        _await_response(api, "deleted", 201)
    for server in folder.servers:
        server.stop()


def apply_configurations(api_server: ApiServer, served: ServedFolder, *options: object) -> None:
    """Apply the webhook configurations. The API server uses them after a moment."""
    api_server.admin.apply(served.manifests(*options))


def _await_response(api: Api, name: str, code: int) -> None:
    """Wait until the response to an object without an owner has a code: 403 if the webhooks are called."""
    body = config_map(f"reviewed-{name}")

    def probe() -> bool:
        reply = api.request("POST", f"{CONFIG_MAPS}?dryRun=All", body)
        mutated = reply.object.get("data", {}).get("default") if reply.code == 201 else None
        return reply.code == code and not (code == 201 and mutated)

    wait_for(f"the API server responds {code}", probe)


def test_users_see_denials_defaults_and_warnings(api_server: ApiServer, served: ServedFolder) -> None:
    served.serve("webhooks")
    apply_configurations(api_server, served, "--exempt-namespace", "webhooks")
    admin = api_server.admin
    with api_server.api() as api:
        _await_response(api, "first", 403)
    assert DENIED in admin.create_error(config_map("reviewed-nobody"))
    created = admin.create(config_map("reviewed-mine", labels={"owner": "me"}))
    assert "Warning: owners are reviewed every year" in created.err
    assert admin.get("configmap", "reviewed-mine", "-n", "shop")["data"] == {"default": "yes"}
    # The namespaces of the server and of the control plane are exempt.
    for namespace in ("webhooks", "kube-system"):
        admin.create(config_map("reviewed-nobody", namespace))


def test_a_webhook_for_each_policy_behind_a_service(api_server: ApiServer, served: ServedFolder) -> None:
    """API servers reject underscores in the path of a Service, so they are replaced."""
    names = ("library:required_labels", "library:default_seccomp", POLICIES)
    policies = [part for name in names for part in ("--policies", name)]
    arguments = (
        "--only",
        "webhook-configurations",
        "--per-policy",
        "-o",
        "out",
        "--ca-bundle",
        served.certs / "ca.pem",
    )
    run_manifests(served.folder, *policies, *arguments)
    file = served.folder / "out" / "3-webhook-configurations.yaml"
    paths = {
        webhook["clientConfig"]["service"]["path"]
        for webhook_configuration in yaml.safe_load_all(file.read_text())
        for webhook in webhook_configuration["webhooks"]
    }
    assert {"/admission/validate/required-labels", "/admission/mutate/default-seccomp"} < paths
    api_server.admin("apply", "--dry-run=server", f"-f={file}")


def test_drift_is_reported(api_server: ApiServer, served: ServedFolder) -> None:
    apply_configurations(api_server, served)
    admin = api_server.admin
    url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{served.port}", "--ca-bundle", served.certs / "ca.pem")
    arguments = (
        "--policies",
        POLICIES,
        "--only",
        "webhook-configurations",
        *url,
        "--check",
        "--kubeconfig",
        admin.kubeconfig,
    )
    assert run_manifests(served.folder, *arguments) == ""
    patch = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    admin("patch", KINDS[1], "webhooks", "--type=json", "-p", json.dumps(patch))
    assert run_manifests(served.folder, *arguments, code=1) == (
        "ValidatingWebhookConfiguration webhooks: webhooks[validate.webhooks.svc.io].failurePolicy: "
        'expected "Fail", but is "Ignore"\n'
    )
    admin("label", KINDS[1], "webhooks", "app.kubernetes.io/managed-by=others", "--overwrite")
    assert "belongs to another program" in run_manifests(served.folder, *arguments, code=1)
    admin("delete", KINDS[1], "webhooks")
    assert run_manifests(served.folder, *arguments, code=1) == "ValidatingWebhookConfiguration webhooks: missing\n"


def test_errors_of_the_cluster_are_reported(api_server: ApiServer, served: ServedFolder) -> None:
    kubeconfig = api_server.user("nobody").kubeconfig
    arguments = (
        "--policies",
        POLICIES,
        "--no-ca-bundle",
        "--only",
        "webhook-configurations",
        "--check",
        "--kubeconfig",
    )
    assert "403: " in run_manifests(served.folder, *arguments, kubeconfig, code=2)
    assert "no context 'other'; it has me" in run_manifests(
        served.folder, *arguments, kubeconfig, "--context", "other", code=2
    )
    assert "nothing.yaml: no such file" in run_manifests(served.folder, *arguments, "nothing.yaml", code=2)
    down = served.folder / "down.yaml"
    down.write_text(kubeconfig.read_text().replace(f":{api_server.port}", f":{free_ports(1)[0]}"))
    assert "no response" in run_manifests(served.folder, *arguments, down, code=2)


@pytest.mark.parametrize(("failure_policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_the_failure_policy_applies_while_the_server_is_down(
    api_server: ApiServer, served: ServedFolder, failure_policy: str, code: int
) -> None:
    server = served.serve("webhooks")
    apply_configurations(api_server, served, "--failure-policy", failure_policy)
    with api_server.api() as api:
        _await_response(api, "before", 403)
        assert server.stop()
        reply = api.request("POST", CONFIG_MAPS, config_map(f"reviewed-{failure_policy.lower()}"))
        assert reply.code == code, reply
        assert ("failed calling webhook" in reply.object.get("message", "")) is (code == 500)
        served.serve("webhooks-again")
        _await_response(api, "after", 403)


def test_all_manifests_are_accepted_without_drift(api_server: ApiServer, served: ServedFolder) -> None:
    """All files for a server in the cluster are applied in their order."""
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
    arguments = (
        "--config",
        "webhooks.yaml",
        "--only",
        "server",
        "--only",
        "webhook-configurations",
        "--failure-policy",
        "Ignore",
    )
    run_manifests(served.folder, *arguments, "-o", "out")
    api_server.admin.apply(served.folder / "out")
    assert run_manifests(served.folder, *arguments, "--check", "--kubeconfig", api_server.admin.kubeconfig) == ""
    assert run_manifests(served.folder, *arguments, "--check", "-o", "out") == ""
    (served.folder / "policies" / "mine.py").write_text(POLICIES.read_text() + "\n# changed\n")
    drift = run_manifests(served.folder, *arguments, "--check", "--kubeconfig", api_server.admin.kubeconfig, code=1)
    assert "ConfigMap webhooks/webhooks-policies: data.mine.py" in drift
    assert "Deployment webhooks/webhooks: spec.template.metadata.annotations" in drift


def service_account_kubeconfig(api_server: ApiServer, folder: Path) -> Path:
    """Write a kubeconfig of the service account in the manifests, with the rights that they grant."""
    manifests = folder / "rights"
    manifests.mkdir()
    (manifests / "webhooks.yaml").write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        "server: {syncCaBundle: webhooks}\npolicies: [{use: library:required_labels}]\n"
    )
    run_manifests(manifests, "--config", "webhooks.yaml", "--only", "server", "-o", "out")
    api_server.admin.apply(manifests / "out")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    with api_server.api() as api:
        token = api.create("/api/v1/namespaces/webhooks/serviceaccounts/webhooks/token", request)["status"]["token"]
    kubeconfig = json.loads(api_server.admin.kubeconfig.read_text())
    (folder / "token").write_text(token)
    kubeconfig["users"] = [{"name": "me", "user": {"tokenFile": "token"}}]
    file = folder / "service-account.yaml"
    file.write_text(yaml.safe_dump(kubeconfig))
    return file


def bundles(api: Api) -> list[list[x509.Certificate]]:
    """Return the CAs that the API server trusts for each webhook."""
    objects = [api.request("GET", f"{CONFIGURATIONS_PATH}/{kind}/webhooks").object for kind in KINDS]
    texts = [webhook["clientConfig"].get("caBundle", "") for obj in objects for webhook in obj["webhooks"]]
    return [x509.load_pem_x509_certificates(base64.b64decode(text)) if text else [] for text in texts]


def write_certificates_near_renewal(folder: Path, wait: timedelta) -> None:
    """Write valid certificates of a CA that is to be renewed after some time."""
    now = datetime.now(UTC)
    validity = signing.get_validity(signing.create_ca(now).certificate)
    due = validity.not_before + (validity.not_after - validity.not_before) * 2 / 3
    for file in folder.iterdir():
        file.unlink()
    ca = store_ca(folder, signing.create_ca(now - (due - now) + wait))
    pairs.write(pairs.ServingPair.from_directory(folder), *signing.sign_server(ca, ["127.0.0.1"], now))


class Stream:
    """Continuous writes, half of which must be denied, and those with an unexpected result."""

    def __init__(self, api_server: ApiServer) -> None:
        self._api_server = api_server
        self.count = 0
        self.unexpected: list[str] = []
        self._stopped = threading.Event()

    @contextmanager
    def running(self, writers: int = 3) -> Iterator[None]:
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]
        threads.append(threading.Thread(target=self._type))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    def await_writes(self, count: int) -> None:
        """Wait for this number of further writes."""
        goal = self.count + count
        wait_for(f"{count} more writes", lambda: self.count >= goal, seconds=SECONDS)

    def _write(self, writer: int) -> None:
        with self._api_server.api() as api:
            number = 0
            while not self._stopped.is_set():
                number += 1
                name = f"reviewed-{writer}-{number}-{self._api_server.port}"
                denied = api.request("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(name))
                if denied.code != 403:
                    self.unexpected.append(f"{name} without an owner: {denied.code} {denied.object}")
                allowed = api.request("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(name, labels={"owner": "me"}))
                if allowed.code != 201 or allowed.object.get("data") != {"default": "yes"}:
                    self.unexpected.append(f"{name}: {allowed.code} {allowed.object}")
                self.count += 2

    def _type(self) -> None:
        while not self._stopped.is_set():
            body = config_map("reviewed-typed")
            output = self._api_server.admin.run("create", "--dry-run=server", "-f", "-", body=body)
            if DENIED not in output.err:
                self.unexpected.append(f"kubectl: {output}")
            self.count += 1


def test_a_rotation_fails_no_request(api_server: ApiServer, served: ServedFolder) -> None:
    """The certificate and its CA are replaced under load. The CA bundles are kept in sync with minimal rights."""
    write_certificates_near_renewal(served.certs, timedelta(minutes=20))
    old = x509.load_pem_x509_certificate((served.certs / "ca.pem").read_bytes())
    sync_options = (
        "--sync-ca-bundle",
        "webhooks",
        "--kubeconfig",
        service_account_kubeconfig(api_server, served.folder),
    )
    # Whoever waits for somebody to fill it in writes no bundle at all.
    url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{served.port}", "--no-ca-bundle")
    run_manifests(served.folder, "--policies", POLICIES, "--only", "webhook-configurations", "-o", "out", *url)
    api_server.admin.apply(served.folder / "out")
    served.serve("webhooks", None, *sync_options)
    [second] = free_ports(1)
    served.serve("webhooks-second", second, *sync_options)  # a replica with the same task
    stream = Stream(api_server)
    with api_server.api() as api:
        wait_for("the CA is trusted", lambda: bundles(api) == [[old], [old]], seconds=SECONDS)
        _await_response(api, "trusted", 403)
        with stream.running():
            stream.await_writes(100)
            # Certificates are valid from an hour before they are issued, so those of a later time are valid now.
            assert certificates.renew(served.certs, now=datetime.now(UTC) + timedelta(minutes=30))
            new = x509.load_pem_x509_certificates((served.certs / "ca.pem").read_bytes())
            assert len(new) == 2
            wait_for(
                "both are trusted", lambda: [set(bundle) for bundle in bundles(api)] == [set(new)] * 2, seconds=SECONDS
            )
            wait_for("the new one serves", lambda: _serving_issuer(served.port) == new[0].subject, seconds=SECONDS)
            for _ in range(3):
                certificates.issue(served.certs)
                stream.await_writes(60)
    assert stream.unexpected == []


def _serving_issuer(port: int) -> x509.Name:
    """Return the issuer of the certificate that a server presents."""
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()).issuer


class LoadBalancer:
    """Forwards connections to servers that are ready, as a Service does."""

    def __init__(self) -> None:
        self.ready: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client_socket, _ = self._listener.accept()
                threading.Thread(target=self._forward, args=(client_socket,), daemon=True).start()

    def _forward(self, client_socket: socket.socket) -> None:
        with client_socket, socket.create_connection(("127.0.0.1", self.ready[0])) as other:
            back = threading.Thread(target=self._copy, args=(other, client_socket), daemon=True)
            back.start()
            self._copy(client_socket, other)
            back.join()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


def _is_ready(ops_port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{ops_port}/readyz", timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def test_a_rolling_update_fails_no_request(api_server: ApiServer, served: ServedFolder) -> None:
    """As in a Deployment, a new server starts before an old one stops, which first becomes not ready."""
    with ExitStack() as stack:
        balancer = LoadBalancer()
        stack.callback(balancer.close)
        served.port = balancer.port
        running: list[tuple[Process, int, int]] = []

        def start_replica(name: str) -> None:
            port, ops_port = free_ports(2)
            process = served.serve(name, port, "--ops-port", ops_port, "--shutdown-delay", "1s", "--grace", "10s")
            running.append((process, port, ops_port))
            balancer.ready.append(port)

        def stop_replica() -> None:
            process, port, ops_port = running.pop(0)
            os.kill(process.pid, signal.SIGTERM)
            wait_for("it is not ready", lambda: not _is_ready(ops_port))
            balancer.ready.remove(port)
            assert process._child.wait(30) == 0

        for name in ("one", "two"):
            start_replica(name)
        apply_configurations(api_server, served)
        stream = Stream(api_server)
        with api_server.api() as api:
            _await_response(api, "rolling", 403)
        with stream.running():
            for number in range(4):
                stream.await_writes(60)
                start_replica(f"next-{number}")
                stop_replica()
            stream.await_writes(60)
        assert stream.unexpected == []


def test_webhook_configurations_of_other_programs_are_not_changed(api_server: ApiServer, served: ServedFolder) -> None:
    url = ("--reached-by", "url", "--url", f"https://127.0.0.1:{served.port}", "--no-ca-bundle")
    arguments = (
        "--policies",
        POLICIES,
        "--only",
        "webhook-configurations",
        "-o",
        "out",
        "--failure-policy",
        "Ignore",
        *url,
    )
    run_manifests(served.folder, *arguments)
    api_server.admin.apply(served.folder / "out")
    api_server.admin("label", KINDS[1], "webhooks", "app.kubernetes.io/managed-by=others", "--overwrite")
    sync_options = (
        "--sync-ca-bundle",
        "webhooks",
        "--kubeconfig",
        service_account_kubeconfig(api_server, served.folder),
    )
    server = served.serve("webhooks", None, *sync_options)
    server.wait_until(lambda: "does not have the label" in server.text(), seconds=SECONDS)
    with api_server.api() as api:
        wait_for("the own CA bundle is in sync", lambda: bundles(api)[0], seconds=SECONDS)
        assert bundles(api)[1] == []


def test_a_server_without_rights_serves_and_logs_it(api_server: ApiServer, served: ServedFolder) -> None:
    apply_configurations(api_server, served)
    before = served.certs.rename(served.folder / "before")
    certificates.issue(served.certs, names=["127.0.0.1"])
    sync_options = ("--sync-ca-bundle", "--kubeconfig", api_server.user("nobody-at-all").kubeconfig)
    server = served.serve("webhooks", None, *sync_options)
    server.wait_until(lambda: "403: " in server.text(), seconds=SECONDS)
    trusted = x509.load_pem_x509_certificates((before / "ca.pem").read_bytes())
    with api_server.api() as api:
        assert bundles(api) == [trusted, trusted]


def test_the_files_for_the_api_server_are_accepted(cluster: Cluster, served: ServedFolder) -> None:
    """An API server starts with the generated flags for authorization, authentication, images and admission."""
    folder = served.folder / "out" / "apiserver"
    clients = served.folder / "clients"
    certificates.issue_client(clients, "apiserver")
    configuration = served.folder / "webhooks.yaml"
    configuration.write_text(
        "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
        f"server: {{port: {served.port}, clientCa: clients/ca.pem, allowClient: [apiserver]}}\n"
        f"policies: [{{use: {POLICIES}}}]\n"
    )
    arguments = ("--config", "webhooks.yaml", "--reached-by", "localhost", "--ca-bundle", served.certs / "ca.pem")
    run_manifests(served.folder, *arguments, "--api-server-dir", folder, "-o", "out")
    for name in ("apiserver.pem", "apiserver-key.pem"):
        (folder / name).write_bytes((clients / name).read_bytes())
    client = ("--client-ca", clients / "ca.pem", "--allow-client", "apiserver")
    served.serve("webhooks", None, *client)
    api_server = cluster.start_api_server(*(folder / "flags").read_text().split())
    api_server.admin.create(make_object("v1", "Namespace", "shop", None))
    api_server.admin.apply(served.folder / "out")
    with api_server.api() as api:
        _await_response(api, "first", 403)
    assert DENIED in api_server.admin.create_error(config_map("reviewed-nobody"))
    error = api_server.admin.create_error(pod("foreign", image="elsewhere.example.com/app:1"))
    assert "not from our registry: elsewhere.example.com/app:1" in error
    assert "the vault is sealed" in api_server.user("alice").error("get", "secrets", "-n", "vault")
    jane = api_server.bearer("jane", "janes-token")
    jane.retry_until(lambda output: output.code == 0, "get", "configmaps")


class ConflictingClient:
    """A client of the cluster whose first objects are changed by another user after they are read."""

    def __init__(self, cluster: ClusterClient, api_server: ApiServer, times: int) -> None:
        self._cluster = cluster
        self._api_server = api_server
        self.times = times

    def get(self, path: str) -> Json:
        response = self._cluster.get(path)
        if self.times:
            self.times -= 1
            kind, name = path.split("/")[-2:]
            self._api_server.admin("annotate", f"{kind}/{name}", f"changed={self.times}", "--overwrite")
        return response

    def patch(self, path: str, patch: Json, media_type: str) -> Json:
        return self._cluster.patch(path, patch, media_type)


@pytest.mark.parametrize(("times", "succeeds"), [(3, True), (9, False)])
def test_conflicts_are_retried(api_server: ApiServer, served: ServedFolder, times: int, succeeds: bool) -> None:
    apply_configurations(api_server, served, "--failure-policy", "Ignore")
    other = signing.create_ca(datetime.now(UTC)).certificate
    file = served.folder / "other.pem"
    file.write_bytes(ca_bundle.to_pem([other]))
    with connect(api_server.admin.kubeconfig, None) as cluster, api_server.api() as api:
        before = bundles(api)
        client = ConflictingClient(cluster, api_server, times)
        ca_bundle_sync = CaBundleSync("webhooks", file, client, MetricRegistry())
        if succeeds:
            assert ca_bundle_sync.sync(KINDS[0])
            assert bundles(api)[0] == [other, *before[0]]
            assert not ca_bundle_sync.sync(KINDS[0])
        else:
            with pytest.raises(ClusterError, match="409: "):
                ca_bundle_sync.sync(KINDS[0])
            assert bundles(api) == before


def test_the_cas_of_several_servers_are_all_trusted(api_server: ApiServer, served: ServedFolder) -> None:
    """Two servers synchronize their CAs repeatedly at the same time."""
    apply_configurations(api_server, served, "--failure-policy", "Ignore")
    cas = [signing.create_ca(datetime.now(UTC)).certificate for _ in range(2)]
    for number, ca in enumerate(cas):
        (served.folder / f"{number}.pem").write_bytes(ca_bundle.to_pem([ca]))

    def synchronize(number: int) -> None:
        for _ in range(5):
            with connect(api_server.admin.kubeconfig, None) as cluster:
                CaBundleSync("webhooks", served.folder / f"{number}.pem", cluster, MetricRegistry()).sync_all()

    threads = [threading.Thread(target=synchronize, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = x509.load_pem_x509_certificates((served.certs / "ca.pem").read_bytes())
    with api_server.api() as api:
        assert [set(bundle) for bundle in bundles(api)] == [{*cas, *first}] * 2

"""A control plane without controllers: etcd, an API server, and the webhook server that it calls."""

import base64
import json
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import objects
from .api import Api
from .certificates import CertificateAuthority, Pair, write_key
from .kubectl import Json, Kubectl
from .processes import Process, Processes, free_ports, wait_for

ROOT = Path(__file__).resolve().parents[2]
POLICIES = Path(__file__).with_name("policies.py")
START_SECONDS = 60

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, {"level": "Metadata"}],
}


class Cluster:
    """The cluster that all end-to-end tests share. The constructor starts it; `processes` stops it."""

    def __init__(self, assets: Path, folder: Path, processes: Processes) -> None:
        self._assets = assets
        self._folder = folder
        self._processes = processes
        self.port, self.ops_port, self._api_port, self._etcd_port, self._etcd_peer_port = free_ports(5)
        self._users = CertificateAuthority("cluster-ca", folder)
        self._operator = self._users.user("operator", ("system:masters",))
        self._serving = self._users.server("kube-apiserver")
        self._service_accounts = write_key(folder / "service-accounts.pem")
        self._client_ca = CertificateAuthority("clients-ca", folder)
        self.client = self._client_ca.user("apiserver-webhook-client")
        self.unlisted = self._client_ca.user("unlisted")
        self.untrusted = CertificateAuthority("untrusted-ca", folder).user("untrusted")
        self.token = secrets.token_hex(32)
        self._audit_log = folder / "audit.log"

        etcd = self._start_etcd()
        self.server = self._start_server()
        url = f"https://127.0.0.1:{self.port}"
        self.ca = folder / "certs" / "ca.pem"
        api_server = self._start_main_api_server(url)
        self.admin = self.user("admin", "system:masters")
        self.alice = self.user("alice")
        self.bob = self.user("bob")
        self.carol = self.user("carol", "admins")
        etcd.wait_until(lambda: "ready to serve client requests" in etcd.text(), seconds=START_SECONDS)
        api_server.wait_until(lambda: self.admin.run("get", "--raw=/readyz").code == 0, seconds=START_SECONDS)
        self._create_objects(url)

    def user(self, name: str, *groups: str, port: int | None = None) -> Kubectl:
        """Return kubectl for a user with a client certificate, at this API server or one on another port."""
        pair = self._users.user(name, groups)
        return self._kubectl(name, _certificate(pair), port)

    def bearer(self, name: str, token: str, port: int | None = None) -> Kubectl:
        """Return kubectl with a bearer token; `name` is used for its files."""
        return self._kubectl(name, {"token": token}, port)

    def api(self) -> Api:
        """Return a connection of the administrator."""
        return self._api(self._api_port)

    def start_api_server(self, *flags: str) -> "ApiServer":
        """Start another API server with its own objects. It calls only the webhooks in these flags."""
        [port] = free_ports(1)
        process = self._start_api_server(f"kube-apiserver-{port}", port, *flags)
        with self._api(port) as api:
            process.wait_until(api.is_ready, seconds=START_SECONDS)
        return ApiServer(port, self)

    def start_limiting_api_server(self, admission: Path) -> Api:
        """Start another API server with its own EventRateLimit plugin; return a connection of its administrator."""
        [port] = free_ports(1)
        plugin = ("--enable-admission-plugins=EventRateLimit", f"--admission-control-config-file={admission}")
        process = self._start_api_server(f"kube-apiserver-{port}", port, *plugin)
        api = self._api(port)
        process.wait_until(api.is_ready, seconds=START_SECONDS)
        return api

    @contextmanager
    def running_api_server(self, *flags: str) -> Iterator[int]:
        """Run another API server with its own objects within the block; return its port."""
        [port] = free_ports(1)
        process = self._start_api_server(f"kube-apiserver-{port}", port, *flags)
        try:
            with self._api(port) as api:
                process.wait_until(api.is_ready, seconds=START_SECONDS)
            yield port
        finally:
            self._processes.stop(process)

    def serve(self, name: str, port: int, *options: object) -> Process:
        """Start a webhook server and wait until it is ready. All of them share a certificate folder."""
        process = self._processes.start(
            name,
            *(sys.executable, "-m", "webhooks", "serve"),
            *("--host", "127.0.0.1", "--port", port),
            *("--certs-dir", self._folder / "certs"),
            *("--shutdown-delay", 0),
            *options,
            cwd=ROOT,
            env={key: value for key, value in os.environ.items() if not key.startswith("WEBHOOKS_")},
        )
        process.wait_until(lambda: f"ready https://127.0.0.1:{port}" in process.text(), seconds=START_SECONDS)
        return process

    def await_audit_event(self, verb: str, resource: str, name: str) -> Json:
        """Wait for an event in the audit log, and return the first one."""

        def matches(event: Json) -> bool:
            reference = event.get("objectRef", {})
            target = (event["verb"], reference.get("resource"), reference.get("name"), reference.get("subresource"))
            return target == (verb, resource, name, None)

        def probe() -> Json | None:
            lines = self._audit_log.read_text().splitlines(keepends=True)
            events = (json.loads(line) for line in lines if line.endswith("\n"))
            return next(filter(matches, events), None)

        return wait_for(f"{verb} {resource} {name} is in the audit log", probe)

    def _start_etcd(self) -> Process:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._etcd_peer_port))
        return self._processes.start(
            "etcd",
            self._assets / "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            env=_minimal_environment(self._folder),
        )

    def _start_server(self) -> Process:
        """Start the webhook server that most tests use."""
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{self.token},the API server\n")
        options = ("--policies", POLICIES, "--ops-port", self.ops_port, "--workers", 2)
        clients = ("--client-ca", self._client_ca.certificate, "--allow-client", "apiserver-webhook-client")
        return self.serve("webhooks", self.port, *options, *clients, "--token-file", tokens)

    def _start_main_api_server(self, url: str) -> Process:
        """Start the API server that calls the webhook server for everything."""
        return self._start_api_server(
            "kube-apiserver",
            self._api_port,
            "--enable-admission-plugins=ImagePolicyWebhook",
            f"--admission-control-config-file={self._admission_config(url)}",
            "--authorization-mode=Webhook,RBAC",
            f"--authorization-webhook-config-file={self._webhook_kubeconfig('authorization', f'{url}/authorize')}",
            "--authorization-webhook-version=v1",
            "--authorization-webhook-cache-authorized-ttl=1ms",
            "--authorization-webhook-cache-unauthorized-ttl=1ms",
            f"--authentication-token-webhook-config-file={self._webhook_kubeconfig('tokens', f'{url}/authenticate')}",
            "--authentication-token-webhook-version=v1",
            "--authentication-token-webhook-cache-ttl=1s",
            f"--audit-policy-file={_write(self._folder / 'audit.json', AUDIT_POLICY)}",
            f"--audit-log-path={self._audit_log}",
            "--audit-log-mode=blocking",
            "--feature-gates=EphemeralContainers=true",
        )

    def _start_api_server(self, name: str, port: int, *flags: str) -> Process:
        """Start an API server that stores its objects under its own prefix."""
        return self._processes.start(
            name,
            self._assets / "kube-apiserver",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self._users.certificate}",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--etcd-prefix=/{name}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self._service_accounts}",
            f"--service-account-key-file={self._service_accounts}",
            # There is no controller that creates service accounts for pods.
            "--disable-admission-plugins=ServiceAccount",
            *flags,
            env=_minimal_environment(self._folder),
        )

    def _webhook_kubeconfig(self, name: str, url: str) -> Path:
        """Write the kubeconfig with which the API server calls a webhook."""
        return self._kubeconfig(f"webhook-{name}", url, self.ca, self._client_credentials())

    def _client_credentials(self) -> Json:
        """Return the credentials of the API server as a client: a certificate and a token."""
        file = self._folder / "client-token"
        file.write_text(f"{self.token}\n")
        return {**_certificate(self.client), "tokenFile": str(file)}

    def _admission_config(self, url: str) -> Path:
        """Write the AdmissionConfiguration: the credentials for admission webhooks by host, and the image policy."""
        users = [{"name": url.removeprefix("https://"), "user": self._client_credentials()}]
        kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": users}
        credentials = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(_write(self._folder / "admission-kubeconfig.json", kubeconfig)),
        }
        images = {
            "kubeConfigFile": str(self._webhook_kubeconfig("images", f"{url}/images")),
            "allowTTL": 1,
            "denyTTL": 1,
            "retryBackoff": 100,
            "defaultAllow": False,
        }
        plugins = [
            {"name": "MutatingAdmissionWebhook", "configuration": credentials},
            {"name": "ValidatingAdmissionWebhook", "configuration": credentials},
            {"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": images}},
        ]
        configuration = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": plugins,
        }
        self.admission = _write(self._folder / "admission.json", configuration)
        return self.admission

    def _api(self, port: int) -> Api:
        return Api(port, self._users.certificate, self._operator)

    def _kubectl(self, name: str, credentials: Json, port: int | None = None) -> Kubectl:
        url = f"https://127.0.0.1:{port or self._api_port}"
        name = f"kubectl-{name}-{port}" if port else f"kubectl-{name}"
        kubeconfig = self._kubeconfig(name, url, self._users.certificate, credentials)
        return Kubectl(self._assets / "kubectl", kubeconfig)

    def _kubeconfig(self, name: str, url: str, ca: Path, credentials: Json) -> Path:
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": {"server": url, "certificate-authority": str(ca)}}],
            "users": [{"name": "me", "user": credentials}],
            "contexts": [{"name": "me", "context": {"cluster": "it", "user": "me", "namespace": "shop"}}],
            "current-context": "me",
        }
        return _write(self._folder / f"{name}.json", configuration)

    def _create_objects(self, url: str) -> None:
        """Create the objects that the tests need, and wait until the API server uses them."""
        ca_bundle = base64.b64encode(self.ca.read_bytes()).decode()
        items = [
            objects.WIDGETS,
            *objects.namespaces(),
            *objects.rbac_objects(),
            *objects.webhook_configurations(url, ca_bundle),
        ]
        self.admin.create(objects.object_list(items))
        probe = objects.config_map("are-you-registered")
        command = ("create", "--dry-run=server", "-f", "-")
        self.admin.retry_until(lambda output: "both are registered" in output.err, *command, body=probe)
        self.alice.retry_until(lambda output: output.code == 0, "auth", "can-i", "create", "pods")
        self.admin.retry_until(lambda output: output.code == 0, "get", "widgets")


class ApiServer:
    """Another API server of the cluster."""

    def __init__(self, port: int, cluster: Cluster) -> None:
        self.port = port
        self._cluster = cluster
        self.admin = self.user("admin", "system:masters")

    def api(self) -> Api:
        """Return a connection of the administrator."""
        return self._cluster._api(self.port)

    def user(self, name: str, *groups: str) -> Kubectl:
        """Return kubectl for a user with a client certificate."""
        pair = self._cluster._users.user(f"{name}-{self.port}", groups)
        return self._cluster._kubectl(name, _certificate(pair), self.port)

    def bearer(self, name: str, token: str) -> Kubectl:
        """Return kubectl with a bearer token."""
        return self._cluster._kubectl(name, {"token": token}, self.port)


def _write(path: Path, content: Json) -> Path:
    path.write_text(json.dumps(content, indent=2))
    return path


def _certificate(pair: Pair) -> Json:
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def _minimal_environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.defpath}

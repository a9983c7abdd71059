"""A control plane as far as webhooks see it: etcd, an API server, and our server that it asks."""

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
from .certificates import Authority, Pair, write_key
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
    """Starts in its constructor; `processes` ends what it started. Every user is a `Kubectl`."""

    def __init__(self, assets: Path, folder: Path, processes: Processes) -> None:
        self._assets = assets
        self._folder = folder
        self._processes = processes
        self.port, self.ops_port, self._api_port, self._etcd_port, self._etcd_peer_port = free_ports(5)
        self._users = Authority("cluster-ca", folder)
        self._operator = self._users.user("operator", ("system:masters",))
        self._serving = self._users.server("kube-apiserver")
        self._service_accounts = write_key(folder / "service-accounts.pem")
        self._callers = Authority("callers-ca", folder)
        self.caller = self._callers.user("kube-apiserver-as-caller")
        self.unlisted = self._callers.user("unlisted")
        self.stranger = Authority("strangers-ca", folder).user("stranger")
        self.token = secrets.token_hex(32)
        self._audit_log = folder / "audit.log"

        etcd = self._start_etcd()
        self.server = self._start_server()
        url = f"https://127.0.0.1:{self.port}"
        self.authority = folder / "certs" / "ca.pem"
        api_server = self._start_asking(url)
        self.admin = self.user("admin", "system:masters")
        self.alice = self.user("alice")
        self.bob = self.user("bob")
        self.carol = self.user("carol", "admins")
        etcd.wait_until(lambda: "ready to serve client requests" in etcd.text(), seconds=START_SECONDS)
        api_server.wait_until(lambda: self.admin.run("get", "--raw=/readyz").code == 0, seconds=START_SECONDS)
        self._fill(url)

    def user(self, name: str, *groups: str, port: int | None = None) -> Kubectl:
        """A user known by a client certificate, of this API server or the one at another port."""
        pair = self._users.user(name, groups)
        return self._kubectl(name, _certificate(pair), port)

    def bearer(self, name: str, token: str, port: int | None = None) -> Kubectl:
        """Somebody who shows a token; `name` only tells this one's files from others'."""
        return self._kubectl(name, {"token": token}, port)

    def api(self) -> Api:
        """The administrator, without kubectl."""
        return self._api(self._api_port)

    def another(self, *flags: str) -> "Another":
        """One more API server, with objects of its own and, but for these flags, nobody that it asks."""
        [port] = free_ports(1)
        process = self._start_api_server(f"kube-apiserver-{port}", port, *flags)
        with self._api(port) as api:
            process.wait_until(api.is_ready, seconds=START_SECONDS)
        return Another(port, self)

    def limited(self, admission: Path) -> Api:
        """The administrator of one more API server, which limits events by its own plugin as that file says."""
        [port] = free_ports(1)
        plugin = ("--enable-admission-plugins=EventRateLimit", f"--admission-control-config-file={admission}")
        process = self._start_api_server(f"kube-apiserver-{port}", port, *plugin)
        api = self._api(port)
        process.wait_until(api.is_ready, seconds=START_SECONDS)
        return api

    @contextmanager
    def beside(self, *flags: str) -> Iterator[int]:
        """One more API server, with these flags and objects of its own, for as long as the block lasts; its port."""
        [port] = free_ports(1)
        process = self._start_api_server(f"kube-apiserver-{port}", port, *flags)
        try:
            with self._api(port) as api:
                process.wait_until(api.is_ready, seconds=START_SECONDS)
            yield port
        finally:
            self._processes.stop(process)

    def serve(self, name: str, port: int, *options: object) -> Process:
        """A server of ours, once it answers; its certificate is one that the first of them has issued to itself."""
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

    def audited(self, verb: str, resource: str, name: str) -> Json:
        """The first such event in the audit log, as soon as it is there."""

        def wanted(event: Json) -> bool:
            about = event.get("objectRef", {})
            told = (event["verb"], about.get("resource"), about.get("name"), about.get("subresource"))
            return told == (verb, resource, name, None)

        def probe() -> Json | None:
            lines = self._audit_log.read_text().splitlines(keepends=True)
            events = (json.loads(line) for line in lines if line.endswith("\n"))
            return next(filter(wanted, events), None)

        return wait_for(f"the audit log tells of {verb} {resource} {name}", probe)

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
            env=_bare_environment(self._folder),
        )

    def _start_server(self) -> Process:
        """Our own that most tests are about."""
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{self.token},the API server\n")
        options = ("--policies", POLICIES, "--ops-port", self.ops_port, "--workers", 2)
        callers = ("--client-ca", self._callers.certificate, "--allow-client", "kube-apiserver-as-caller")
        return self.serve("webhooks", self.port, *options, *callers, "--token-file", tokens)

    def _start_asking(self, url: str) -> Process:
        """The API server that asks our server about everything."""
        return self._start_api_server(
            "kube-apiserver",
            self._api_port,
            "--enable-admission-plugins=ImagePolicyWebhook",
            f"--admission-control-config-file={self._admission(url)}",
            "--authorization-mode=Webhook,RBAC",
            f"--authorization-webhook-config-file={self._callback('authorization', f'{url}/authorize')}",
            "--authorization-webhook-version=v1",
            "--authorization-webhook-cache-authorized-ttl=1ms",
            "--authorization-webhook-cache-unauthorized-ttl=1ms",
            f"--authentication-token-webhook-config-file={self._callback('tokens', f'{url}/authenticate')}",
            "--authentication-token-webhook-version=v1",
            "--authentication-token-webhook-cache-ttl=1s",
            f"--audit-policy-file={_write(self._folder / 'audit.json', AUDIT_POLICY)}",
            f"--audit-log-path={self._audit_log}",
            "--audit-log-mode=blocking",
            "--feature-gates=EphemeralContainers=true",
        )

    def _start_api_server(self, name: str, port: int, *flags: str) -> Process:
        """One that keeps its objects under its own name."""
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
            # Nothing here runs controllers: no service account would ever be there for a pod.
            "--disable-admission-plugins=ServiceAccount",
            *flags,
            env=_bare_environment(self._folder),
        )

    def _callback(self, name: str, url: str) -> Path:
        """How the API server reaches our server for one of its questions."""
        return self._kubeconfig(f"callback-{name}", url, self.authority, self._proof())

    def _proof(self) -> Json:
        """What the API server shows to our server: a certificate and a token."""
        file = self._folder / "caller-token"
        file.write_text(f"{self.token}\n")
        return {**_certificate(self.caller), "tokenFile": str(file)}

    def _admission(self, url: str) -> Path:
        """What is shown to admission webhooks, found by their host; and the image policy."""
        users = [{"name": url.removeprefix("https://"), "user": self._proof()}]
        callers = {"apiVersion": "v1", "kind": "Config", "users": users}
        credentials = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(_write(self._folder / "admission-callers.json", callers)),
        }
        images = {
            "kubeConfigFile": str(self._callback("images", f"{url}/images")),
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

    def _kubeconfig(self, name: str, url: str, authority: Path, credentials: Json) -> Path:
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": {"server": url, "certificate-authority": str(authority)}}],
            "users": [{"name": "me", "user": credentials}],
            "contexts": [{"name": "me", "context": {"cluster": "it", "user": "me", "namespace": "shop"}}],
            "current-context": "me",
        }
        return _write(self._folder / f"{name}.json", configuration)

    def _fill(self, url: str) -> None:
        """Create what the tests build upon, and wait until the API server acts on it."""
        authority = base64.b64encode(self.authority.read_bytes()).decode()
        content = [
            objects.WIDGETS,
            *objects.namespaces(),
            *objects.rights(),
            *objects.registrations(url, authority),
        ]
        self.admin.create(objects.everything(content))
        question = objects.config_map("are-you-registered")
        ask = ("create", "--dry-run=server", "-f", "-")
        self.admin.until(lambda output: "both are registered" in output.err, *ask, given=question)
        self.alice.until(lambda output: output.code == 0, "auth", "can-i", "create", "pods")
        self.admin.until(lambda output: output.code == 0, "get", "widgets")


class Another:
    """One more API server, as its users see it."""

    def __init__(self, port: int, cluster: Cluster) -> None:
        self.port = port
        self._cluster = cluster
        self.admin = self.user("admin", "system:masters")

    def api(self) -> Api:
        """The administrator, without kubectl."""
        return self._cluster._api(self.port)

    def user(self, name: str, *groups: str) -> Kubectl:
        """A user known by a client certificate."""
        pair = self._cluster._users.user(f"{name}-{self.port}", groups)
        return self._cluster._kubectl(name, _certificate(pair), self.port)

    def bearer(self, name: str, token: str) -> Kubectl:
        """Somebody who shows a token."""
        return self._cluster._kubectl(name, {"token": token}, self.port)


def _write(path: Path, content: Json) -> Path:
    path.write_text(json.dumps(content, indent=2))
    return path


def _certificate(pair: Pair) -> Json:
    return {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}


def _bare_environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.defpath}

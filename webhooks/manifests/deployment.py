"""What runs the server in a cluster: as little as it needs, with no rights but those that a feature asks for."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from webhooks.errors import ConfigurationError
from webhooks.kube.registered import PLURALS
from webhooks.manifests.server_files import HOME, Sources
from webhooks.manifests.target import DISRUPTION_BUDGETS, Target
from webhooks.manifests.webhook_configurations import Json, labels
from webhooks.settings import Settings

_MAX_CONFIG_MAP = 1024 * 1024  # bytes, the API's own
_USER = 65532
_REVIEWS, _OPERATIONS = 8443, 8080
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_SELECTOR = {"app.kubernetes.io/name": "webhooks"}


@dataclass(frozen=True)
class Workload:
    """The server in a cluster.

    Attributes:
        settings: what it is told.
        sources: its files.
        target: where it runs.
    """

    settings: Settings
    sources: Sources
    target: Target

    @property
    def name(self) -> str:
        """Of all its objects."""
        return self.target.name

    @property
    def calls(self) -> list[str]:
        """The features that have it call somebody."""
        settings = self.settings
        known = {
            "--oidc-issuer": settings.oidc_issuer is not None,
            "--admission-config": settings.admission_config is not None,
            "--tracing": settings.tracing,
            "--sync-ca-bundle": settings.sync_ca_bundle is not None,
        }
        return [name for name, on in known.items() if on]

    def namespace(self) -> Json:
        """Where it runs; its name as a label, which older clusters do not set by themselves."""
        name = self.target.namespace
        found = self._object("v1", "Namespace", name)
        del found["metadata"]["namespace"]
        found["metadata"]["labels"] |= {
            "kubernetes.io/metadata.name": name,
            "pod-security.kubernetes.io/enforce": "restricted",
        }
        return found

    def service_account(self) -> Json:
        """Who it is: nobody in particular, and its pods get no token."""
        return self._object("v1", "ServiceAccount", self.name, automountServiceAccountToken=False)

    def rights(self) -> list[Json]:
        """What it may do in the cluster: nothing, unless it keeps its own registrations in step."""
        managed = self.settings.sync_ca_bundle
        if managed is None:
            return []
        group = "rbac.authorization.k8s.io"
        rule = {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": list(PLURALS),
            "resourceNames": [managed],
            "verbs": ["get", "patch"],
        }
        role = self._object(f"{group}/v1", "ClusterRole", f"{self.name}-registrations", rules=[rule])
        binding = self._object(
            f"{group}/v1",
            "ClusterRoleBinding",
            f"{self.name}-registrations",
            roleRef={"apiGroup": group, "kind": "ClusterRole", "name": f"{self.name}-registrations"},
            subjects=[{"kind": "ServiceAccount", "name": self.name, "namespace": self.target.namespace}],
        )
        for each in (role, binding):
            del each["metadata"]["namespace"]
        return [role, binding]

    def config_maps(self) -> list[Json]:
        """Its files, those of configuration and those of policies.

        Raises:
            ConfigurationError: they are more than fits into one.
        """
        found = []
        for suffix, files in (("configuration", self.sources.configuration), ("policies", self.sources.policies)):
            data = {_key(path): content for path, content in sorted(files.items())}
            if len(data) < len(files) or not all(map(_KEY.fullmatch, data)):
                names = ", ".join(sorted(files))
                raise ConfigurationError(
                    f"a ConfigMap cannot tell these files apart, or cannot name one: {names}: rename them"
                )
            if sum(len(key) + len(content.encode()) for key, content in data.items()) > _MAX_CONFIG_MAP:
                raise ConfigurationError(
                    f"the files of {suffix} are over 1 MiB, more than a ConfigMap holds: package them"
                )
            if data:
                found.append(self._object("v1", "ConfigMap", f"{self.name}-{suffix}", data=data))
        return found

    def service(self) -> Json:
        """Where the API server finds it."""
        ports = [
            {"name": "reviews", "port": 443, "targetPort": "reviews"},
            {"name": "ops", "port": _OPERATIONS, "targetPort": "ops"},
        ]
        return self._object("v1", "Service", self.name, spec={"selector": self._selector, "ports": ports})

    def disruption_budget(self) -> Json:
        """That one may be away at a time."""
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": self._selector}}
        version = "v1" if self.target.version >= DISRUPTION_BUDGETS else "v1beta1"
        return self._object(f"policy/{version}", "PodDisruptionBudget", self.name, spec=spec)

    def network_policy(self) -> Json:
        """Who reaches it, and whom it reaches.

        The API server is no pod, so no selector tells it from others; who is heard is for --client-ca to say.
        """
        scrapers = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
        spec = {
            "podSelector": {"matchLabels": self._selector},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": [{"port": "reviews", "protocol": "TCP"}]},
                {"from": [scrapers], "ports": [{"port": "ops", "protocol": "TCP"}]},
            ],
            "egress": [{}] if self.calls else [],
        }
        return self._object("networking.k8s.io/v1", "NetworkPolicy", self.name, spec=spec)

    def deployment(self) -> Json:
        """What runs it: replicas on different nodes, each replaced only when the one after it answers."""
        spread = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": self._selector},
            }
            for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
        ]
        ending = math.ceil(self.settings.shutdown_delay + self.settings.grace) + 5
        pod = {
            "serviceAccountName": self.name,
            "automountServiceAccountToken": self.settings.sync_ca_bundle is not None,
            "enableServiceLinks": False,
            "priorityClassName": "system-cluster-critical",
            "terminationGracePeriodSeconds": ending,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": spread,
            "containers": [self._container()],
            "volumes": [
                {"name": "home", "projected": {"defaultMode": 0o440, "sources": list(self._files())}},
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            ],
        }
        spec = {
            "replicas": self.target.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": self._selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": labels(self.name),
                    "annotations": {"webhooks.svc.io/files": self.sources.digest},
                },
                "spec": pod,
            },
        }
        return self._object("apps/v1", "Deployment", self.name, spec=spec)

    def _container(self) -> Json:
        def probe(path: str, **times: int) -> Json:
            return {"httpGet": {"path": path, "port": "ops"}, **times}

        return {
            "name": "webhooks",
            "image": self.target.image,
            "args": self.arguments(),
            "ports": [
                {"name": "reviews", "containerPort": _REVIEWS},
                {"name": "ops", "containerPort": _OPERATIONS},
            ],
            "startupProbe": probe("/readyz", periodSeconds=1, failureThreshold=60),
            "readinessProbe": probe("/readyz", periodSeconds=2, failureThreshold=1, timeoutSeconds=2),
            "livenessProbe": probe("/livez", periodSeconds=10, failureThreshold=3, timeoutSeconds=5),
            "resources": {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "512Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
            "volumeMounts": [
                {"name": "home", "mountPath": HOME, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            ],
        }

    def arguments(self) -> list[str]:
        """How it is started: where it listens and what it shows is the manifests' to say, the rest as it is here."""
        found = ["serve", *self.sources.told]
        if self.settings.sync_ca_bundle is not None:
            found.append(f"--sync-ca-bundle={self.settings.sync_ca_bundle}")
        return [
            *found,
            "--host=0.0.0.0",
            f"--port={_REVIEWS}",
            f"--ops-port={_OPERATIONS}",
            f"--tls-cert={HOME}/tls/tls.crt",
            f"--tls-key={HOME}/tls/tls.key",
        ]

    def _files(self) -> Iterator[Json]:
        """The sources of the one volume that holds them all, each in the place that its name says."""
        for suffix, files in (("configuration", self.sources.configuration), ("policies", self.sources.policies)):
            if files:
                items = [{"key": _key(path), "path": path} for path in sorted(files)]
                yield {"configMap": {"name": f"{self.name}-{suffix}", "items": items}}
        pair = [{"key": key, "path": f"tls/{key}"} for key in ("tls.crt", "tls.key")]
        if self.settings.sync_ca_bundle is not None:
            pair.append({"key": "ca.crt", "path": "tls/ca.crt"})
        yield {"secret": {"name": f"{self.name}-tls", "items": pair}}
        for path in self.sources.secret:
            yield {"secret": {"name": f"{self.name}-tokens", "items": [{"key": _key(path), "path": path}]}}

    @property
    def _selector(self) -> Mapping[str, str]:
        return {**_SELECTOR, "app.kubernetes.io/instance": self.name}

    def _object(self, api_version: str, kind: str, name: str, **fields: Any) -> Json:
        metadata = {"name": name, "namespace": self.target.namespace, "labels": labels(self.name)}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _key(path: str) -> str:
    """What a file is called in a ConfigMap or Secret, which have no folders."""
    return path.removeprefix("policies/").removeprefix("tokens/").replace("/", ".")

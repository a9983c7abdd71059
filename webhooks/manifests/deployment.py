"""The objects that run the server in a cluster, with the least permissions that its features need."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from webhooks.errors import ConfigurationError
from webhooks.kube.api_groups import WEBHOOK_CONFIGURATION_PLURALS
from webhooks.manifests.server_files import MOUNT_PATH, ServerFiles
from webhooks.manifests.target import DISRUPTION_BUDGET_V1, Target
from webhooks.manifests.webhook_configurations import Json, labels_for
from webhooks.settings import Settings

_MAX_CONFIG_MAP_SIZE = 1024 * 1024  # bytes; the limit of the API
_CONFIG_MAP_KEY = re.compile(r"[A-Za-z0-9_.-]{1,253}")
_UID = 65532
_REVIEW_PORT, _OPS_PORT = 8443, 8080
_EXIT_SECONDS = 5  # the time for the process to exit after its connections are closed
_RBAC_GROUP = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Workload:
    """Builds the objects of the server.

    Attributes:
        files: the files of the server.
        target: the cluster.
        sync_ca_bundle: the name of the webhook configurations that the server keeps in sync; None for none.
        outbound_features: the options that make the server open connections to others.
        termination_seconds: how long a pod may take to terminate.
    """

    files: ServerFiles
    target: Target
    sync_ca_bundle: str | None
    outbound_features: tuple[str, ...]
    termination_seconds: int

    @classmethod
    def from_settings(cls, settings: Settings, files: ServerFiles, target: Target) -> Self:
        """Return the workload for the settings of a server."""
        features = {
            "--oidc-issuer": settings.oidc_issuer is not None,
            "--admission-config": settings.admission_config is not None,
            "--tracing": settings.tracing,
            "--sync-ca-bundle": settings.sync_ca_bundle is not None,
        }
        return cls(
            files,
            target,
            settings.sync_ca_bundle,
            tuple(option for option, is_on in features.items() if is_on),
            math.ceil(settings.shutdown_delay + settings.grace) + _EXIT_SECONDS,
        )

    @property
    def name(self) -> str:
        """The name of all objects."""
        return self.target.name

    def namespace(self) -> Json:
        """Return the Namespace. It has its name as a label, which API servers set only since 1.22."""
        name = self.target.namespace
        namespace = self._cluster_object("v1", "Namespace", name)
        namespace["metadata"]["labels"] |= {
            "kubernetes.io/metadata.name": name,
            "pod-security.kubernetes.io/enforce": "restricted",
        }
        return namespace

    def service_account(self) -> Json:
        """Return the ServiceAccount. Pods get no token unless the Deployment requests one."""
        return self._object("v1", "ServiceAccount", self.name, automountServiceAccountToken=False)

    def rbac(self) -> list[Json]:
        """Return the ClusterRole and its binding; none unless the server keeps webhook configurations in sync."""
        if self.sync_ca_bundle is None:
            return []
        name = f"{self.name}-registrations"
        rule = {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": list(WEBHOOK_CONFIGURATION_PLURALS),
            "resourceNames": [self.sync_ca_bundle],
            "verbs": ["get", "patch"],
        }
        binding = {
            "roleRef": {"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.target.namespace}],
        }
        return [
            self._cluster_object(f"{_RBAC_GROUP}/v1", "ClusterRole", name, rules=[rule]),
            self._cluster_object(f"{_RBAC_GROUP}/v1", "ClusterRoleBinding", name, **binding),
        ]

    def config_maps(self) -> list[Json]:
        """Return the ConfigMaps with the configuration files and the policy files.

        Raises:
            ConfigurationError: the files do not fit into a ConfigMap.
        """
        config_maps = []
        for name, files in self._config_map_files():
            data = {_config_map_key(path): content for path, content in sorted(files.items())}
            if len(data) < len(files) or not all(map(_CONFIG_MAP_KEY.fullmatch, data)):
                raise ConfigurationError(
                    f"the names of these files are not unique or not valid as keys of a ConfigMap, "
                    f"{', '.join(sorted(files))}: rename them"
                )
            if sum(len(key) + len(content.encode()) for key, content in data.items()) > _MAX_CONFIG_MAP_SIZE:
                raise ConfigurationError(
                    f"the files of the ConfigMap {name} are larger than 1 MiB, its limit: install policies as a package"
                )
            config_maps.append(self._object("v1", "ConfigMap", name, data=data))
        return config_maps

    def service(self) -> Json:
        """Return the Service for API servers."""
        ports = [
            {"name": "reviews", "port": 443, "targetPort": "reviews"},
            {"name": "ops", "port": _OPS_PORT, "targetPort": "ops"},
        ]
        return self._object("v1", "Service", self.name, spec={"selector": self._selector, "ports": ports})

    def disruption_budget(self) -> Json:
        """Return the PodDisruptionBudget: one replica at a time may be evicted."""
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": self._selector}}
        version = "v1" if self.target.version >= DISRUPTION_BUDGET_V1 else "v1beta1"
        return self._object(f"policy/{version}", "PodDisruptionBudget", self.name, spec=spec)

    def network_policy(self) -> Json:
        """Return the NetworkPolicy.

        Reviews are accepted from any address: the API server is not a pod, so that no selector matches it. Its
        authentication is the task of ``--client-ca``.
        """
        prometheus = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}}}
        spec = {
            "podSelector": {"matchLabels": self._selector},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": [{"port": "reviews", "protocol": "TCP"}]},
                {"from": [prometheus], "ports": [{"port": "ops", "protocol": "TCP"}]},
            ],
            "egress": [{}] if self.outbound_features else [],
        }
        return self._object("networking.k8s.io/v1", "NetworkPolicy", self.name, spec=spec)

    def deployment(self) -> Json:
        """Return the Deployment: replicas on different nodes, each replaced only after a new one is ready."""
        metadata = {
            "labels": labels_for(self.name),
            "annotations": {"webhooks.svc.io/files": self.files.digest},
        }
        spec = {
            "replicas": self.target.replicas,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": self._selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": metadata, "spec": self._pod()},
        }
        return self._object("apps/v1", "Deployment", self.name, spec=spec)

    def _pod(self) -> Json:
        spread = [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": self._selector},
            }
            for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
        ]
        return {
            "serviceAccountName": self.name,
            "automountServiceAccountToken": self.sync_ca_bundle is not None,
            "enableServiceLinks": False,
            "priorityClassName": "system-cluster-critical",
            "terminationGracePeriodSeconds": self.termination_seconds,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _UID,
                "runAsGroup": _UID,
                "fsGroup": _UID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": spread,
            "containers": [self._container()],
            "volumes": [
                {"name": "home", "projected": {"defaultMode": 0o440, "sources": list(self._volume_sources())}},
                {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
            ],
        }

    def _container(self) -> Json:
        def probe(path: str, **times: int) -> Json:
            return {"httpGet": {"path": path, "port": "ops"}, **times}

        return {
            "name": "webhooks",
            "image": self.target.image,
            "args": self.arguments(),
            "ports": [
                {"name": "reviews", "containerPort": _REVIEW_PORT},
                {"name": "ops", "containerPort": _OPS_PORT},
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
                {"name": "home", "mountPath": MOUNT_PATH, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            ],
        }

    def arguments(self) -> list[str]:
        """Return the arguments of the container: those for its files, and the ports and paths of the Deployment."""
        arguments = ["serve", *self.files.arguments]
        if self.sync_ca_bundle is not None:
            arguments.append(f"--sync-ca-bundle={self.sync_ca_bundle}")
        return [
            *arguments,
            "--host=0.0.0.0",
            f"--port={_REVIEW_PORT}",
            f"--ops-port={_OPS_PORT}",
            f"--tls-cert={MOUNT_PATH}/tls/tls.crt",
            f"--tls-key={MOUNT_PATH}/tls/tls.key",
        ]

    def _config_map_files(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield the name and the files of each ConfigMap."""
        for suffix, files in (("configuration", self.files.configuration), ("policies", self.files.policies)):
            if files:
                yield f"{self.name}-{suffix}", files

    def _volume_sources(self) -> Iterator[Json]:
        """Yield the sources of the volume with all files; each file is projected to its path."""
        for name, files in self._config_map_files():
            items = [{"key": _config_map_key(path), "path": path} for path in sorted(files)]
            yield {"configMap": {"name": name, "items": items}}
        keys = ("tls.crt", "tls.key") if self.sync_ca_bundle is None else ("tls.crt", "tls.key", "ca.crt")
        yield {"secret": {"name": f"{self.name}-tls", "items": [{"key": key, "path": f"tls/{key}"} for key in keys]}}
        for path in self.files.secrets:
            items = [{"key": _config_map_key(path), "path": path}]
            yield {"secret": {"name": f"{self.name}-tokens", "items": items}}

    @property
    def _selector(self) -> Mapping[str, str]:
        return {"app.kubernetes.io/name": "webhooks", "app.kubernetes.io/instance": self.name}

    def _object(self, api_version: str, kind: str, name: str, **fields: Any) -> Json:
        metadata = {"name": name, "namespace": self.target.namespace, "labels": labels_for(self.name)}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}

    def _cluster_object(self, api_version: str, kind: str, name: str, **fields: Any) -> Json:
        metadata = {"name": name, "labels": labels_for(self.name)}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def _config_map_key(path: str) -> str:
    """Return the key of a file in a ConfigMap or Secret. Keys cannot contain slashes."""
    return path.removeprefix("policies/").removeprefix("tokens/").replace("/", ".")

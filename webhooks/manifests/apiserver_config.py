"""The configuration files of an API server that calls this server, and the flags that refer to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from webhooks.manifests.conditions import authorization_conditions
from webhooks.manifests.target import AUTHORIZATION_CONFIGURATION, AUTHORIZATION_CONFIGURATION_V1, Target
from webhooks.manifests.webhook_configurations import ADMISSION_KINDS, DEFAULT_TIMEOUT, Json, timeout_for
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.kinds import Kind
from webhooks.settings import Settings

CERTIFICATE_FILE, KEY_FILE, TOKEN_FILE, CA_FILE = "apiserver.pem", "apiserver-key.pem", "token", "ca.pem"
ADMISSION_KUBECONFIG = "admission-kubeconfig.yaml"
# The kubeconfig of each kind of review that flags configure, and the path of its URL.
CALLBACKS: Mapping[Kind, tuple[str, str]] = {
    "authorizing": ("authorize.yaml", "/authorize"),
    "authenticating": ("authenticate.yaml", "/authenticate"),
    "image_policy": ("images.yaml", "/images"),
}
_GROUP = "apiserver.config.k8s.io"


@dataclass(frozen=True)
class ApiServerConfig:
    """Builds the files of an API server.

    Attributes:
        policies: the policies of the server that it calls.
        target: the cluster.
        has_client_certificate: whether the API server authenticates with a client certificate.
        has_token: whether it authenticates with a bearer token.
    """

    policies: Sequence[AnyPolicy]
    target: Target
    has_client_certificate: bool = False
    has_token: bool = False

    @classmethod
    def from_settings(cls, settings: Settings, policies: Sequence[AnyPolicy], target: Target) -> Self:
        """Return the configuration for an API server that calls a server with these settings."""
        has_token = settings.token_file is not None or settings.oidc_issuer is not None
        return cls(policies, target, settings.client_ca is not None, has_token)

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of policies that flags configure, if there are such policies."""
        return [kind for kind in CALLBACKS if self._select_policies(kind)]

    @property
    def configures_admission(self) -> bool:
        """Whether admission needs files: for credentials, or for webhook configurations in files."""
        has_policies = any(map(self._select_policies, ADMISSION_KINDS))
        return has_policies and (self.target.static or bool(self._credentials()))

    @property
    def has_authorization_configuration(self) -> bool:
        """Whether authorization is configured by a file, which the cluster must support, and not by flags."""
        return self.target.version >= AUTHORIZATION_CONFIGURATION and "authorizing" in self.kinds

    @property
    def has_admission_configuration(self) -> bool:
        """Whether admission plugins are configured."""
        return any(True for _ in self._plugins())

    def kubeconfig(self, kind: Kind) -> Json:
        """Return the kubeconfig for a kind of review."""
        credentials = self._credentials()
        ca = {} if self.target.ca_bundle is None else {"certificate-authority": self.path(CA_FILE)}
        cluster = {"server": f"{self.target.url}{CALLBACKS[kind][1]}", **ca}
        context = {"cluster": "webhooks", **({"user": "apiserver"} if credentials else {})}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "webhooks", "cluster": cluster}],
            **({"users": [{"name": "apiserver", "user": credentials}]} if credentials else {}),
            "contexts": [{"name": "webhooks", "context": context}],
            "current-context": "webhooks",
        }

    def admission_kubeconfig(self) -> Json | None:
        """Return the kubeconfig with the credentials for admission webhooks; None if they need none.

        The name of its user is the host and port of the webhooks, by which API servers find it.
        """
        credentials = self._credentials()
        if not credentials:
            return None
        host = (
            f"{self.target.name}.{self.target.namespace}.svc"
            if self.target.reached_by == "service"
            else urlsplit(self.target.url or "").netloc
        )
        return {"apiVersion": "v1", "kind": "Config", "users": [{"name": host, "user": credentials}]}

    def authorization_configuration(self) -> Json:
        """Return the AuthorizationConfiguration: first the node authorizer, then this server, then RBAC.

        Access of the cluster's own components is exempt, because they start before this server.
        """
        policies = self._select_policies("authorizing")
        conditions = authorization_conditions(policies, self.target.component_groups)
        failure_policies = {self.target.failure_policy_for(policy) for policy in policies}
        policy_seconds = max((policy.timeout or 0 for policy in policies), default=0)
        min_timeout = min(DEFAULT_TIMEOUT, self.target.timeout or DEFAULT_TIMEOUT)
        webhook = {
            "authorizedTTL": "5m0s",
            "unauthorizedTTL": "30s",
            "timeout": f"{timeout_for(policy_seconds, min_timeout)}s",
            "subjectAccessReviewVersion": "v1",
            "matchConditionSubjectAccessReviewVersion": "v1",
            "failurePolicy": "Deny" if "Fail" in failure_policies else "NoOpinion",
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": self.path(CALLBACKS["authorizing"][0])},
            "matchConditions": [{"expression": expression} for expression in conditions],
        }
        version = "v1" if self.target.version >= AUTHORIZATION_CONFIGURATION_V1 else "v1beta1"
        return {
            "apiVersion": f"{_GROUP}/{version}",
            "kind": "AuthorizationConfiguration",
            "authorizers": [
                {"type": "Node", "name": "node"},
                {"type": "Webhook", "name": "webhooks", "webhook": webhook},
                {"type": "RBAC", "name": "rbac"},
            ],
        }

    def admission_configuration(self) -> Json:
        """Return the AdmissionConfiguration with the plugins that call this server."""
        return {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "AdmissionConfiguration",
            "plugins": list(self._plugins()),
        }

    def _plugins(self) -> Iterator[Json]:
        image_policies = self._select_policies("image_policy")
        if image_policies:
            image_policy = {
                "kubeConfigFile": self.path(CALLBACKS["image_policy"][0]),
                "allowTTL": 300,
                "denyTTL": 30,
                "retryBackoff": 500,
                "defaultAllow": all(self.target.failure_policy_for(policy) == "Ignore" for policy in image_policies),
            }
            yield {"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": image_policy}}
        if not self.configures_admission:
            return
        for name, kind in zip(("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"), ADMISSION_KINDS, strict=True):
            if self._select_policies(kind):
                configuration: Json = {"apiVersion": f"{_GROUP}/v1", "kind": "WebhookAdmissionConfiguration"}
                if self._credentials():
                    configuration["kubeConfigFile"] = self.path(ADMISSION_KUBECONFIG)
                if self.target.static:
                    configuration["staticManifestsDir"] = self.path(kind)
                yield {"name": name, "configuration": configuration}

    def flags(self) -> list[str]:
        """Return the flags of the API server that refer to the files."""
        flags = []
        if self.has_authorization_configuration:
            flags.append(f"--authorization-config={self.path('authorization.yaml')}")
        elif "authorizing" in self.kinds:
            flags += [
                "--authorization-mode=Node,Webhook,RBAC",
                "--authorization-webhook-version=v1",
                f"--authorization-webhook-config-file={self.path('authorize.yaml')}",
            ]
        if "authenticating" in self.kinds:
            flags += [
                "--authentication-token-webhook-version=v1",
                f"--authentication-token-webhook-config-file={self.path('authenticate.yaml')}",
            ]
        if self.has_admission_configuration:
            flags.append(f"--admission-control-config-file={self.path('admission.yaml')}")
        if "image_policy" in self.kinds:
            flags.append("--enable-admission-plugins=ImagePolicyWebhook")
        if self.target.static:
            flags.append("--feature-gates=ManifestBasedAdmissionControlConfig=true")
        return flags

    def path(self, name: str) -> str:
        """Return the path of a file on the API server's host."""
        return f"{self.target.api_server_folder.rstrip('/')}/{name}"

    def _select_policies(self, kind: Kind) -> list[AnyPolicy]:
        return [policy for policy in self.policies if policy.kind == kind]

    def _credentials(self) -> dict[str, str]:
        """Return the credentials as a user of a kubeconfig has them."""
        credentials: dict[str, str] = {}
        if self.has_client_certificate:
            credentials |= {"client-certificate": self.path(CERTIFICATE_FILE), "client-key": self.path(KEY_FILE)}
        if self.has_token:
            credentials["tokenFile"] = self.path(TOKEN_FILE)
        return credentials

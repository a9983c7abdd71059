"""The files that an API server's flags name: whom it asks about access, tokens and images, and as whom."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from webhooks.manifests import access
from webhooks.manifests.target import AUTHORIZATION_FILE, AUTHORIZATION_FILE_V1, Target
from webhooks.manifests.webhook_configurations import DEFAULT_TIMEOUT, Json, enough
from webhooks.policy.model import AnyPolicy, Kind
from webhooks.settings import Settings

CERTIFICATE, KEY, TOKEN, AUTHORITY = "apiserver.pem", "apiserver-key.pem", "token", "ca.pem"
CALLBACKS: Mapping[Kind, tuple[str, str]] = {
    "authorizing": ("authorize.yaml", "/authorize"),
    "authenticating": ("authenticate.yaml", "/authenticate"),
    "image_policy": ("images.yaml", "/images"),
}
_GROUP = "apiserver.config.k8s.io"


@dataclass(frozen=True)
class ApiServer:
    """What an API server is told.

    Attributes:
        settings: of the server that it asks.
        policies: which that server answers by.
        target: where both are.
    """

    settings: Settings
    policies: Sequence[AnyPolicy]
    target: Target

    @property
    def kinds(self) -> list[Kind]:
        """The questions that its flags have it ask."""
        return [kind for kind in CALLBACKS if self._of(kind)]

    @property
    def asks_admission(self) -> bool:
        """Whether there is something to know about admission that no registration says."""
        admission = bool(self._of("mutating") or self._of("validating"))
        return admission and (self.target.static or bool(self._proof()))

    def kubeconfig(self, kind: Kind) -> Json:
        """How it reaches us about one of its questions."""
        user = self._proof()
        context = {"cluster": "webhooks", **({"user": "apiserver"} if user else {})}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "webhooks",
                    "cluster": {
                        "server": f"{self.target.url}{CALLBACKS[kind][1]}",
                        **({} if self.target.ca_bundle is None else {"certificate-authority": self.path(AUTHORITY)}),
                    },
                }
            ],
            **({"users": [{"name": "apiserver", "user": user}]} if user else {}),
            "contexts": [{"name": "webhooks", "context": context}],
            "current-context": "webhooks",
        }

    def authorization(self) -> Json:
        """Who decides about access, in turn: nodes' own rules, we, and the roles of the cluster.

        The cluster's own components are not asked about: it starts before we do.
        """
        policies, groups = self._of("authorizing"), self.target.component_groups
        version = "v1" if self.target.version >= AUTHORIZATION_FILE_V1 else "v1beta1"
        failures = {self.target.failure(policy) for policy in policies}
        needed = max((policy.timeout or 0 for policy in policies), default=0)
        webhook = {
            "authorizedTTL": "5m0s",
            "unauthorizedTTL": "30s",
            "timeout": f"{enough(needed, min(DEFAULT_TIMEOUT, self.target.timeout or DEFAULT_TIMEOUT))}s",
            "subjectAccessReviewVersion": "v1",
            "matchConditionSubjectAccessReviewVersion": "v1",
            "failurePolicy": "Deny" if "Fail" in failures else "NoOpinion",
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": self.path(CALLBACKS["authorizing"][0])},
            "matchConditions": [{"expression": each} for each in access.conditions(policies, groups)],
        }
        return {
            "apiVersion": f"{_GROUP}/{version}",
            "kind": "AuthorizationConfiguration",
            "authorizers": [
                {"type": "Node", "name": "node"},
                {"type": "Webhook", "name": "webhooks", "webhook": webhook},
                {"type": "RBAC", "name": "rbac"},
            ],
        }

    @property
    def has_authorization_file(self) -> bool:
        """Whether the cluster knows AuthorizationConfiguration."""
        return self.target.version >= AUTHORIZATION_FILE and "authorizing" in self.kinds

    def admission(self) -> Json:
        """Its plugins that ask us."""
        return {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "AdmissionConfiguration",
            "plugins": list(self._plugins()),
        }

    @property
    def has_plugins(self) -> bool:
        """Whether there are any."""
        return any(True for _ in self._plugins())

    def _plugins(self) -> Iterator[Json]:
        if "image_policy" in self.kinds:
            images = {
                "kubeConfigFile": self.path(CALLBACKS["image_policy"][0]),
                "allowTTL": 300,
                "denyTTL": 30,
                "retryBackoff": 500,
                "defaultAllow": all(self.target.failure(each) == "Ignore" for each in self._of("image_policy")),
            }
            yield {"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": images}}
        for name, kind in (("MutatingAdmissionWebhook", "mutating"), ("ValidatingAdmissionWebhook", "validating")):
            if self.asks_admission and any(policy.kind == kind for policy in self.policies):
                configuration: Json = {"apiVersion": f"{_GROUP}/v1", "kind": "WebhookAdmissionConfiguration"}
                if self._proof():
                    configuration["kubeConfigFile"] = self.path("callers.yaml")
                if self.target.static:
                    configuration["staticManifestsDir"] = self.path(kind)
                yield {"name": name, "configuration": configuration}

    def callers(self) -> Json | None:
        """As whom it calls about admission, by the host that it calls; None where it need not show anything."""
        user = self._proof()
        if not user:
            return None
        host = (
            f"{self.target.name}.{self.target.namespace}.svc"
            if self.target.by == "service"
            else urlsplit(self.target.url or "").netloc
        )
        return {"apiVersion": "v1", "kind": "Config", "users": [{"name": host, "user": user}]}

    def flags(self) -> list[str]:
        """The flags that name the files."""
        found = []
        if "authorizing" in self.kinds:
            found += (
                [f"--authorization-config={self.path('authorization.yaml')}"]
                if self.has_authorization_file
                else [
                    "--authorization-mode=Node,Webhook,RBAC",
                    "--authorization-webhook-version=v1",
                    f"--authorization-webhook-config-file={self.path('authorize.yaml')}",
                ]
            )
        if "authenticating" in self.kinds:
            found += [
                "--authentication-token-webhook-version=v1",
                f"--authentication-token-webhook-config-file={self.path('authenticate.yaml')}",
            ]
        if self.has_plugins:
            found.append(f"--admission-control-config-file={self.path('admission.yaml')}")
        if "image_policy" in self.kinds:
            found.append("--enable-admission-plugins=ImagePolicyWebhook")
        if self.target.static:
            found.append("--feature-gates=ManifestBasedAdmissionControlConfig=true")
        return found

    def path(self, name: str) -> str:
        """Where a file lies on the API server's host."""
        return f"{self.target.api_server_folder.rstrip('/')}/{name}"

    def _of(self, kind: Kind) -> list[AnyPolicy]:
        return [policy for policy in self.policies if policy.kind == kind]

    def _proof(self) -> dict[str, str]:
        """What it shows of itself."""
        found: dict[str, str] = {}
        if self.settings.client_ca is not None:
            found |= {"client-certificate": self.path(CERTIFICATE), "client-key": self.path(KEY)}
        if self.settings.token_file is not None or self.settings.oidc_issuer is not None:
            found["tokenFile"] = self.path(TOKEN)
        return found

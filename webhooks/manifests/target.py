"""The cluster that manifests are for, and the choices of the operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from webhooks.policy.model import AnyPolicy

ReachedBy: TypeAlias = Literal["service", "url", "localhost"]
FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]
Part: TypeAlias = Literal["server", "webhook-configurations", "api-server"]

PARTS: tuple[Part, ...] = ("server", "webhook-configurations", "api-server")
SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")

# Resources that nodes write before any pod can run, and so before this server can: (group, resource).
STARTUP_RESOURCES = (
    ("", "nodes"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("storage.k8s.io", "csinodes"),
)
# Built-in API groups that have only namespaced resources.
NAMESPACED_GROUPS = ("apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io")
# The users and groups that write STARTUP_RESOURCES.
COMPONENT_GROUPS = ("system:nodes", "system:bootstrappers", "system:serviceaccounts:kube-system")
API_SERVER_USER = "system:apiserver"
COMPONENT_USERS = (API_SERVER_USER, "system:kube-controller-manager", "system:kube-scheduler")


class Version(NamedTuple):
    """A minor version of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


LATEST_VERSION = Version(1, 37)
OLDEST_VERSION = Version(1, 19)

# The first versions with these features.
DISRUPTION_BUDGET_V1 = Version(1, 21)
NAMESPACE_NAME_LABEL = Version(1, 22)
MATCH_CONDITIONS = Version(1, 28)
AUTHORIZATION_CONFIGURATION = Version(1, 30)
AUTHORIZATION_CONFIGURATION_V1 = Version(1, 32)
STATIC_WEBHOOKS = Version(1, 36)


@dataclass(frozen=True)
class Target:
    """A cluster, and how its API servers reach this server.

    Attributes:
        name: the name of the webhook configurations and of the server's objects.
        namespace: the namespace of the server.
        reached_by: how API servers reach the admission webhooks: through a Service, at a URL, or on their own host.
        url: the URL of the server; None if it is reached only through the Service.
        ca_bundle: the CA of the serving certificate (PEM); None if another program sets caBundle.
        failure_policy: what happens to requests if the server does not respond; None for what each policy sets.
        failure_policies: the same for single policies, by name.
        timeout: the timeout of admission webhooks in seconds; None for a value that suits the policies.
        per_policy: whether each policy has its own webhook.
        exempt_namespaces: namespaces that are exempt in addition to the default ones.
        included_namespaces: namespaces that are exempt by default, and are not here.
        static: whether API servers read the webhook configurations from files.
        version: the version of the cluster.
        image: the container image of the server.
        replicas: the number of replicas of the server.
        api_server_folder: the folder of the API server's files on its host.
    """

    name: str = "webhooks"
    namespace: str = "webhooks"
    reached_by: ReachedBy = "service"
    url: str | None = None
    ca_bundle: bytes | None = None
    failure_policy: FailurePolicy | None = None
    failure_policies: Mapping[str, FailurePolicy] = field(default_factory=dict)
    timeout: int | None = None
    per_policy: bool = False
    exempt_namespaces: tuple[str, ...] = ()
    included_namespaces: tuple[str, ...] = ()
    static: bool = False
    version: Version = LATEST_VERSION
    image: str = ""
    replicas: int = 2
    api_server_folder: str = "/etc/kubernetes/webhooks"

    @property
    def default_exempt_namespaces(self) -> frozenset[str]:
        """The system namespaces, and that of the server: pods start there before the server can respond."""
        return frozenset((*SYSTEM_NAMESPACES, *((self.namespace,) if self.reached_by == "service" else ())))

    @property
    def all_exempt_namespaces(self) -> tuple[str, ...]:
        """The namespaces for which no admission webhook is called."""
        exempt = self.default_exempt_namespaces | set(self.exempt_namespaces)
        return tuple(sorted(exempt - set(self.included_namespaces)))

    @property
    def component_groups(self) -> tuple[str, ...]:
        """The groups of the cluster's components, including service accounts of `exempt_namespaces`."""
        return (*COMPONENT_GROUPS, *(f"system:serviceaccounts:{name}" for name in self.exempt_namespaces))

    @property
    def has_match_conditions(self) -> bool:
        """Whether the cluster supports match conditions."""
        return self.version >= MATCH_CONDITIONS

    def failure_policy_for(self, policy: "AnyPolicy") -> FailurePolicy:
        """Return what happens to requests for a policy if the server does not respond."""
        if policy.name in self.failure_policies:
            return self.failure_policies[policy.name]
        never_denies = policy.on_error == "allow" or policy.mode != "enforce"
        return self.failure_policy or ("Ignore" if never_denies else "Fail")

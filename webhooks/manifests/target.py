"""Where manifests are for, and what their reader has chosen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from webhooks.policy.model import AnyPolicy

By: TypeAlias = Literal["service", "url", "localhost"]
FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]

PARTS = ("server", "webhook-configurations", "api-server")
SYSTEM = ("kube-node-lease", "kube-public", "kube-system")

# What a node or its kubelet writes before any pod can run, and before we can: (group, resource).
STARTUP = (
    ("", "nodes"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("storage.k8s.io", "csinodes"),
)
# Groups without a resource of the cluster's own: what they have is in namespaces.
NAMESPACED_GROUPS = ("apps", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io")
# Who writes that.
COMPONENT_GROUPS = ("system:nodes", "system:bootstrappers", "system:serviceaccounts:kube-system")
API_SERVER = "system:apiserver"
COMPONENT_USERS = (API_SERVER, "system:kube-controller-manager", "system:kube-scheduler")


class Version(NamedTuple):
    """A version of Kubernetes."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


CURRENT = Version(1, 37)
OLDEST = Version(1, 19)
DISRUPTION_BUDGETS = Version(1, 21)
METADATA_NAMES = Version(1, 22)  # from which every namespace has its name as a label
MATCH_CONDITIONS = Version(1, 28)
AUTHORIZATION_FILE = Version(1, 30)
AUTHORIZATION_FILE_V1 = Version(1, 32)
STATIC_MANIFESTS = Version(1, 36)


@dataclass(frozen=True)
class Target:
    """A cluster, and how it is to reach us.

    Attributes:
        name: of the registrations, and of all that runs the server.
        namespace: where that runs.
        by: how the API server finds admission: through a Service, at a URL, or beside itself.
        url: where we answer outside of the cluster; None where nobody asks there.
        ca_bundle: who signs our certificate (PEM); None where somebody else fills that in.
        failure_policy: what is to become of requests while we do not answer; None as the policies say.
        failure_policies: the same for single policies, by their names.
        timeout: seconds that the API server waits for admission; None for what the policies need.
        per_policy: whether each policy has a webhook of its own.
        exempted: namespaces that nobody asks us about, beside those of the cluster and our own.
        covered: namespaces that are exempt elsewhere, and are asked about here.
        static: whether the API server reads its registrations from files.
        version: of the cluster.
        image: that runs the server.
        replicas: how many run it.
        api_server_folder: where the API server's files will lie on its host.
    """

    name: str = "webhooks"
    namespace: str = "webhooks"
    by: By = "service"
    url: str | None = None
    ca_bundle: bytes | None = None
    failure_policy: FailurePolicy | None = None
    failure_policies: Mapping[str, FailurePolicy] = field(default_factory=dict)
    timeout: int | None = None
    per_policy: bool = False
    exempted: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    static: bool = False
    version: Version = CURRENT
    image: str = ""
    replicas: int = 2
    api_server_folder: str = "/etc/kubernetes/webhooks"

    @property
    def exempt(self) -> tuple[str, ...]:
        """The namespaces that nobody asks us about: a cluster starts from what runs there, and so do we."""
        own = {self.namespace} if self.by == "service" else set()
        return tuple(sorted({*SYSTEM, *own, *self.exempted} - set(self.covered)))

    @property
    def component_groups(self) -> tuple[str, ...]:
        """The groups of who starts the cluster."""
        return (*COMPONENT_GROUPS, *(f"system:serviceaccounts:{each}" for each in self.exempted))

    @property
    def has_conditions(self) -> bool:
        """Whether the cluster knows match conditions."""
        return self.version >= MATCH_CONDITIONS

    def failure(self, policy: "AnyPolicy") -> FailurePolicy:
        """What is to become of a policy's requests while we do not answer."""
        if policy.name in self.failure_policies:
            return self.failure_policies[policy.name]
        lenient = policy.on_error == "allow" or policy.mode != "enforce"
        return self.failure_policy or ("Ignore" if lenient else "Fail")

"""Resources of kinds: the plural names that requests carry, and which objects have no namespace."""

# Where the rule below is wrong.
_IRREGULAR = {
    "endpoints": "endpoints",
    "gateway": "gateways",
    "nodemetrics": "nodes",
    "podmetrics": "pods",
    "securitycontextconstraints": "securitycontextconstraints",
}

_CLUSTER_SCOPED = {
    "": ("ComponentStatus", "Namespace", "Node", "PersistentVolume"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apiregistration.k8s.io": ("APIService",),
    "authentication.k8s.io": ("SelfSubjectReview", "TokenReview"),
    "authorization.k8s.io": ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"),
    "certificates.k8s.io": ("CertificateSigningRequest", "ClusterTrustBundle"),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "gateway.networking.k8s.io": ("GatewayClass",),
    "internal.apiserver.k8s.io": ("StorageVersion",),
    "metrics.k8s.io": ("NodeMetrics",),
    "networking.k8s.io": ("IPAddress", "IngressClass", "ServiceCIDR"),
    "node.k8s.io": ("RuntimeClass",),
    "policy": ("PodSecurityPolicy",),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding"),
    "resource.k8s.io": ("DeviceClass", "DeviceTaintRule", "ResourceSlice"),
    "scheduling.k8s.io": ("PriorityClass",),
    "storage.k8s.io": ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"),
    "storagemigration.k8s.io": ("StorageVersionMigration",),
}


def plural(kind: str) -> str:
    """The resource of a kind: ``networkpolicies`` of ``NetworkPolicy``."""
    word = kind.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def cluster_scoped(group: str, kind: str) -> bool:
    """Whether objects of a kind that clusters have built in are without a namespace."""
    return kind in _CLUSTER_SCOPED.get(group, ())

"""Resources of kinds: their plural names, and whether they are cluster-scoped."""

# Exceptions from the rule of `plural_name`.
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


def plural_name(kind: str) -> str:
    """Return the plural name of a kind: ``networkpolicies`` for ``NetworkPolicy``."""
    word = kind.lower()
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("y") and word[-2:-1] not in tuple("aeiou"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def is_cluster_scoped(group: str, kind: str) -> bool:
    """Check whether objects of a built-in kind have no namespace."""
    return kind in _CLUSTER_SCOPED.get(group, ())

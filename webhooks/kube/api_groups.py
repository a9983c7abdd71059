"""The two spellings of every API group: the specification's ``*.svc.io``, and ``*.k8s.io`` as most servers send."""

_SUFFIXES = ("svc.io", "k8s.io")


def api_versions(group: str, *versions: str) -> frozenset[str]:
    """All spellings of a group's versions, as ``apiVersion`` writes them.

    Args:
        group: the group's first word, such as ``admission``.
        versions: such as ``v1``, ``v1beta1``.
    """
    return frozenset(f"{group}.{suffix}/{version}" for suffix in _SUFFIXES for version in versions)


ADMISSION = api_versions("admission", "v1", "v1beta1")
AUTHORIZATION = api_versions("authorization", "v1", "v1beta1")
AUTHENTICATION = api_versions("authentication", "v1", "v1beta1")
IMAGE_POLICY = api_versions("imagepolicy", "v1alpha1")
AUDIT = api_versions("audit", "v1")
ADMISSION_CONFIGURATION = api_versions("apiserver.config", "v1")

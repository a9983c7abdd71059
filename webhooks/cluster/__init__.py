"""A cluster's API, for those few things that we ask of it: reading named objects, and patching our own."""

from pathlib import Path

from webhooks.cluster.access import Access
from webhooks.errors import ConfigurationError

try:
    from webhooks.cluster.client import ClusterClient
except ModuleNotFoundError as missing:  # what it needs comes with an extra
    raise ConfigurationError(
        f"asking a cluster needs the module {missing.name}: pip install 'cluster-webhooks[cluster]'"
    ) from None

__all__ = ["Access", "ClusterClient", "connect"]


def connect(kubeconfig: Path | None, context: str | None) -> ClusterClient:
    """A cluster, which has not been asked yet.

    Args:
        kubeconfig: says where it is, and who we are; None for what the environment says, or the pod that we are in.
        context: which one of it; None for its current one.

    Raises:
        ClusterError: nothing says where a cluster is, or what says so is not as it must be.
    """
    return ClusterClient(Access.found(kubeconfig, context))

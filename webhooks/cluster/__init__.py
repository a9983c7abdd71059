"""Client of a cluster's API: access by kubeconfig or from a pod, and the synchronization of ``caBundle``.

Importing this package does not import the HTTP client, which is installed by the extra ``cluster``.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from webhooks.errors import missing_extra

if TYPE_CHECKING:
    from webhooks.cluster.client import ClusterClient

__all__ = ["connect"]


def connect(kubeconfig: Path | None, context: str | None) -> "ClusterClient":
    """Create a client of a cluster. It makes no request yet.

    Args:
        kubeconfig: the kubeconfig; None for the default (see `webhooks.cluster.access.Access.discover`).
        context: the context of the kubeconfig; None for its current one.

    Raises:
        ClusterError: access to a cluster is not configured, or a kubeconfig is invalid.
        ConfigurationError: the extra ``cluster`` is not installed.
    """
    from webhooks.cluster.access import Access

    try:
        from webhooks.cluster.client import ClusterClient
    except ModuleNotFoundError as error:
        raise missing_extra("access to a cluster", "cluster", error) from None
    return ClusterClient(Access.discover(kubeconfig, context))

"""Ways to a cluster: by kubeconfigs, or from a pod by its service account."""

import os
from dataclasses import dataclass
from pathlib import Path

from webhooks.cluster.kubeconfig import Kubeconfig, User
from webhooks.errors import ClusterError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_USUAL = Path(".kube/config")


@dataclass(frozen=True)
class Access:
    """Where a cluster's API is, and who we are to it.

    Attributes:
        server: its URL.
        ca: who signs its certificate (PEM); None for whom this machine trusts.
        server_name: the name that its certificate is for; None for that of the URL.
        proxy: by which it is reached; None for directly.
        user: what we show.
    """

    server: str
    ca: bytes | None
    server_name: str | None
    proxy: str | None
    user: User

    @classmethod
    def found(cls, kubeconfig: Path | None, context: str | None) -> "Access":
        """As a kubeconfig says; without one those of the environment, the pod that we are in, or the usual one.

        Raises:
            ClusterError: there is none, or it is not as it must be.
        """
        told = (
            [kubeconfig] if kubeconfig else [Path(each) for each in os.environ.get("KUBECONFIG", "").split(":") if each]
        )
        if not told and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            return cls._in_pod(_SERVICE_ACCOUNT)
        usual = Path.home() / _USUAL
        if not told and not usual.is_file():
            raise ClusterError(
                f"no cluster to ask: there is no --kubeconfig, no $KUBECONFIG, no {usual}, and this is no pod"
            )
        chosen = Kubeconfig.read(told or [usual]).chosen(context)
        cluster = chosen.cluster
        return cls(cluster.server, cluster.ca(), cluster.tls_server_name, cluster.proxy_url, chosen.user)

    @classmethod
    def _in_pod(cls, folder: Path) -> "Access":
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        try:
            ca = (folder / "ca.crt").read_bytes()
        except OSError as error:
            raise ClusterError(
                f"{folder}: this pod has no token of a service account ({error.strerror}): give it one, or --kubeconfig"
            ) from None
        address = f"[{host}]" if ":" in host else host
        return cls(f"https://{address}:{port}", ca, None, None, User(token_file=folder / "token"))

"""Finds the address and the credentials of a cluster: in kubeconfigs, or in the service account of a pod."""

import os
from dataclasses import dataclass
from pathlib import Path

from webhooks.cluster.credentials import Credentials
from webhooks.cluster.kubeconfig import Kubeconfig
from webhooks.errors import ClusterError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT_KUBECONFIG = Path(".kube/config")  # in the home directory


@dataclass(frozen=True)
class Access:
    """The address of a cluster's API, and the credentials for it.

    Attributes:
        server: the URL of the API server.
        ca: the CAs of its certificate (PEM); None for the CAs of this host.
        tls_server_name: the name in its certificate; None for the host of the URL.
        proxy_url: the proxy; None for the proxy of the environment.
        credentials: the credentials.
    """

    server: str
    ca: bytes | None
    tls_server_name: str | None
    proxy_url: str | None
    credentials: Credentials

    @classmethod
    def discover(cls, kubeconfig: Path | None, context: str | None) -> "Access":
        """Return the access that a kubeconfig describes, or the first of: $KUBECONFIG, the pod, the default kubeconfig.

        Args:
            kubeconfig: the kubeconfig; None to search.
            context: a context of the kubeconfig, which excludes the pod; None for the current context.

        Raises:
            ClusterError: nothing describes an access, or it is invalid.
        """
        variable = os.environ.get("KUBECONFIG", "")
        paths = [kubeconfig] if kubeconfig else [Path(path) for path in variable.split(":") if path]
        if not paths and context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            return cls._from_pod(_SERVICE_ACCOUNT)
        default = Path.home() / _DEFAULT_KUBECONFIG
        if not paths and not default.is_file():
            raise ClusterError(
                f"no access to a cluster: give --kubeconfig, or set $KUBECONFIG: {default} does not exist, and this is "
                "not a pod"
            )
        resolved = Kubeconfig.read(paths or [default]).resolve(context)
        cluster = resolved.cluster
        return cls(cluster.server, cluster.read_ca(), cluster.tls_server_name, cluster.proxy_url, resolved.credentials)

    @classmethod
    def _from_pod(cls, folder: Path) -> "Access":
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        try:
            ca = (folder / "ca.crt").read_bytes()
        except OSError as error:
            raise ClusterError(
                f"{folder}: this pod has no service account token ({error.strerror}): mount one, or give --kubeconfig"
            ) from None
        address = f"[{host}]" if ":" in host else host
        return cls(f"https://{address}:{port}", ca, None, None, Credentials(token_file=folder / "token"))

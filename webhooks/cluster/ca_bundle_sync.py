"""Our registrations, kept in step with who signs our certificate: API servers trust the old authority and the new one.

Only objects of the name that is told are touched, only if they have our label, and of them ``caBundle`` alone. What is
written holds our authorities, and those of others that have not ended: another replica may not have seen the new one
yet, or still show a certificate of the old one. So any number of servers may do this at once that share their
authorities; with authorities of their own, as many as a bundle holds.
"""

import base64
import binascii
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhooks.errors import ClusterError, ConfigurationError
from webhooks.kube.api_groups import (
    ADMISSION_REGISTRATION,
    MANAGED_BY_LABEL,
    MANAGED_BY_VALUE,
    WEBHOOK_CONFIGURATION_PLURALS,
)
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings
from webhooks.watch import run_periodically

if TYPE_CHECKING:
    from cryptography import x509

    from webhooks.cluster import ClusterClient

logger = logging.getLogger("webhooks.cluster")

_INTERVAL = 5.0  # seconds between the times that they are looked at
_ATTEMPTS = 5  # at one object, that somebody else changes meanwhile
_CHANGED = (409, 422)
_STRATEGIC = "application/strategic-merge-patch+json"


class CaBundleSync:
    """Keeps the registrations of a name in step with a file.

    Args:
        name: of the registrations.
        bundle: the file of our authorities (PEM).
        cluster: where they are.
        meters: where those are counted that cannot be kept.
    """

    def __init__(self, name: str, bundle: Path, cluster: "ClusterClient", meters: MetricRegistry) -> None:
        self._name = name
        self._bundle = bundle
        self._cluster = cluster
        self._out_of_step = meters.gauge(
            "webhooks_ca_bundle_out_of_sync", "Registrations whose caBundle cannot be kept in step.", ("kind",)
        )
        self._told: dict[str, str] = {}

    def attempt(self) -> None:
        """Have API servers trust us; what keeps us from it is logged once, and tried again the next time."""
        for kind in WEBHOOK_CONFIGURATION_PLURALS:
            try:
                self.keep(kind)
                self._tell(kind, "")
            except ConfigurationError as error:
                self._tell(kind, str(error))
            except Exception as error:  # of an answer that no API server gives
                self._tell(kind, f"{type(error).__name__}: this is a fault of ours, or of who answers", error)

    def keep(self, kind: str) -> bool:
        """Bring one registration into step.

        Returns:
            Whether it was not.

        Raises:
            ConfigurationError: the file cannot be read, the cluster does not answer or refuses, or the registration is
                somebody else's; nothing has changed then.
        """
        from webhooks.certificates import ca_bundle as bundle

        own = bundle.read(self._bundle)
        path = f"/apis/{ADMISSION_REGISTRATION}/{kind}/{self._name}"
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._keep(path, own)
            except ClusterError as error:
                if error.code not in _CHANGED:
                    raise
        return self._keep(path, own)

    def _keep(self, path: str, own: "Sequence[x509.Certificate]") -> bool:
        """The same, once; a ClusterError of one of the codes `_CHANGED` where the object has changed meanwhile."""
        found = self._cluster.get(path)
        patch = None if found is None else self._patch(found, own)
        if patch is None:
            return False
        self._cluster.patch(path, patch, _STRATEGIC)
        logger.info("%s: caBundle is in step with %s", path, self._bundle)
        return True

    def _patch(self, found: Any, own: "Sequence[x509.Certificate]") -> Any:
        """What is to change, and of which version of the object; None for nothing."""
        metadata = found["metadata"]
        if metadata.get("labels", {}).get(MANAGED_BY_LABEL) != MANAGED_BY_VALUE:
            raise ConfigurationError(
                f"{metadata['name']} is not ours, it has no label {MANAGED_BY_LABEL}: {MANAGED_BY_VALUE}, "
                "so its caBundle stays as it is"
            )
        changes = []
        for webhook in found.get("webhooks", []):
            bundle = _in_step(webhook.get("clientConfig", {}).get("caBundle", ""), own)
            if bundle is not None:
                changes.append({"name": webhook["name"], "clientConfig": {"caBundle": bundle}})
        version = {"resourceVersion": metadata["resourceVersion"]}
        return {"metadata": version, "webhooks": changes} if changes else None

    def _tell(self, kind: str, trouble: str, error: Exception | None = None) -> None:
        if trouble and trouble != self._told.get(kind):
            logger.error("%s %s: caBundle cannot be kept in step: %s", kind, self._name, trouble, exc_info=error)
        self._told[kind] = trouble
        self._out_of_step.set(int(bool(trouble)), kind)


def _in_step(there: str, own: "Sequence[x509.Certificate]") -> str | None:
    """The bundle as it has to be; None where it is that already."""
    from webhooks.certificates import ca_bundle as bundle
    from webhooks.certificates import pem

    try:
        before = pem.parse_certificates(base64.b64decode(there, validate=True))
    except (binascii.Error, ValueError):
        before = []  # whatever it is, no API server can use it
    after = bundle.merge(own, before)
    if before and set(before) == set(after):
        return None
    return base64.b64encode(bundle.to_pem(after)).decode()


@contextmanager
def keeping(settings: Settings, meters: MetricRegistry) -> Iterator[None]:
    """Keep registrations in step for as long as the block lasts, if the settings say so.

    Of the processes of a server, one does this.

    Args:
        settings: which say it.
        meters: where those are counted that cannot be kept.

    Raises:
        ConfigurationError: there is no way to a cluster, or no file of our authorities.
    """
    name = settings.sync_ca_bundle
    if name is None:
        yield
        return
    from webhooks.certificates import ca_bundle as bundle
    from webhooks.cluster import connect

    path = bundle.path_for(settings.certs_dir, settings.tls_cert)
    bundle.read(path)
    with connect(settings.kubeconfig, settings.context) as cluster:
        keeper = CaBundleSync(name, path, cluster, meters)
        with run_periodically(keeper.attempt, _INTERVAL, "registrations", immediately=True):
            yield

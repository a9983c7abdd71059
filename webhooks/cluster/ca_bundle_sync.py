"""Keeps the ``caBundle`` of webhook configurations in sync with our CAs, so that API servers trust the server.

Only objects with a given name and our label are changed, and in them only ``caBundle``. A bundle contains our CAs, and
other CAs until they expire: another replica may not have loaded a new CA yet, or may still present a certificate of an
old one. So any number of servers that share their CAs may do this at once, and as many servers with a CA each as a
bundle has room for.
"""

import base64
import binascii
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from webhooks.certificates import ca_bundle, pem
from webhooks.cluster import connect
from webhooks.errors import ClusterError, ConfigurationError
from webhooks.kube.api_groups import (
    ADMISSION_REGISTRATION,
    MANAGED_BY_LABEL,
    MANAGED_BY_VALUE,
    WEBHOOK_CONFIGURATION_PLURALS,
)
from webhooks.observability.metrics import MetricRegistry
from webhooks.watch import LastError, run_periodically

if TYPE_CHECKING:
    from webhooks.cluster.client import ClusterClient

logger = logging.getLogger("webhooks.cluster")

_INTERVAL = 5.0  # seconds
_MAX_ATTEMPTS = 5  # to patch an object that another client changes at the same time
_CONFLICTS = (409, 422)
_STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class CaBundleSync:
    """Synchronizes the webhook configurations of a name with a file.

    Args:
        name: the name of the webhook configurations.
        bundle: the file of our CAs (PEM).
        client: the client of the cluster.
        metrics: shows which webhook configurations are out of sync.
    """

    def __init__(self, name: str, bundle: Path, client: "ClusterClient", metrics: MetricRegistry) -> None:
        self._name = name
        self._bundle = bundle
        self._client = client
        self._out_of_sync = metrics.gauge(
            "webhooks_ca_bundle_out_of_sync", "Webhook configurations whose caBundle cannot be updated.", ("kind",)
        )
        self._last_errors = {kind: LastError() for kind in WEBHOOK_CONFIGURATION_PLURALS}

    def sync_all(self) -> None:
        """Synchronize the webhook configurations of both kinds. An error is logged once."""
        for kind in WEBHOOK_CONFIGURATION_PLURALS:
            try:
                self.sync(kind)
                self._report(kind, "")
            except ConfigurationError as error:
                self._report(kind, str(error))
            except Exception as error:  # an invalid response, or a bug
                self._report(kind, f"unexpected {type(error).__name__}", error)

    def sync(self, kind: str) -> bool:
        """Synchronize one webhook configuration.

        Args:
            kind: one of `WEBHOOK_CONFIGURATION_PLURALS`.

        Returns:
            Whether it was changed.

        Raises:
            ConfigurationError: the file cannot be read, a request failed, or the object does not have our label. The
                object is unchanged.
        """
        own = ca_bundle.read(self._bundle)
        path = f"/apis/{ADMISSION_REGISTRATION}/{kind}/{self._name}"
        for _ in range(_MAX_ATTEMPTS - 1):
            try:
                return self._sync_once(path, own)
            except ClusterError as error:
                if error.code not in _CONFLICTS:
                    raise
        return self._sync_once(path, own)

    def _sync_once(self, path: str, own: Sequence[x509.Certificate]) -> bool:
        """Try to synchronize. Raises ClusterError with one of the codes `_CONFLICTS` if the object has changed."""
        webhook_configuration = self._client.get(path)
        patch = None if webhook_configuration is None else _create_patch(webhook_configuration, own)
        if patch is None:
            return False
        self._client.patch(path, patch, _STRATEGIC_MERGE_PATCH)
        logger.info("%s: caBundle was updated from %s", path, self._bundle)
        return True

    def _report(self, kind: str, message: str, error: Exception | None = None) -> None:
        if self._last_errors[kind].is_new(message):
            logger.error("%s %s: caBundle cannot be updated: %s", kind, self._name, message, exc_info=error)
        self._out_of_sync.set(int(bool(message)), kind)


def _create_patch(webhook_configuration: Any, own: Sequence[x509.Certificate]) -> Any:
    """Return the patch of this version of an object; None if it is in sync."""
    metadata = webhook_configuration["metadata"]
    if metadata.get("labels", {}).get(MANAGED_BY_LABEL) != MANAGED_BY_VALUE:
        raise ConfigurationError(
            f"{metadata['name']} does not have the label {MANAGED_BY_LABEL}: {MANAGED_BY_VALUE}, so its caBundle is "
            "not changed"
        )
    changes = []
    for webhook in webhook_configuration.get("webhooks", []):
        bundle = _update_bundle(webhook.get("clientConfig", {}).get("caBundle", ""), own)
        if bundle is not None:
            changes.append({"name": webhook["name"], "clientConfig": {"caBundle": bundle}})
    version = {"resourceVersion": metadata["resourceVersion"]}
    return {"metadata": version, "webhooks": changes} if changes else None


def _update_bundle(current: str, own: Sequence[x509.Certificate]) -> str | None:
    """Return the new value of a caBundle; None if it is in sync."""
    try:
        before = pem.parse_certificates(base64.b64decode(current, validate=True))
    except (binascii.Error, ValueError):
        before = []  # no API server can use it
    after = ca_bundle.merge(own, before)
    if before and set(before) == set(after):
        return None
    return base64.b64encode(ca_bundle.to_pem(after)).decode()


@contextmanager
def sync_periodically(
    name: str, bundle: Path, kubeconfig: Path | None, context: str | None, metrics: MetricRegistry
) -> Iterator[None]:
    """Keep the webhook configurations of a name in sync within the block. One process of a server does this.

    Args:
        name: the name of the webhook configurations.
        bundle: the file of our CAs (PEM).
        kubeconfig: see `webhooks.cluster.connect`.
        context: see `webhooks.cluster.connect`.
        metrics: shows which webhook configurations are out of sync.

    Raises:
        ConfigurationError: access to a cluster is not configured, or the file contains no valid CA.
    """
    ca_bundle.read(bundle)
    with connect(kubeconfig, context) as client:
        sync = CaBundleSync(name, bundle, client, metrics)
        with run_periodically(sync.sync_all, _INTERVAL, "caBundle sync", immediately=True):
            yield

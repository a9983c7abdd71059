"""Reloads certificates while the server runs, and renews those of the development CA.

Loading files into a context that is in use would break handshakes while the files are incomplete or do not match. So a
new context is loaded and checked. The callback for the server name, which runs in handshakes without a name too, then
uses it instead of the context of the listener.
"""

import logging
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from webhooks import certificates
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.errors import ConfigurationError
from webhooks.server import tls
from webhooks.server.tls import LoadedTls, TlsFiles
from webhooks.watch import FileWatcher, LastError, run_periodically

logger = logging.getLogger("webhooks.server")

_POLL_INTERVAL = 1.0  # seconds; a poll takes 30 us
_RENEWAL_INTERVAL = 60.0  # seconds between two checks whether a renewal is due


class CertificateReloader:
    """The TLS context of a listener whose files may be replaced at any time.

    Args:
        files: the files.
        snapshot: records when certificates expire, and failed reloads.

    Attributes:
        context: the context for the listener. It is never replaced.

    Raises:
        ConfigurationError: a file cannot be read or is invalid.
    """

    def __init__(self, files: TlsFiles, snapshot: MetricsSnapshot) -> None:
        self._files = files
        self._snapshot = snapshot
        self._on_ca_removed: Callable[[Sequence[bytes]], None] | None = None
        self._watcher = FileWatcher(lambda: files.paths, lambda: tls.load(files), self._reload, self._report)
        self._use(tls.load(files))
        self.context = tls.create_context(files)
        self.context.sni_callback = self._set_context

    def _set_context(self, connection: ssl.SSLObject, _name: str | None, _listener: ssl.SSLContext) -> None:
        connection.context = self._current

    def on_ca_removed(self, callback: Callable[[Sequence[bytes]], None]) -> None:
        """Call a function with the remaining CAs of clients when one was removed. It is called in any thread."""
        self._on_ca_removed = callback

    @contextmanager
    def watching(self) -> Iterator["CertificateReloader"]:
        """Reload the files when they change, within the block."""
        with run_periodically(self.poll, _POLL_INTERVAL, "certificates"):
            yield self

    def poll(self) -> None:
        """Check once whether the files changed."""
        self._watcher.poll()

    def _use(self, loaded: LoadedTls) -> None:
        self._current, self._client_cas = loaded.context, loaded.client_cas
        self._snapshot.certificate_expiry = loaded.expiry

    def _reload(self, loaded: LoadedTls) -> None:
        is_removed = bool(set(self._client_cas) - set(loaded.client_cas))
        self._use(loaded)
        if is_removed and self._on_ca_removed is not None:
            self._on_ca_removed(loaded.client_cas)
        logger.info("certificates were reloaded from %s", self._files.certificate)

    def _report(self, error: ConfigurationError) -> None:
        self._snapshot.certificate_reload_failures += 1
        logger.error("certificates are not reloaded, and the previous ones stay in use: %s", error)


@contextmanager
def renew_certificates(directory: Path, host: str) -> Iterator[None]:
    """Issue the certificates of a development CA if necessary, and renew them within the block.

    One process of a server does this.

    Args:
        directory: see `webhooks.certificates.ensure`.
        host: the address that the server listens on.

    Raises:
        ConfigurationError: they cannot be issued.
    """
    names = [] if host in ("0.0.0.0", "::", "") else [host]  # noqa: S104  # addresses that clients cannot use
    certificates.ensure(directory, names=names)
    with run_periodically(Renewer(directory).renew_if_due, _RENEWAL_INTERVAL, "certificate renewal"):
        yield


class Renewer:
    """Renews the serving pair of a directory when that is due. An error is logged once.

    Args:
        directory: see `webhooks.certificates.ensure`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._last_error = LastError()

    def renew_if_due(self) -> None:
        """Renew it if that is due."""
        error = ""
        try:
            if certificates.renew(self._directory):
                logger.info("%s: the serving certificate was renewed", self._directory)
        except ConfigurationError as failure:
            error = str(failure)
        if self._last_error.is_new(error):
            logger.error("the serving certificate cannot be renewed: %s", error)

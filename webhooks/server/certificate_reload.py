"""Certificates are exchanged while the server serves: it follows the files, and renews those of its own.

Loading a certificate into a context that is in use breaks its handshakes if the files are half written, or of two
pairs. So a fresh context is made and tried, and stands in for the listener's in the handshakes that begin then: in the
callback for the server's name, which is called for callers that give no name too.
"""

import logging
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from webhooks import certificates
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.errors import ConfigurationError
from webhooks.server import tls
from webhooks.settings import Settings
from webhooks.watch import FileWatcher, LastError, run_periodically

logger = logging.getLogger("webhooks.server")

_LOOK = 1.0  # seconds between the times that the files are looked at, which takes 30 us
_RENEWAL = 60.0  # seconds between the times that renewal is thought of


@contextmanager
def renewing(settings: Settings) -> Iterator[tls.Files]:
    """The files that the settings name; our own are made, and are renewed for as long as the block lasts.

    Of the processes of a server, one does this.

    Raises:
        ConfigurationError: they cannot be made.
    """
    files = tls.Files.told(settings)
    own = files.ca is not None
    if own:
        tls.check_callers(files)
        certificates.ensure(settings.certs_dir, names=_names(settings.host))
    with run_periodically(Renewer(settings.certs_dir).renew_if_due, _RENEWAL, "certificates") if own else nullcontext():
        yield files


def _ignore(authorities: Sequence[bytes]) -> None:
    """Nobody is there yet whom it concerns."""


def _names(host: str) -> list[str]:
    return [] if host in ("0.0.0.0", "::", "") else [host]  # noqa: S104


class CertificateReloader:
    """A listener's context that follows files, which anybody may replace at any time.

    Args:
        files: the files.
        tally: where it notes when certificates end, and how often it could not take them over.

    Attributes:
        context: what the listener is given; it stays the same.

    Raises:
        ConfigurationError: a file is missing, or is not what it must be.
    """

    def __init__(self, files: tls.Files, tally: MetricsSnapshot) -> None:
        self._files = files
        self._tally = tally
        self._distrust: Callable[[Sequence[bytes]], None] = _ignore
        self._changes = FileWatcher(self._present, lambda: tls.fresh(files), self._exchange, self._refuse)
        self._take(tls.fresh(files))
        self.context = tls.bare(files)
        self.context.sni_callback = self._stand_in

    def _stand_in(self, connection: ssl.SSLObject, _name: str | None, _listener: ssl.SSLContext) -> None:
        connection.context = self._current

    def at_distrust(self, action: Callable[[Sequence[bytes]], None]) -> None:
        """Have this called, in any thread, when one of the callers' authorities is gone, with those that are left."""
        self._distrust = action

    def _take(self, fresh: tls.Fresh) -> None:
        self._current, self._authorities = fresh.context, fresh.authorities
        self._tally.certificates = fresh.ends

    @contextmanager
    def looking(self) -> Iterator["CertificateReloader"]:
        """Have it look at the files for as long as the block lasts."""
        with run_periodically(self.look, _LOOK, "certificates"):
            yield self

    def look(self) -> None:
        """Take over what the files hold, if that is new and good."""
        self._changes.poll()

    def _exchange(self, fresh: tls.Fresh) -> None:
        gone = set(self._authorities) - set(fresh.authorities)
        self._take(fresh)
        if gone:
            self._distrust(fresh.authorities)
        logger.info("certificates are taken over from %s", self._files.certificate)

    def _refuse(self, error: ConfigurationError) -> None:
        self._tally.reload_failures += 1
        logger.error("certificates are not taken over, and those from before serve on: %s", error)

    def _present(self) -> list[Path]:
        files = self._files
        return [path for path in (files.certificate, files.key, files.ca, files.client_ca) if path is not None]


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

"""Renewal: what was issued here is issued again, well before it ends, while a server runs."""

import logging
from datetime import UTC, datetime
from pathlib import Path

from webhooks.certificates import issuing, storage
from webhooks.certificates.pairs import ServingPair, ValidPair
from webhooks.errors import ConfigurationError

logger = logging.getLogger("webhooks.certificates")


class Renewal:
    """Renews the serving pair of a directory whenever that is due, and tells what keeps it from doing so once.

    Args:
        directory: as for `webhooks.certificates.ensure`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._told = ""

    def attempt(self) -> None:
        """Renew it if it is due."""
        try:
            if renew(self._directory):
                logger.info("%s: the serving certificate is renewed", self._directory)
            self._told = ""
        except ConfigurationError as error:
            if str(error) != self._told:
                logger.error("the serving certificate cannot be renewed: %s", error)
            self._told = str(error)


def renew(directory: Path, *, now: datetime | None = None) -> bool:
    """Renew the serving pair if two thirds of its life, or of its authority's, are over.

    An authority is renewed by one that follows it: ``ca.pem`` holds both then, and whoever trusts either of them trusts
    the new certificate. A pair that is not there, or not what it should be, is left alone.

    Args:
        directory: as for `webhooks.certificates.ensure`.
        now: the time.

    Returns:
        Whether there is a new pair.

    Raises:
        ConfigurationError: it is due, and cannot be renewed: a file is missing, cannot be written, or is not ours.
    """
    now = now or datetime.now(UTC)
    pair = ServingPair.of(directory)
    if not _is_due(pair, now):
        return False
    with storage.locked(directory):
        due = _is_due(pair, now)  # now that nobody else is at it
        if due:
            issuing.reissue(pair, [], now)
    return due


def _is_due(pair: ServingPair, now: datetime) -> bool:
    sound = ValidPair.found(pair)
    return sound is not None and sound.is_due(now)

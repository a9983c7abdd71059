"""Renews the serving pair of a directory, long before it expires, while a server runs."""

from datetime import UTC, datetime
from pathlib import Path

from webhooks.certificates import issuing, storage
from webhooks.certificates.pairs import ServingPair, ValidPair


def renew(directory: Path, *, now: datetime | None = None) -> bool:
    """Renew the serving pair after two thirds of its lifetime, or of the lifetime of its CA.

    A rotation keeps the previous CA in ``ca.pem`` until it expires: a client that trusts either of them trusts the new
    certificate. A pair that is missing or invalid is not changed.

    Args:
        directory: see `webhooks.certificates.ensure`.
        now: the current time.

    Returns:
        Whether the pair was renewed.

    Raises:
        ConfigurationError: the renewal is due and fails: a file is missing, cannot be written, or was not issued here.
    """
    now = now or datetime.now(UTC)
    pair = ServingPair.from_directory(directory)
    if not _is_due(pair, now):
        return False
    with storage.locked(directory):
        is_due = _is_due(pair, now)  # another process may have renewed it before we got the lock
        if is_due:
            issuing.reissue(pair, [], now)
    return is_due


def _is_due(pair: ServingPair, now: datetime) -> bool:
    valid_pair = ValidPair.load(pair)
    return valid_pair is not None and valid_pair.is_renewal_due(now)

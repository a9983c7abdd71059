"""Issues certificates into a directory. Only files that were issued here are replaced.

Checking existing files requires only the standard library, which keeps the start fast: ``cryptography`` is imported
only to issue something.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from webhooks.certificates import pairs, storage
from webhooks.certificates.names import check_client_name, default_names, normalize
from webhooks.certificates.pairs import ClientPair, ServingPair, ValidPair
from webhooks.errors import ConfigurationError

logger = logging.getLogger("webhooks.certificates")


def ensure(directory: Path, *, names: Sequence[str] = (), now: datetime | None = None) -> ServingPair:
    """Return the serving pair of a directory, and issue a new one if the present one is not usable.

    It is usable if the key matches the certificate, ``ca.pem`` verifies the certificate, it contains all the names, and
    its renewal is not due. A new certificate also contains the names of the previous one, or else the `default_names`.
    Any number of processes may start at once: one of them issues, and the others wait for it. If a renewal is due and
    fails, the present pair is used, with a warning.

    Args:
        directory: the directory of ``ca.pem``, ``ca-key.pem``, ``tls.pem`` and ``tls-key.pem``.
        names: DNS names and IP addresses that the certificate must contain.
        now: the current time.

    Raises:
        ConfigurationError: a name is neither a DNS name nor an IP address; the directory cannot be written; or a file
            cannot be read, has the wrong content, is missing although its counterpart exists, or was not issued here.
    """
    now = now or datetime.now(UTC)
    required = normalize(names)
    pair = ServingPair.from_directory(directory)
    if _is_usable(pair, required, now):
        return pair
    try:
        with storage.locked(directory):
            if not _is_usable(pair, required, now):  # another process may have issued it before we got the lock
                reissue(pair, required, now)
    except ConfigurationError as error:
        valid_pair = ValidPair.load(pair, required)
        if valid_pair is None or not valid_pair.is_valid(now):
            raise
        expiry = f"{valid_pair.leaf.not_after:%F}"
        logger.warning("%s expires on %s and cannot be renewed: %s", pair.certificate, expiry, error)
    return pair


def _is_usable(pair: ServingPair, names: Sequence[str], now: datetime) -> bool:
    valid_pair = ValidPair.load(pair, names)
    return valid_pair is not None and valid_pair.is_valid(now) and not valid_pair.is_renewal_due(now)


def issue(directory: Path, *, names: Sequence[str] = (), now: datetime | None = None) -> ServingPair:
    """Issue a new serving pair, and replace the previous one if it was issued here.

    It is signed by the CA of the directory, which is created if absent and rotated if due. Keys are ECDSA P-256. A CA
    is valid for ten years, a serving certificate for one year.

    Args:
        directory: the directory for the files. It is created if absent.
        names: the DNS names and IP addresses of the server; if empty, those of the previous pair, or else the
            `default_names`.
        now: the current time.

    Raises:
        ConfigurationError: see `ensure`.
    """
    now = now or datetime.now(UTC)
    requested = normalize(names)
    pair = ServingPair.from_directory(directory)
    with storage.locked(directory):
        previous = _previous_names(pair)
        _issue_serving(pair, requested or previous, now)
    return pair


def issue_client(directory: Path, name: str, *, now: datetime | None = None) -> ClientPair:
    """Issue ``NAME.pem`` and ``NAME-key.pem`` for a client, and replace previous ones that were issued here.

    The certificate is signed by the CA of the directory, see `issue`. It is valid for one year, and only for client
    authentication.

    Args:
        directory: the directory of the CA and for the files.
        name: the common name of the client, and the name of the files.
        now: the current time.

    Raises:
        ConfigurationError: the name is not usable as a file name, or reserved for the files of `issue`; or see
            `ensure`.
    """
    from webhooks.certificates import signing
    from webhooks.certificates.ca import ensure_ca

    check_client_name(name)
    now = now or datetime.now(UTC)
    pair = ClientPair(directory / f"{name}.pem", directory / f"{name}-key.pem")
    with storage.locked(directory):
        pairs.check_replaceable(pair)
        pairs.write(pair, *signing.sign_client(ensure_ca(directory, now), name, now))
    return pair


def _issue_serving(pair: ServingPair, names: Sequence[str], now: datetime) -> None:
    from webhooks.certificates import signing
    from webhooks.certificates.ca import ensure_ca

    pairs.write(pair, *signing.sign_server(ensure_ca(pair.ca.parent, now), names, now))


def reissue(pair: ServingPair, names: Sequence[str], now: datetime) -> None:
    """Issue a new pair for the names of the previous one and for additional names. The directory must be locked.

    Raises:
        ConfigurationError: see `ensure`.
    """
    _issue_serving(pair, normalize([*_previous_names(pair), *names]), now)


def _previous_names(pair: ServingPair) -> list[str]:
    """Return the names of the pair that is about to be replaced, or else the default names."""
    from webhooks.certificates import signing

    certificate = pairs.check_replaceable(pair)
    return default_names() if certificate is None else signing.list_names(certificate)

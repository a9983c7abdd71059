"""Issuing into a directory, and renewing what is there: of our own files alone.

Finding that what is there is good needs nothing but the standard library, which keeps starting quick; ``cryptography``
is imported where something has to be made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from webhooks.certificates import pairs, storage
from webhooks.certificates.names import check_caller, default_names, normal
from webhooks.certificates.pairs import ClientPair, ServingPair, ValidPair
from webhooks.errors import ConfigurationError

logger = logging.getLogger("webhooks.certificates")


def ensure(directory: Path, *, names: Sequence[str] = (), now: datetime | None = None) -> ServingPair:
    """The serving pair in a directory: the one that is there, if it will do, or else a new one.

    It will do if the key is the certificate's, ``ca.pem`` verifies it, it is for all the names and not yet due for
    renewal. A new one is for the names that the one before was for, or else for the `default_names`, too. Any number of
    processes may start at once: one issues, the others wait for it and take what it made. Where a pair is only due, but
    cannot be renewed, it will do, with a warning.

    Args:
        directory: where the files are or shall be: ``ca.pem``, ``ca-key.pem``, ``tls.pem``, ``tls-key.pem``.
        names: DNS names and IP addresses that it must be for.
        now: the time.

    Raises:
        ConfigurationError: for a name that is neither, a directory that cannot be written, and a file that cannot
            be read, holds something else, is missing beside another or is not ours; it names the file and the remedy.
    """
    now = now or datetime.now(UTC)
    wanted = normal(names)
    pair = ServingPair.of(directory)
    if _is_good(pair, wanted, now):
        return pair
    try:
        with storage.locked(directory):
            if not _is_good(pair, wanted, now):  # now that nobody else is at it
                reissue(pair, wanted, now)
    except ConfigurationError as error:
        sound = ValidPair.found(pair, wanted)
        if sound is None or not sound.is_valid(now):
            raise
        logger.warning("%s ends on %s and is not renewed: %s", pair.certificate, f"{sound.leaf.ends:%F}", error)
    return pair


def _is_good(pair: ServingPair, names: Sequence[str], now: datetime) -> bool:
    sound = ValidPair.found(pair, names)
    return sound is not None and sound.is_valid(now) and not sound.is_due(now)


def issue(directory: Path, *, names: Sequence[str] = (), now: datetime | None = None) -> ServingPair:
    """Make a new serving pair, in the place of one of ours that may be there.

    The authority in the directory signs it; one is made where there is none, and followed when it is due.
    Keys are ECDSA P-256. An authority lasts ten years, the server's certificate one year.

    Args:
        directory: where the files shall be; it is made if it is absent.
        names: the DNS names and IP addresses the server is called by; none for those of the pair that is there, or the
            `default_names`.
        now: the time.

    Raises:
        ConfigurationError: as `ensure` does.
    """
    now = now or datetime.now(UTC)
    wanted = normal(names)
    pair = ServingPair.of(directory)
    with storage.locked(directory):
        before = _names_before(pair)
        _issue_serving(pair, wanted or before, now)
    return pair


def issue_client(directory: Path, name: str, *, now: datetime | None = None) -> ClientPair:
    """Make a certificate for a caller: ``NAME.pem`` and ``NAME-key.pem``, in the place of any of ours that are there.

    The authority in the directory signs it, as with `issue`. It lasts one year, and serves for nothing but to
    show a server who is calling.

    Args:
        directory: where the authority is and the files shall be.
        name: the caller's common name, which is the name of the files as well.
        now: the time.

    Raises:
        ConfigurationError: for a name that is no file name or is taken by the files of `issue`, and as
            `ensure` does.
    """
    from webhooks.certificates import signing
    from webhooks.certificates.authority import authority

    check_caller(name)
    now = now or datetime.now(UTC)
    pair = ClientPair(directory / f"{name}.pem", directory / f"{name}-key.pem")
    with storage.locked(directory):
        pairs.replaceable(pair)
        pairs.write(pair, *signing.sign_client(authority(directory, now), name, now))
    return pair


def _issue_serving(pair: ServingPair, names: Sequence[str], now: datetime) -> None:
    from webhooks.certificates import signing
    from webhooks.certificates.authority import authority

    pairs.write(pair, *signing.sign_server(authority(pair.ca.parent, now), names, now))


def reissue(pair: ServingPair, covering: Sequence[str], now: datetime) -> None:
    """Make a new pair for the names of the one that is there, if there is one, and for others; in a locked directory.

    Raises:
        ConfigurationError: as `ensure` does.
    """
    _issue_serving(pair, normal([*_names_before(pair), *covering]), now)


def _names_before(pair: ServingPair) -> list[str]:
    """The names of the pair that is there and may be replaced; without one, the usual ones."""
    from webhooks.certificates import signing

    leaf = pairs.replaceable(pair)
    return default_names() if leaf is None else signing.names(leaf)

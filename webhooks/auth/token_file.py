"""Bearer tokens in a file, as API servers keep them: of each its hash is known here, and whose it is.

A line is ``TOKEN,USER``; what more API servers write into it is not looked at. Or it is YAML, by its name: a list of
``{token: TOKEN, user: USER}``.
"""

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from webhooks.config import strict_yaml
from webhooks.config.validation import FieldError
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.watch import run_periodically

logger = logging.getLogger("webhooks.auth")

_LOOK = 1.0  # seconds between the times that the file is looked at
_YAML = (".yaml", ".yml", ".json")
_TOKEN = re.compile("[!-~]+")  # what can stand in a header

TokenHash: TypeAlias = bytes
"""What is known of a token. The time that it takes to find one among others tells nothing of any token."""


def seal(token: bytes) -> TokenHash:
    """The hash of a token."""
    return sha256(token).digest()


class TokenFile:
    """A file of tokens, which anybody may replace at any time.

    Args:
        file: the file.
        meters: where it is counted how often it could not be taken over.

    Raises:
        ConfigurationError: it cannot be read, is not what it must be, or is empty.
    """

    def __init__(self, file: Path, meters: MetricRegistry) -> None:
        self._file = file
        self._failures = meters.counter(
            "webhooks_token_file_reload_failures", "Changes of the file of tokens that could not be taken over."
        )
        self._users: Mapping[TokenHash, str] = _read(file)
        if not self._users:
            raise ConfigurationError(f"{file}: no token in it: write lines of a token, a comma and a user")
        self._seen = self._done = self._found()

    def user(self, sealed: TokenHash) -> str | None:
        """Whose token it is; None where it is none of these."""
        return self._users.get(sealed)

    def looking(self) -> AbstractContextManager[None]:
        """Look at the file over and over, for as long as the block lasts."""
        return run_periodically(self.look, _LOOK, "tokens")

    def look(self) -> None:
        """Take over what is in the file, if that is new, good, and the same as at the last look.

        Else somebody may be writing. An empty file is good: nobody may call any more.
        """
        found, before = self._found(), self._seen
        self._seen = found
        if found != before or found == self._done:
            return
        self._done = found
        if isinstance(found, str):
            self._failures.add()
            logger.error("tokens are not taken over, and those from before are taken on: %s", found)
        else:
            self._users = found

    def _found(self) -> Mapping[TokenHash, str] | str:
        """What is in the file, or what is wrong with it."""
        try:
            return _read(self._file)
        except ConfigurationError as error:
            return str(error)


def _read(file: Path) -> Mapping[TokenHash, str]:
    """The users by their tokens."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from None
    if len(raw) > strict_yaml.MAX_SIZE:
        raise ConfigurationError(f"{file}: more than {strict_yaml.MAX_SIZE} bytes")
    users: dict[TokenHash, str] = {}
    for place, token, user in _entries(raw, file):
        if not (_TOKEN.fullmatch(token) and user):
            raise ConfigurationError(f"{place}: must be a token without blanks, and a user")
        if users.setdefault(seal(token.encode()), user) != user:
            raise ConfigurationError(f"{place}: the token is one of another user too: each needs its own")
    return users


def _entries(raw: bytes, file: Path) -> Iterator[tuple[str, str, str]]:
    """The place, token and user of each entry. No error tells what is written there."""
    if file.suffix in _YAML:
        yield from _of_document(raw, file)
        return
    try:
        lines = csv.reader(raw.decode("utf-8-sig").splitlines(), strict=True)
        yield from _of_lines(lines, file)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{file}: no lines of a token, a comma and a user: {error}") from None


def _of_lines(lines: Iterable[list[str]], file: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(lines, 1):
        if line:
            token, user = (*line, "")[:2]
            yield f"{file}:{number}", token.strip(), user.strip()


def _of_document(raw: bytes, file: Path) -> Iterator[tuple[str, str, str]]:
    document = strict_yaml.parse(raw, file)
    if not isinstance(document.tree, list):
        raise ConfigurationError(f"{file}: must be a list of {{token: ..., user: ...}}")
    for number, entry in enumerate(document.tree):
        members = entry if isinstance(entry, dict) else {}
        token, user = members.get("token"), members.get("user")
        if not (isinstance(token, str) and isinstance(user, str)):
            raise document.error(
                [FieldError((number,), "Invalid value", "must be {token: ..., user: ...}, both texts")]
            )
        place = document.place((number,))
        yield f"{file}:{place.line}:{place.column}", token, user

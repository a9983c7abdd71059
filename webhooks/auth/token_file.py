"""Reads bearer tokens from a file in the format of API servers. Only their hashes are kept in memory.

A line is ``TOKEN,USER``; further columns are ignored. A YAML file, recognized by its name, is a list of
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
from webhooks.errors import ConfigurationError, unreadable
from webhooks.observability.metrics import MetricRegistry
from webhooks.watch import FileWatcher, run_periodically

logger = logging.getLogger("webhooks.auth")

_POLL_INTERVAL = 1.0  # seconds
_YAML_SUFFIXES = (".yaml", ".yml", ".json")
_TOKEN = re.compile("[!-~]+")  # the characters of a header value, without spaces

TokenHash: TypeAlias = bytes
"""The hash of a token. The time of a lookup by hash reveals nothing about any token."""


def hash_token(token: bytes) -> TokenHash:
    """Return the hash of a token."""
    return sha256(token).digest()


class TokenFile:
    """A file of bearer tokens, which is reloaded when it changes.

    Args:
        path: the file.
        metrics: counts failed reloads.

    Raises:
        ConfigurationError: the file cannot be read, is malformed, or contains no tokens.
    """

    def __init__(self, path: Path, metrics: MetricRegistry) -> None:
        self._path = path
        self._reload_failures = metrics.counter(
            "webhooks_token_file_reload_failures", "Changes of the token file that could not be loaded."
        )
        # Created before the first read: a change in between is loaded twice instead of never.
        self._watcher = FileWatcher(lambda: [path], lambda: _read(path), self._replace, self._log_error)
        self._users: Mapping[TokenHash, str] = _read(path)
        if not self._users:
            raise ConfigurationError(f"{path}: no tokens: write lines of a token, a comma and a user")

    def find_user(self, token_hash: TokenHash) -> str | None:
        """Return the user of a token; None if the file does not contain the token."""
        return self._users.get(token_hash)

    def watching(self) -> AbstractContextManager[None]:
        """Reload the file when it changes, within the block."""
        return run_periodically(self.poll, _POLL_INTERVAL, "tokens")

    def poll(self) -> None:
        """Load the file if it changed. An empty file is valid here: it revokes all tokens."""
        self._watcher.poll()

    def _replace(self, users: Mapping[TokenHash, str]) -> None:
        self._users = users

    def _log_error(self, error: ConfigurationError) -> None:
        self._reload_failures.add()
        logger.error("the token file is not reloaded, and the previous tokens stay valid: %s", error)


def _read(path: Path) -> Mapping[TokenHash, str]:
    """Return the users by their tokens."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(content) > strict_yaml.MAX_SIZE:
        raise ConfigurationError(f"{path}: more than {strict_yaml.MAX_SIZE} bytes")
    users: dict[TokenHash, str] = {}
    for location, token, user in _parse(content, path):
        if not (_TOKEN.fullmatch(token) and user):
            raise ConfigurationError(f"{location}: must be a token of printable ASCII without spaces, and a user")
        if users.setdefault(hash_token(token.encode()), user) != user:
            raise ConfigurationError(f"{location}: another user has the same token: give each user a different one")
    return users


def _parse(content: bytes, path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the location, token and user of each entry. Errors must not contain tokens."""
    if path.suffix in _YAML_SUFFIXES:
        yield from _parse_yaml(content, path)
        return
    try:
        lines = csv.reader(content.decode("utf-8-sig").splitlines(), strict=True)
        yield from _parse_lines(lines, path)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path}: must be lines of a token, a comma and a user: {error}") from None


def _parse_lines(lines: Iterable[list[str]], path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(lines, 1):
        if line:
            token, user = (*line, "")[:2]
            yield f"{path}:{number}", token.strip(), user.strip()


def _parse_yaml(content: bytes, path: Path) -> Iterator[tuple[str, str, str]]:
    document = strict_yaml.parse(content, path)
    if not isinstance(document.tree, list):
        raise ConfigurationError(f"{path}: must be a list of {{token: ..., user: ...}}")
    for number, entry in enumerate(document.tree):
        members = entry if isinstance(entry, dict) else {}
        token, user = members.get("token"), members.get("user")
        if not (isinstance(token, str) and isinstance(user, str)):
            raise document.error(
                [FieldError((number,), "Invalid value", "must be {token: ..., user: ...}, both strings")]
            )
        location = document.place((number,))
        yield f"{path}:{location.line}:{location.column}", token, user

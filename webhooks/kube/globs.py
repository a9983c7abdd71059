"""Matches names against names and shell patterns."""

import re
from collections.abc import Iterable
from fnmatch import translate

import msgspec

from webhooks.errors import ConfigurationError


class Globs:
    """Names and shell patterns (``*``, ``?``, ``[...]``).

    Attributes:
        texts: the names and patterns; None to match every name.
        excluded: names and patterns of names that do not match nevertheless.
    """

    __slots__ = ("_exclusions", "_names", "_patterns", "excluded", "texts")

    def __init__(self, texts: Iterable[str] | None, excluded: Iterable[str] = ()) -> None:
        self.texts = None if texts is None else parse_strings(texts)
        self.excluded = parse_strings(excluded)
        self._names = frozenset(text for text in self.texts or () if not is_pattern(text))
        self._patterns = tuple(re.compile(translate(text)) for text in self.texts or () if is_pattern(text))
        self._exclusions = Globs(self.excluded) if self.excluded else None

    def __repr__(self) -> str:
        return f"Globs({self.texts!r}, {self.excluded!r})" if self.excluded else f"Globs({self.texts!r})"

    def match(self, name: str) -> bool:
        """Check whether a name matches."""
        if self._exclusions is not None and self._exclusions.match(name):
            return False
        if self.texts is None or name in self._names:
            return True
        return any(pattern.match(name) for pattern in self._patterns)

    def match_any(self, names: Iterable[str]) -> bool:
        """Check whether at least one of these names matches; true without names if every name matches."""
        return self is EVERYTHING or any(self.match(name) for name in names)


def is_pattern(text: str) -> bool:
    """Check whether a text is a shell pattern, not a name."""
    return any(character in text for character in "*?[")


def parse_strings(texts: Iterable[str]) -> tuple[str, ...]:
    """Check that a value is a list of strings, and not a single string.

    Raises:
        ConfigurationError: the value is not a list of strings.
    """
    try:
        return msgspec.convert(list(texts) if not isinstance(texts, str) else texts, tuple[str, ...])
    except (msgspec.ValidationError, TypeError):
        raise ConfigurationError(f"must be a list of strings, not {texts!r}") from None


EVERYTHING = Globs(None)

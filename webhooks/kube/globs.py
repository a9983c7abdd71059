"""Names and shell patterns of names."""

import re
from collections.abc import Iterable
from fnmatch import translate

import msgspec

from webhooks.errors import ConfigurationError


class Globs:
    """Names and shell patterns (``*``, ``?``); none at all matches everything.

    Attributes:
        texts: as they were given; None for everything.
        excluded: names and patterns of those that are not matched all the same.
    """

    __slots__ = ("_names", "_patterns", "_without", "excluded", "texts")

    def __init__(self, texts: Iterable[str] | None, excluded: Iterable[str] = ()) -> None:
        self.texts = None if texts is None else strings(texts)
        self.excluded = strings(excluded)
        self._names = frozenset(text for text in self.texts or () if not is_pattern(text))
        self._patterns = tuple(re.compile(translate(text)) for text in self.texts or () if is_pattern(text))
        self._without = Globs(self.excluded) if self.excluded else None

    def __repr__(self) -> str:
        return f"Globs({self.texts!r}, {self.excluded!r})" if self.excluded else f"Globs({self.texts!r})"

    def match(self, name: str) -> bool:
        """Whether the name is among them."""
        if self._without is not None and self._without.match(name):
            return False
        if self.texts is None or name in self._names:
            return True
        return any(pattern.match(name) for pattern in self._patterns)

    def match_any(self, names: Iterable[str]) -> bool:
        """Whether one of the names is among them."""
        return self is EVERYTHING or any(self.match(name) for name in names)


def is_pattern(text: str) -> bool:
    """Whether it stands for more than itself."""
    return any(character in text for character in "*?[")


def strings(texts: Iterable[str]) -> tuple[str, ...]:
    """A list of strings, for which a single string is not taken.

    Raises:
        ConfigurationError: it is something else.
    """
    try:
        return msgspec.convert(list(texts) if not isinstance(texts, str) else texts, tuple[str, ...])
    except (msgspec.ValidationError, TypeError):
        raise ConfigurationError(f"a list of strings is needed, not {texts!r}") from None


EVERYTHING = Globs(None)

"""Taking over what others write while the server serves: whole, once, and only what is good."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from webhooks.errors import ConfigurationError

T = TypeVar("T")


class Changes(Generic[T]):
    """Takes over what files hold when that is new and good.

    What is no good is complained of once, when it is still the same at the next look: until then somebody may be
    writing.

    Args:
        files: those to look at at present.
        build: makes something of them; raises ConfigurationError where they are no good.
        use: is given what was built.
        refuse: is told why nothing was.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        build: Callable[[], T],
        use: Callable[[T], None],
        refuse: Callable[[ConfigurationError], None],
    ) -> None:
        self._files = files
        self._build = build
        self._use = use
        self._refuse = refuse
        self._seen = self._done = self._contents()

    def look(self) -> None:
        """Look whether there is something new."""
        contents, before = self._contents(), self._seen
        self._seen = contents
        if contents == self._done:
            return
        try:
            built = self._build()
            if contents != self._contents():
                return  # it may be of two versions
            self._use(built)
        except ConfigurationError as error:
            if contents == before:
                self._done = contents
                self._refuse(error)
        else:
            self._done = contents

    def _contents(self) -> dict[Path, bytes | int | None]:
        """What tells whether they are still the same, in any file system; their times and sizes would not."""
        return {path: _digest(path) for path in self._files()}


def _digest(path: Path) -> bytes | int | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError as error:
        return error.errno

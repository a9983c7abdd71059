"""Taking over what others write while the server serves: whole, once, and only what is good."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from webhooks.errors import ConfigurationError

_LARGEST = 4 * 1024 * 1024  # bytes of a file

T = TypeVar("T")


class FileWatcher(Generic[T]):
    """Takes over what files hold when that is new and good.

    It is looked at when it is the same at two looks: until then somebody may be writing, and a part of a file can be
    as good as the whole.

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
        if contents == self._done or contents != before:
            return
        try:
            built = self._build()
            if contents == self._contents():  # else it may be of two versions
                self._use(built)
                self._done = contents
        except ConfigurationError as error:
            self._done = contents
            self._refuse(error)

    def _contents(self) -> dict[Path, bytes | int]:
        """What tells whether they are still the same, in any file system; their times and sizes would not."""
        return {path: _digest(path) for path in self._files()}


def _digest(path: Path) -> bytes | int:
    """What is in a file, or why that cannot be told: a pipe or a device may have no end."""
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return errno.EINVAL
            return hashlib.sha256(file.read(_LARGEST)).digest()
    except OSError as error:
        return error.errno or errno.EIO
    except ValueError:  # no name that a file can have
        return errno.EINVAL


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)

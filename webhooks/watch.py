"""Watches files for changes, and runs functions periodically in a thread."""

import errno
import hashlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from webhooks.errors import ConfigurationError

_MAX_FILE_SIZE = 4 * 1024 * 1024  # bytes; only this much of a file is compared

logger = logging.getLogger("webhooks.watch")

T = TypeVar("T")


class FileWatcher(Generic[T]):
    """Loads files again when their contents changed, and uses the result only if it is valid.

    A change is loaded when two consecutive polls see the same contents: a file that is still being written may be
    valid by accident.

    Args:
        files: returns the files to watch.
        load: loads them; raises ConfigurationError if they are invalid.
        on_change: called with the result of `load`.
        on_error: called with the error of `load`, once for each change.
        loaded: the digests of contents that were loaded before, see `digest`. Files that changed since then are loaded
            again.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        load: Callable[[], T],
        on_change: Callable[[T], None],
        on_error: Callable[[ConfigurationError], None],
        loaded: Mapping[Path, bytes] | None = None,
    ) -> None:
        self._files = files
        self._load = load
        self._on_change = on_change
        self._on_error = on_error
        self._last_seen: dict[Path, bytes | int] = {**self._contents(), **(loaded or {})}
        self._loaded: dict[Path, bytes | int] | None = self._last_seen  # None after a load that was discarded

    def poll(self) -> None:
        """Check once whether the files changed."""
        contents, before = self._contents(), self._last_seen
        self._last_seen = contents
        if contents == self._loaded or contents != before:
            return
        try:
            result = self._load()
            if contents == self._contents():  # otherwise the result may mix two versions
                self._on_change(result)
                self._loaded = contents
            else:
                self._loaded = None
                logger.info("files changed while they were loaded; they will be loaded again")
        except ConfigurationError as error:
            self._loaded = contents
            self._on_error(error)

    def _contents(self) -> dict[Path, bytes | int]:
        """Map each file to a digest of its contents. Times and sizes do not show every change on every file system."""
        return {path: digest_file(path) for path in self._files()}


def digest(contents: bytes) -> bytes:
    """Return the digest by which contents are compared."""
    return hashlib.sha256(contents[:_MAX_FILE_SIZE]).digest()


def digest_file(path: Path) -> bytes | int:
    """Return the digest of a regular file, else an error number. A pipe or a device may never end."""
    try:
        with open(path, "rb", opener=_open_without_blocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return errno.EINVAL
            return digest(file.read(_MAX_FILE_SIZE))
    except OSError as error:
        return error.errno or errno.EIO
    except ValueError:  # not a valid file name
        return errno.EINVAL


def _open_without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


@contextmanager
def run_periodically(
    action: Callable[[], None], seconds: float, name: str, *, immediately: bool = False
) -> Iterator[None]:
    """Call a function periodically within the block. It runs in its own thread, because a file system may hang.

    An exception of the function is logged, and the function is called again.

    Args:
        action: the function.
        seconds: the interval.
        name: the name of the thread, also for the log.
        immediately: whether the first call comes without delay.
    """
    stopped = threading.Event()

    def loop() -> None:
        delay = 0.0 if immediately else seconds
        while not stopped.wait(delay):
            delay = seconds
            try:
                action()
            except Exception:
                logger.exception("%s failed; it will be retried", name)

    threading.Thread(target=loop, name=name, daemon=True).start()
    try:
        yield
    finally:
        stopped.set()


class LastError:
    """Remembers the last error of a periodic function, so that it is logged once."""

    def __init__(self) -> None:
        self._error = ""

    def is_new(self, error: str) -> bool:
        """Check whether an error differs from the previous one. An empty string means that there was none."""
        is_new = error not in ("", self._error)
        self._error = error
        return is_new

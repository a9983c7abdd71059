"""Reads files, and writes them atomically, in a directory that one process at a time changes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from webhooks.errors import ConfigurationError, unreadable, unwritable


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock a directory for this process. It is created if absent.

    Raises:
        ConfigurationError: it cannot be created or locked.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unwritable(directory, error) from error
    try:
        _lock(directory, descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(directory: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    return unwritable(
        path, error, "choose a directory that this user can write, or give the server a certificate and key"
    )


def read(path: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error, "make it readable to this user, or remove it") from error


def write(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically.

    Raises:
        ConfigurationError: it cannot be written, and is unchanged.
    """
    temporary = path.with_name(f".{path.stem}.{os.urandom(8).hex()}.pem")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise _unwritable(path, error) from error

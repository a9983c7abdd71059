"""Files that appear whole or not at all, in a directory that one process at a time changes."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from webhooks.errors import ConfigurationError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """The directory, made if it is absent, for this process alone.

    Raises:
        ConfigurationError: it cannot be made or locked.
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
    reason = error.strerror or error
    return ConfigurationError(
        f"{path}: cannot be written ({reason}): choose a directory that this user can write, "
        "or give the server a certificate and key"
    )


def read(path: Path) -> bytes | None:
    """What is in a file; None where there is none.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror or error}): make it readable to this user, or remove it"
        ) from error


def write(path: Path, content: bytes, mode: int) -> None:
    """Put a file in its place whole or not at all.

    Raises:
        ConfigurationError: it cannot be written; nothing has changed then.
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

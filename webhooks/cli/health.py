"""Asking a server whether it can answer, as the health check of a container does, whose image has no other client."""

from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import SplitResult, urlsplit

from webhooks.errors import ConfigurationError

READY = "http://127.0.0.1:8080/readyz"

_SECONDS = 3.0  # as long as a server takes at most to say anything
_LONGEST = 4096  # bytes of an answer that are read


@dataclass(frozen=True)
class State:
    """What was found.

    Attributes:
        good: whether the server says that all is in order.
        says: its answer, or why there is none, in a line.
    """

    good: bool
    says: str


def ask(url: str = READY) -> State:
    """Ask a server for its health. No proxy is used, and no redirection followed.

    Args:
        url: one of the paths for health on its ops port.

    Raises:
        ConfigurationError: it is no URL with ``http``, or has no host.
    """
    where, port = _parts(url)
    connection = HTTPConnection(where.hostname or "", port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{where.path or '/'}?{where.query}".removesuffix("?"))
        response = connection.getresponse()
        text = response.read(_LONGEST).decode(errors="replace")
    except UnicodeError:
        raise ConfigurationError(f"{url}: give a URL of ASCII and a host that can be, such as {READY}") from None
    except (OSError, HTTPException) as error:
        return State(False, _line(str(error)) or type(error).__name__)
    finally:
        connection.close()
    good = response.status == 200
    return State(good, _line(text) if good else f"{response.status} {_line(text)}".strip())


def _line(text: str) -> str:
    """The lines of a text in one, without what a terminal would obey."""
    said = ", ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(character if character.isprintable() else "?" for character in said)


def _parts(url: str) -> tuple[SplitResult, int]:
    """The URL in its parts, and its port."""
    try:
        where = urlsplit(url)
        port = where.port or 80
    except ValueError as error:
        raise ConfigurationError(f"{url}: {error}") from None
    if where.scheme != "http" or not where.hostname:
        raise ConfigurationError(f"{url}: give a URL of the ops port, such as {READY}")
    return where, port

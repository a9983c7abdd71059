"""The command ``webhooks health``: a health check for containers without another HTTP client."""

import sys
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import SplitResult, urlsplit

import click

from webhooks.errors import ConfigurationError, printable, reason_for

READY_URL = "http://127.0.0.1:8080/readyz"

_TIMEOUT = 3.0  # seconds
_MAX_RESPONSE = 4096  # bytes


@click.command(epilog="Example: webhooks health http://127.0.0.1:8080/livez")
@click.argument("url", default=READY_URL)
def health(url: str) -> None:
    """Check the health of a server.

    URL must be on the ops port. Default: http://127.0.0.1:8080/readyz. Prints the response. The exit code is 0 if
    the server is healthy, else 1.
    """
    result = probe(url)
    click.echo(f"{url}: {result.message}", err=not result.is_healthy)
    sys.exit(not result.is_healthy)


@dataclass(frozen=True)
class Health:
    """The result of a health check.

    Attributes:
        is_healthy: whether the server answered with 200.
        message: the response, or why there is none, on one line.
    """

    is_healthy: bool
    message: str


def probe(url: str) -> Health:
    """Check the health of a server. Uses no proxy and follows no redirect.

    Args:
        url: a URL of its ops port.

    Raises:
        ConfigurationError: the URL is invalid, has no host, or is not for ``http``.
    """
    parts, port = _parse(url)
    connection = HTTPConnection(parts.hostname or "", port, timeout=_TIMEOUT)
    try:
        connection.request("GET", f"{parts.path or '/'}?{parts.query}".removesuffix("?"))
        response = connection.getresponse()
        text = response.read(_MAX_RESPONSE).decode(errors="replace")
    except UnicodeError:
        raise ConfigurationError(f"{url}: must be ASCII with a valid host, such as {READY_URL}") from None
    except (OSError, HTTPException) as error:
        return Health(False, reason_for(error))
    finally:
        connection.close()
    is_healthy = response.status == 200
    return Health(is_healthy, _one_line(text) if is_healthy else f"{response.status} {_one_line(text)}".strip())


def _one_line(text: str) -> str:
    return printable(", ".join(line.strip() for line in text.splitlines() if line.strip()))


def _parse(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError as error:
        raise ConfigurationError(f"{url}: {error}") from None
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigurationError(f"{url}: must be a URL of the ops port, such as {READY_URL}")
    return parts, port

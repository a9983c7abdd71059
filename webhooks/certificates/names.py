"""Names in certificates: DNS names and IP addresses of servers, and common names of clients."""

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address

from webhooks.errors import ConfigurationError

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_DNS_NAME = re.compile(rf"(?![0-9.]+\Z)(?=.{{1,253}}\Z)(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_CLIENT_NAME = re.compile(r"(?!(?:ca|tls)\Z|.*-(?:key|cross)\Z)[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")


def default_names() -> list[str]:
    """Return the names of a server on this host. Makes no network request.

    Returns:
        ``localhost`` and its addresses, the host name, and the first label of the host name.
    """
    host = socket.gethostname().lower()
    local = [name for name in (host, host.partition(".")[0]) if _DNS_NAME.fullmatch(name)]
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", *local]))


def normalize(names: Iterable[str]) -> list[str]:
    """Return names in canonical form, without duplicates.

    Raises:
        ConfigurationError: a name is neither a DNS name nor an IP address.
    """
    return list(dict.fromkeys(map(_normalize, names)))


def _normalize(name: str) -> str:
    address = parse_address(name)
    if address is not None:
        return address
    if not _DNS_NAME.fullmatch(name.lower()):
        raise ConfigurationError(f"name {name!r}: must be a DNS name or an IP address")
    return name.lower()


def parse_address(name: str) -> str | None:
    """Return the canonical form of an IP address; None for anything else, and for an address with a zone."""
    try:
        return None if "%" in name else str(ip_address(name))
    except ValueError:
        return None


def check_client_name(name: str) -> None:
    """Check that a client's name can be the name of its files.

    Raises:
        ConfigurationError: it is not usable as a file name, or reserved for the files of the CA and the server.
    """
    if not _CLIENT_NAME.fullmatch(name):
        raise ConfigurationError(
            f"client name {name!r}: must be at most 64 letters, digits and '._:@-', starting with a letter or digit; "
            "'ca', 'tls' and names that end with '-key' or '-cross' are reserved"
        )

"""The names that certificates are for: of servers, which are DNS names and IP addresses, and of callers."""

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address

from webhooks.errors import ConfigurationError

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_DNS_NAME = re.compile(rf"(?![0-9.]+\Z)(?=.{{1,253}}\Z)(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_CALLER = re.compile(r"(?!(?:ca|tls)\Z|.*-(?:key|cross)\Z)[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")


def default_names() -> list[str]:
    """The names a server on this machine is called by, found without asking the network.

    Returns:
        ``localhost`` and its addresses, then the host's name, and its first part where it has several.
    """
    host = socket.gethostname().lower()
    local = [name for name in (host, host.partition(".")[0]) if _DNS_NAME.fullmatch(name)]
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", *local]))


def normal(names: Iterable[str]) -> list[str]:
    """The names in the one form they compare in; each once.

    Raises:
        ConfigurationError: for one that is neither a DNS name nor an IP address.
    """
    return list(dict.fromkeys(map(_normal, names)))


def _normal(name: str) -> str:
    address = as_address(name)
    if address is not None:
        return address
    if not _DNS_NAME.fullmatch(name.lower()):
        raise ConfigurationError(f"name {name!r}: neither a DNS name nor an IP address")
    return name.lower()


def as_address(name: str) -> str | None:
    """The usual spelling of an IP address; None for anything else, and for one with a zone."""
    try:
        return None if "%" in name else str(ip_address(name))
    except ValueError:
        return None


def check_caller(name: str) -> None:
    """Refuse a caller's name that cannot name its files.

    Raises:
        ConfigurationError: the name is no file name, or its files would be those of the authority or the server.
    """
    if not _CALLER.fullmatch(name):
        raise ConfigurationError(
            f"client name {name!r}: up to 64 letters, digits and '._:@-' are possible, beginning with a "
            "letter or digit; 'ca', 'tls' and names ending in '-key' or '-cross' are taken"
        )

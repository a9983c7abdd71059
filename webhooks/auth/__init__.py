"""Client authentication: client certificates, token files and OIDC."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhooks.auth.authenticator import Authenticator
    from webhooks.auth.oidc import OidcIssuer
    from webhooks.auth.token_file import TokenFile

__all__ = ["Authenticator", "OidcIssuer", "TokenFile"]

_MODULES = {"Authenticator": "authenticator", "OidcIssuer": "oidc", "TokenFile": "token_file"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: `OidcIssuer` requires the extra ``oidc``."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

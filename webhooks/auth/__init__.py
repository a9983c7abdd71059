"""Client authentication: client certificates, token files and OIDC. `OidcIssuer` requires the extra ``oidc``."""

from typing import TYPE_CHECKING

from webhooks._lazy import lazy_exports

if TYPE_CHECKING:
    from webhooks.auth.authenticator import Authenticator as Authenticator
    from webhooks.auth.oidc import OidcIssuer as OidcIssuer
    from webhooks.auth.token_file import TokenFile as TokenFile
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        globals(),
        {
            "Authenticator": "webhooks.auth.authenticator",
            "OidcIssuer": "webhooks.auth.oidc",
            "TokenFile": "webhooks.auth.token_file",
        },
    )

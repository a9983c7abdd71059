"""Who may call, as the settings say."""

from webhooks.auth.authenticator import Authenticator, Issuer
from webhooks.auth.token_file import TokenFile
from webhooks.errors import ConfigurationError
from webhooks.observability.metrics import MetricRegistry
from webhooks.settings import Settings


def callers(settings: Settings, meters: MetricRegistry) -> Authenticator:
    """Those who may call.

    Args:
        settings: which say it.
        meters: where the refused are counted.

    Raises:
        ConfigurationError: a file is not what it must be, or what they need is not installed.
    """
    return Authenticator(
        meters,
        names=None if settings.client_ca is None else settings.allow_client,
        tokens=None if settings.token_file is None else TokenFile(settings.token_file, meters),
        issuer=_issuer(settings, meters),
    )


def _issuer(settings: Settings, meters: MetricRegistry) -> Issuer | None:
    url, audience = settings.oidc_issuer, settings.oidc_audience
    if url is None:
        return None
    assert audience, "the settings have been checked"
    try:
        from webhooks.auth.oidc import OidcIssuer
    except ModuleNotFoundError as missing:
        raise ConfigurationError(
            f"--oidc-issuer needs the module {missing.name}: pip install 'cluster-webhooks[oidc]'"
        ) from None
    return OidcIssuer(url, audience, settings.oidc_subject, settings.oidc_ca, meters)

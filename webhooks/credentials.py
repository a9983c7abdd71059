"""Who may call, as the settings say."""

from webhooks.callers import Callers, Issuer
from webhooks.errors import ConfigurationError
from webhooks.meters import Meters
from webhooks.settings import Settings
from webhooks.tokens import TokenFile


def callers(settings: Settings, meters: Meters) -> Callers:
    """Those who may call.

    Args:
        settings: which say it.
        meters: where the refused are counted.

    Raises:
        ConfigurationError: the settings contradict each other, or a file is not what it must be.
    """
    if settings.allow_client and settings.client_ca is None:
        raise ConfigurationError("--allow-client chooses among the certificates of --client-ca: give that too")
    if "" in settings.allow_client:
        raise ConfigurationError("--allow-client is empty: give a name in a certificate, or leave it out for any")
    return Callers(
        meters,
        names=None if settings.client_ca is None else settings.allow_client,
        tokens=None if settings.token_file is None else TokenFile(settings.token_file, meters),
        issuer=_issuer(settings, meters),
    )


def _issuer(settings: Settings, meters: Meters) -> Issuer | None:
    url, audience, subjects = settings.oidc_issuer, settings.oidc_audience, settings.oidc_subject
    if url is None:
        if audience or subjects or settings.oidc_ca:
            raise ConfigurationError("--oidc-audience, --oidc-subject and --oidc-ca are about --oidc-issuer: give that")
        return None
    if not (audience and subjects and all(subjects)):
        raise ConfigurationError(
            "--oidc-issuer issues tokens to many: give --oidc-audience, which is us, and --oidc-subject for each caller"
        )
    try:
        from webhooks.oidc import OidcIssuer
    except ModuleNotFoundError as missing:
        raise ConfigurationError(
            f"--oidc-issuer needs the module {missing.name}: pip install 'cluster-webhooks[oidc]'"
        ) from None
    return OidcIssuer(url, audience, subjects, settings.oidc_ca, meters)

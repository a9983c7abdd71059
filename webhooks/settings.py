"""What a server is told: one frozen object."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from webhooks.errors import ConfigurationError
from webhooks.limits import Limits
from webhooks.options import option

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Extent: TypeAlias = Literal["off", "denials", "all"]

_LONGEST = 24 * 3600  # seconds


@dataclass(frozen=True)
class Settings:
    """How to serve. What a setting is for stands beside it, for whoever asks for help."""

    config: Path | None = option(
        None, "A WebhookConfiguration (YAML): these settings, and policies with what their operator says of them."
    )
    policies: tuple[str, ...] = option(
        (),
        "A policy file, a folder of them, or library:NAME for a ready one. Repeat it for more.",
        metavar="PATH_OR_NAME",
    )
    admission_config: Path | None = option(
        None, "An AdmissionConfiguration that names plugins, such as EventRateLimit, with their configuration (YAML)."
    )
    host: str = option("0.0.0.0", "The address to listen at.")  # noqa: S104  # a webhook is called from elsewhere
    port: int = option(8443, "For reviews, over TLS; 0 for any.", least=0, most=65535)
    ops_port: int | None = option(8080, "For health and metrics, plain HTTP; 0 for none.", least=0, most=65535)
    certs_dir: Path = option(
        Path("certs"),
        "Where a development authority and certificate are kept, or made if no certificate is given.",
        folder=True,
    )
    tls_cert: Path | None = option(None, "The serving certificate with its chain (PEM).")
    tls_key: Path | None = option(None, "Its private key (PEM).")
    client_ca: Path | None = option(None, "Only take callers with a certificate that one of these signed (PEM).")
    allow_client: tuple[str, ...] = option(
        (),
        "Of those, only ones for this common name, DNS name, URI, email or IP address. Repeat it for more.",
        metavar="NAME",
    )
    token_file: Path | None = option(
        None, "Only take callers with a bearer token of this file: lines of TOKEN,USER; or YAML."
    )
    oidc_issuer: str | None = option(None, "Only take callers with a bearer token of this issuer.", metavar="URL")
    oidc_audience: str | None = option(None, "Of those, only ones that are for this audience.")
    oidc_subject: tuple[str, ...] = option((), "Of those, only ones of this subject. Repeat it for more.")
    oidc_ca: Path | None = option(None, "Who signs the issuer's certificate (PEM); else whom this host trusts.")
    workers: int = option(1, "Processes that answer.", least=1, most=64)
    shutdown_delay: float = option(
        10.0,
        "From SIGTERM until nobody is let in any more: time for callers to learn that the server is not ready.",
        least=0,
        most=_LONGEST,
    )
    grace: float = option(50.0, "For open reviews and connections to end after that.", least=0, most=_LONGEST)
    log_level: Level = option("info", "Records of the log below it are left out.")
    decision_log: Extent = option("all", "Which reviews are written to the log, with what became of them.")
    tracing: bool = option(False, "Send spans of reviews and policies to where OTEL_* variables say.")
    sync_ca_bundle: str | None = option(
        None,
        "Keep the caBundle of the registrations of that name in step with our authority.",
        metavar="[NAME]",
        bare="webhooks",
    )
    kubeconfig: Path | None = option(
        None, "How their API server is reached; else as the pod we are in, or $KUBECONFIG."
    )
    context: str | None = option(None, "Which context of it; else the current one.", metavar="NAME")
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops_port", self.ops_port or None)

    def check(self) -> None:
        """See that they go together; no file is looked at.

        Raises:
            ConfigurationError: with all that does not, a line each.
        """
        wrong = [*_of_ports(self), *_of_certificates(self), *_of_tokens(self), *_of_registrations(self)]
        if wrong:
            raise ConfigurationError("\n".join(wrong))


def _of_ports(settings: Settings) -> Iterator[str]:
    if settings.ops_port is not None and settings.ops_port == settings.port != 0:
        yield f"--port and --ops-port are both {settings.port}: choose two, or 0 for no ops port"


def _of_certificates(settings: Settings) -> Iterator[str]:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        yield "a certificate and its key belong together: give both --tls-cert and --tls-key"
    if settings.allow_client and settings.client_ca is None:
        yield "--allow-client chooses among the certificates of --client-ca: give that too"
    if "" in settings.allow_client:
        yield "--allow-client is empty: give a name in a certificate, or leave it out for any"


def _of_tokens(settings: Settings) -> Iterator[str]:
    audience, subjects = settings.oidc_audience, settings.oidc_subject
    if settings.oidc_issuer is None:
        if audience or subjects or settings.oidc_ca:
            yield "--oidc-audience, --oidc-subject and --oidc-ca are about --oidc-issuer: give that"
    elif not (audience and subjects and all(subjects)):
        yield (
            "--oidc-issuer issues tokens to many: give --oidc-audience, which is us, and --oidc-subject for each caller"
        )


def _of_registrations(settings: Settings) -> Iterator[str]:
    if settings.sync_ca_bundle is None and (settings.kubeconfig is not None or settings.context is not None):
        yield "--kubeconfig and --context are about --sync-ca-bundle: give that"

"""Settings of a server, as frozen dataclasses. Flags, variables and configuration fields derive from them."""

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, get_args

from webhooks.errors import ConfigurationError

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Extent: TypeAlias = Literal["off", "denials", "all"]

_MAX_COUNT = 1_000_000
_MAX_TIMEOUT = 60  # seconds; the event loop limits a TLS handshake to the same time
_MAX_SHUTDOWN = 24 * 3600  # seconds


@dataclass(frozen=True)
class Option:
    """Metadata of a setting, in addition to its type and default. A setting of type float is a duration in seconds.

    Attributes:
        help: the help text, one or two sentences.
        min: the minimum; None for no minimum.
        max: the maximum; None for no maximum.
        is_folder: whether a path is the path of a folder.
        metavar: the name of a value in the help; empty for the name of its type.
        flag_value: the value of a flag that is given without one; None if the flag requires a value.
    """

    help: str
    min: Any = None
    max: Any = None
    is_folder: bool = False
    metavar: str = ""
    flag_value: Any = None


def option(
    default: Any,
    help: str,  # noqa: A002  # the same name as in click and argparse
    *,
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
    is_folder: bool = False,
    metavar: str = "",
    flag_value: Any = None,
) -> Any:
    """Define a dataclass field that is a setting. See `Option` for the arguments."""
    return field(default=default, metadata={"option": Option(help, min, max, is_folder, metavar, flag_value)})


def options(settings: type) -> Iterator[tuple[Field[Any], Option]]:
    """List the settings of a dataclass in order, without fields that are dataclasses themselves."""
    for setting in fields(settings):
        if setting.default is not MISSING:
            yield setting, setting.metadata["option"]


def without_none(hint: Any) -> Any:
    """Return the type of a setting without None: ``int`` for ``int | None``."""
    if not isinstance(hint, UnionType):
        return hint
    [only] = [member for member in get_args(hint) if member is not NoneType]
    return only


@dataclass(frozen=True)
class Limits:
    """Limits of each server process. The defaults suit API servers, which keep 25 idle connections each.

    The largest object of an API server has about 3 MiB, and an update sends two. The timeout for headers starts with
    the first byte, or with the end of the handshake for the first request; the timeout for a body starts with the end
    of its headers.
    """

    max_connections: int = option(
        4096, "Connections per port. If all are in use, the longest idle ones are closed.", min=1, max=_MAX_COUNT
    )
    max_connections_per_peer: int = option(2048, "Connections per client address.", min=1, max=_MAX_COUNT)
    max_in_flight: int = option(
        64, "Reviews that wait for policies at the same time. Inline policies do not count.", min=1, max=_MAX_COUNT
    )
    max_queue: int = option(
        1024, "Reviews in the queue for a slot. Further ones are answered with 429.", min=0, max=_MAX_COUNT
    )
    max_body: int = option(7 * 1024 * 1024, "Size of a review in bytes.", min=1024, max=64 * 1024**2)
    max_headers: int = option(100, "Headers of a request, including trailers.", min=1, max=_MAX_COUNT)
    max_header_bytes: int = option(32 * 1024, "Size of the headers of a request in bytes.", min=1024, max=1024**2)
    tls_timeout: float = option(5.0, "Timeout for a TLS handshake.", min=0.1, max=_MAX_TIMEOUT)
    header_timeout: float = option(5.0, "Timeout for the headers of a request.", min=0.1, max=_MAX_TIMEOUT)
    body_timeout: float = option(
        10.0, "Timeout for the body of a request, and for the client to read a response.", min=0.1, max=_MAX_TIMEOUT
    )


@dataclass(frozen=True)
class Settings:
    """Settings of a server. The help text of each setting is in its `Option`."""

    config: Path | None = option(
        None, "A WebhookConfiguration (YAML): these settings, and policies with their parameters, modes and exemptions."
    )
    policies: tuple[str, ...] = option(
        (),
        "A policy file, a folder of policy files, or library:NAME for a bundled policy. Repeatable.",
        metavar="PATH_OR_NAME",
    )
    admission_config: Path | None = option(
        None, "An AdmissionConfiguration (YAML) with the configuration of plugins, such as EventRateLimit."
    )
    host: str = option("0.0.0.0", "The address to listen on.")  # noqa: S104  # clients are on other hosts
    port: int = option(8443, "The port for reviews, over TLS; 0 for any free port.", min=0, max=65535)
    ops_port: int | None = option(
        8080, "The port for health and metrics, over plain HTTP; 0 to turn it off.", min=0, max=65535
    )
    certs_dir: Path = option(
        Path("certs"),
        "The folder of the development CA and its certificates. They are created if no certificate is given.",
        is_folder=True,
    )
    tls_cert: Path | None = option(None, "The serving certificate with its chain (PEM).")
    tls_key: Path | None = option(None, "The private key of the serving certificate (PEM).")
    client_ca: Path | None = option(None, "Require a client certificate that is signed by one of these CAs (PEM).")
    allow_client: tuple[str, ...] = option(
        (),
        "Accept only client certificates with this common name, DNS name, URI, email or IP address. Repeatable.",
        metavar="NAME",
    )
    token_file: Path | None = option(
        None,
        "Require a bearer token from this file: lines of TOKEN,USER, or a YAML list of {token: TOKEN, user: USER}.",
    )
    oidc_issuer: str | None = option(None, "Require a bearer token of this OIDC issuer.", metavar="URL")
    oidc_audience: str | None = option(None, "Accept only OIDC tokens for this audience.")
    oidc_subject: tuple[str, ...] = option((), "Accept only OIDC tokens of this subject. Repeatable.")
    oidc_ca: Path | None = option(
        None, "The CAs for the certificate of the OIDC issuer (PEM). Default: the CAs of this host."
    )
    workers: int = option(1, "The number of server processes.", min=1, max=64)
    shutdown_delay: float = option(
        10.0,
        "How long the server accepts requests after SIGTERM, while readiness fails and clients move on.",
        min=0,
        max=_MAX_SHUTDOWN,
    )
    grace: float = option(
        50.0, "How long open reviews and connections may last after the shutdown delay.", min=0, max=_MAX_SHUTDOWN
    )
    log_level: Level = option("info", "The minimum level of log records.")
    decision_log: Extent = option("all", "Which reviews are logged with their decision.")
    tracing: bool = option(
        False, "Export OpenTelemetry spans of reviews and policies. Configure it with OTEL_* variables."
    )
    sync_ca_bundle: str | None = option(
        None,
        "Keep the caBundle of the webhook configurations with this name in sync with the development CA.",
        metavar="[NAME]",
        flag_value="webhooks",
    )
    kubeconfig: Path | None = option(
        None, "The kubeconfig for --sync-ca-bundle. Default: the pod's service account, or $KUBECONFIG."
    )
    context: str | None = option(None, "The context of the kubeconfig. Default: its current context.", metavar="NAME")
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ops_port", self.ops_port or None)

    def check(self) -> None:
        """Check that the settings are consistent. Reads no file.

        Raises:
            ConfigurationError: settings contradict each other; one line for each contradiction.
        """
        errors = [*_check_ports(self), *_check_certificates(self), *_check_tokens(self), *_check_cluster(self)]
        if errors:
            raise ConfigurationError("\n".join(errors))


def _check_ports(settings: Settings) -> Iterator[str]:
    if settings.ops_port is not None and settings.ops_port == settings.port != 0:
        yield f"--port and --ops-port are both {settings.port}: use two different ports, or 0 for no ops port"


def _check_certificates(settings: Settings) -> Iterator[str]:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        yield "--tls-cert and --tls-key must be given together"
    if settings.allow_client and settings.client_ca is None:
        yield "--allow-client requires --client-ca"
    if "" in settings.allow_client:
        yield "--allow-client is empty: give a name in a certificate, or omit the option to accept any name"


def _check_tokens(settings: Settings) -> Iterator[str]:
    audience, subjects = settings.oidc_audience, settings.oidc_subject
    if settings.oidc_issuer is None:
        if audience or subjects or settings.oidc_ca:
            yield "--oidc-audience, --oidc-subject and --oidc-ca require --oidc-issuer"
    elif not (audience and subjects and all(subjects)):
        yield (
            "--oidc-issuer requires --oidc-audience (the name of this server) and --oidc-subject (for each client): "
            "an issuer also issues tokens to others"
        )


def _check_cluster(settings: Settings) -> Iterator[str]:
    if settings.sync_ca_bundle is None and (settings.kubeconfig is not None or settings.context is not None):
        yield "--kubeconfig and --context require --sync-ca-bundle"

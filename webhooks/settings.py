"""What a server is told: one frozen object."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from webhooks.limits import Limits

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Extent: TypeAlias = Literal["off", "denials", "all"]


@dataclass(frozen=True)
class Settings:
    """How to serve.

    Attributes:
        policies: files, folders and ``library:NAME``s.
        admission_config: an AdmissionConfiguration that names plugins; None for no plugins.
        host: the address to listen at.
        port: for reviews, over TLS; 0 for any that is free.
        ops_port: for health and metrics, plain HTTP; None for none.
        certs_dir: where certificates of its own are kept.
        tls_cert: the serving certificate with its chain; None for one of its own.
        tls_key: its private key.
        client_ca: who signs callers' certificates, which are then required; None to require none.
        allow_client: the names that these certificates may be for; empty for any.
        token_file: the tokens that callers may send, one of which is then required; None for none.
        oidc_issuer: the URL of an issuer of other tokens that they may send; None for none.
        oidc_audience: what these tokens call us.
        oidc_subject: the subjects that these tokens may be for.
        oidc_ca: who signs the issuer's certificate; None for whom this machine trusts.
        workers: processes that answer.
        limits: how much each of them takes.
        shutdown_delay: seconds from SIGTERM until nobody is let in any more.
        grace: seconds that open reviews have then.
        log_level: records of the log below it are left out.
        decision_log: which reviews are written down there: none, those that were not let pass, or all.
        tracing: whether spans are made of them, as ``OTEL_*`` variables of the environment say.
    """

    policies: tuple[str, ...] = ()
    admission_config: Path | None = None
    host: str = "0.0.0.0"  # noqa: S104  # a webhook is called from elsewhere
    port: int = 8443
    ops_port: int | None = 8080
    certs_dir: Path = Path("certs")
    tls_cert: Path | None = None
    tls_key: Path | None = None
    client_ca: Path | None = None
    allow_client: tuple[str, ...] = ()
    token_file: Path | None = None
    oidc_issuer: str | None = None
    oidc_audience: str | None = None
    oidc_subject: tuple[str, ...] = ()
    oidc_ca: Path | None = None
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    shutdown_delay: float = 10.0
    grace: float = 50.0
    log_level: Level = "info"
    decision_log: Extent = "all"
    tracing: bool = False

"""What a server is told: one frozen object."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """How to serve.

    Attributes:
        policies: files, folders and ``library:NAME``s.
        admission_config: an AdmissionConfiguration that names plugins; None for no plugins.
        host: the address to listen at.
        port: for reviews, over TLS; 0 for any that is free.
        ops_port: for health and metrics, plain HTTP; None for none.
        certs_dir: where development certificates are kept.
        tls_cert: the serving certificate with its chain; None for a development certificate.
        tls_key: its private key.
        client_ca: who signs callers' certificates, which are then required; None to take every caller.
        workers: processes that answer.
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
    workers: int = 1

"""TLS for reviews: certificate files, and contexts that were checked to work."""

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from webhooks import certificates
from webhooks.certificates import verification
from webhooks.certificates.verification import Validity
from webhooks.errors import ConfigurationError, unreadable

_CIPHERS = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; all ciphers of TLS 1.3 are secure

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files for TLS.

    Attributes:
        certificate: the serving certificate with its chain.
        key: its private key.
        ca: the development CA that issued it; None if another CA did.
        client_ca: the CAs of client certificates; None if clients need no certificate.
    """

    certificate: Path
    key: Path
    ca: Path | None = None
    client_ca: Path | None = None

    @classmethod
    def development(cls, directory: Path, client_ca: Path | None = None) -> "TlsFiles":
        """Return the files in the directory of a development CA. They need not exist yet."""
        pair = certificates.ServingPair.from_directory(directory)
        return cls(pair.certificate, pair.key, pair.ca, client_ca)

    @property
    def paths(self) -> list[Path]:
        """All files."""
        return [path for path in (self.certificate, self.key, self.ca, self.client_ca) if path is not None]


class LoadedTls(NamedTuple):
    """A context with certificates.

    Attributes:
        context: the context of a server.
        client_cas: the CAs of client certificates (DER).
        expiry: when certificates expire, in seconds since 1970, for ``serving``, ``ca`` and ``client_ca``; of several
            CAs in a file, the first that expires.
    """

    context: ssl.SSLContext
    client_cas: Sequence[bytes]
    expiry: dict[str, float]


def load(files: TlsFiles) -> LoadedTls:
    """Load the files, and check that clients would accept the serving certificate.

    Raises:
        ConfigurationError: a file cannot be read or is invalid, or a certificate has expired.
    """
    context = create_context(files)
    path, problem = files.certificate, f"the certificate or its key {files.key} is invalid"
    _load(path, problem, lambda: context.load_cert_chain(path, files.key, password=""))
    expiry = {"serving": _load(path, problem, lambda: _check_serving(context, path)).not_after.timestamp()}
    if files.client_ca is not None:
        expiry["client_ca"] = _load_cas(files.client_ca, context)
    if files.ca is not None:
        with suppress(ConfigurationError):  # clients need the CA, the server does not
            expiry["ca"] = _load_cas(files.ca, verification.client_context())
    return LoadedTls(context, context.get_ca_certs(binary_form=True), expiry)


def check_client_ca(path: Path) -> None:
    """Check the CAs of client certificates.

    Raises:
        ConfigurationError: the file cannot be read or is invalid, or all CAs have expired.
    """
    _load_cas(path, verification.client_context())


def create_context(files: TlsFiles) -> ssl.SSLContext:
    """Create a context without certificates.

    The context of a listener determines the TLS versions of its connections, and whether clients need a certificate,
    even if the certificates come from another context.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.num_tickets = 0  # a resumed session would remain valid after the CA of its client was removed
    context.options |= ssl.OP_NO_RENEGOTIATION
    if files.client_ca is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # TLS 1.2 resumes sessions without tickets too
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _check_serving(context: ssl.SSLContext, certificate: Path) -> Validity:
    """Verify the serving certificate as a client does that trusts this certificate."""
    client = verification.client_context(ssl.VERIFY_X509_PARTIAL_CHAIN)
    client.load_verify_locations(certificate)
    return Validity.from_peercert(verification.peer_certificate(context, client))


def _load_cas(path: Path, context: ssl.SSLContext) -> float:
    """Load CAs into a context, and return when the first of them expires."""
    _load(path, "no valid CA certificates", lambda: context.load_verify_locations(path))
    expiry = [Validity.from_peercert(certificate).not_after for certificate in context.get_ca_certs()]
    if not expiry or max(expiry) <= datetime.now(UTC):
        raise ConfigurationError(f"{path}: no CA certificate, or all have expired")
    return min(expiry).timestamp()


def _load(path: Path, problem: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(f"{path}: clients would reject the certificate: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise ConfigurationError(f"{path}: {problem} ({error.reason or error})") from None
    except OSError as error:
        raise unreadable(path, error) from None

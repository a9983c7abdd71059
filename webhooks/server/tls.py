"""TLS for reviews: the files that it is made of, and contexts that are known to work."""

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
from webhooks.errors import ConfigurationError
from webhooks.settings import Settings

_CIPHERS = "@SECLEVEL=2:ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Files:
    """What is read, at the start and whenever it changes.

    Attributes:
        certificate: the serving certificate with its chain.
        key: its private key.
        ca: the authority of our own that signed it; None where somebody else did.
        client_ca: who signs callers' certificates; None where none are asked for.
    """

    certificate: Path
    key: Path
    ca: Path | None = None
    client_ca: Path | None = None

    @classmethod
    def told(cls, settings: Settings) -> "Files":
        """Those that the settings name."""
        certificate, key = settings.tls_cert, settings.tls_key
        if certificate is not None and key is not None:
            return cls(certificate, key, None, settings.client_ca)
        pair = certificates.ServingPair.from_directory(settings.certs_dir)
        return cls(pair.certificate, pair.key, pair.ca, settings.client_ca)


class Fresh(NamedTuple):
    """A context, and what it was made of.

    Attributes:
        context: with a certificate that callers take, its key, and the authorities of callers where they are asked.
        authorities: these authorities (DER).
        ends: when its certificates end, in seconds since 1970: ``serving``, ``ca`` and ``client_ca``; of several in one
            file, the first that ends.
    """

    context: ssl.SSLContext
    authorities: Sequence[bytes]
    ends: dict[str, float]


def fresh(files: Files) -> Fresh:
    """A context of what the files hold now.

    Raises:
        ConfigurationError: a file is missing, is not what it must be, or has ended.
    """
    context = bare(files)
    certificate, what = files.certificate, f"with its key {files.key}, no usable certificate"
    _load(certificate, what, lambda: context.load_cert_chain(certificate, files.key, password=""))
    ends = {"serving": _load(certificate, what, lambda: _shown(context, certificate)).not_after.timestamp()}
    if files.client_ca is not None:
        ends["client_ca"] = _end(files.client_ca, context)
    if files.ca is not None:
        with suppress(ConfigurationError):  # callers need it, we do not
            ends["ca"] = _end(files.ca, verification.client_context())
    return Fresh(context, context.get_ca_certs(binary_form=True), ends)


def check_callers(files: Files) -> None:
    """See that callers can be told from others, before anything is made.

    Raises:
        ConfigurationError: as for `fresh`, for the file of callers' authorities.
    """
    if files.client_ca is not None:
        _end(files.client_ca, verification.client_context())


def bare(files: Files) -> ssl.SSLContext:
    """A context with no certificates.

    Its versions of TLS, and whether callers are asked for a certificate, hold for its listener's connections even where
    a certificate and authorities come from another context.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHERS)
    context.num_tickets = 0  # a resumed session would outlive the removal of the authority that admitted it
    context.options |= ssl.OP_NO_RENEGOTIATION
    if files.client_ca is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # 1.2 would resume sessions all the same
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _shown(context: ssl.SSLContext, certificate: Path) -> Validity:
    """The time of the certificate, seen by a caller who trusts it, but would not if it were for something else."""
    client = verification.client_context(ssl.VERIFY_X509_PARTIAL_CHAIN)
    client.load_verify_locations(certificate)
    return Validity.from_peercert(verification.peer_certificate(context, client))


def _end(path: Path, context: ssl.SSLContext) -> float:
    """Load authorities, not all of which have ended; when the first of them does."""
    _load(path, "no certificates of an authority", lambda: context.load_verify_locations(path))
    ends = [Validity.from_peercert(each).not_after for each in context.get_ca_certs()]
    if not ends or max(ends) <= datetime.now(UTC):
        raise ConfigurationError(f"{path}: no authority in it, or none that has not ended")
    return min(ends).timestamp()


def _load(path: Path, what: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except ssl.SSLCertVerificationError as error:
        raise ConfigurationError(f"{path}: callers would refuse it: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise ConfigurationError(f"{path}: {what} ({error.reason or error})") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from None

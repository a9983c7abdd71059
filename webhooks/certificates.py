"""Development certificates: a certificate authority of one's own and what it signs.

A server that is started without a certificate makes these. They are for trying things out: the authority's
key lies beside what it signed. Finding that an existing pair is good needs nothing but ``ssl``, which keeps
starting quick; ``cryptography`` is imported where something has to be made.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhooks.errors import ConfigurationError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    _Key = EllipticCurvePrivateKey | RSAPrivateKey
    _Extensions = Sequence[tuple[x509.ExtensionType, bool]]

_AUTHORITY_LIFE = timedelta(days=3650)
_LIFE = timedelta(days=365)
_TIME_LEFT = timedelta(days=30)
_CLOCK_SKEW = timedelta(hours=1)

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_DNS_NAME = re.compile(rf"(?![0-9.]+\Z)(?=.{{1,253}}\Z)(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_CLIENT_NAME = re.compile(r"(?!(?:ca|tls)\Z|.*-key\Z)[A-Za-z0-9][A-Za-z0-9._:@-]{0,63}")


@dataclass(frozen=True, slots=True)
class ServingPair:
    """The files a server needs, and the one its callers need.

    Attributes:
        ca: the authority's certificate: what a caller trusts, a registration's ``caBundle``.
        certificate: the server's certificate.
        key: the private key of it.
    """

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class ClientPair:
    """The files a caller needs to show who it is.

    Attributes:
        certificate: the client's certificate.
        key: the private key of it.
    """

    certificate: Path
    key: Path


def default_names() -> list[str]:
    """The names a server on this machine is called by, found without asking the network.

    Returns:
        ``localhost`` and its addresses, then the host's name, and its first part where it has several.
    """
    host = socket.gethostname().lower()
    local = [name for name in (host, host.partition(".")[0]) if _DNS_NAME.fullmatch(name)]
    return list(dict.fromkeys(["localhost", "127.0.0.1", "::1", *local]))


def ensure(directory: Path, *, names: Sequence[str]) -> ServingPair:
    """The serving pair in a directory: the one that is there, if it will do, or else a new one.

    It will do if the key is the certificate's, ``ca.pem`` verifies it, it covers all the names and has more
    than 30 days left. Otherwise this does as `issue`. Any number of processes may start at once: one issues,
    the others wait for it and take what it made.

    Args:
        directory: where the files are or shall be: ``ca.pem``, ``ca-key.pem``, ``tls.pem``, ``tls-key.pem``.
        names: the DNS names and IP addresses the server is called by.

    Raises:
        ConfigurationError: for a name that is neither, a directory that cannot be written, and a file that
            cannot be read or holds something else; the message names it and the remedy.
    """
    wanted = _subjects(names)
    pair = _serving_pair(directory)
    if _is_good(pair, wanted):
        return pair
    with _locked(directory):
        if not _is_good(pair, wanted):  # now that nobody else is at it
            _certificate_in(pair.certificate)
            _key_in(pair.key)
            _issue_serving(pair, directory, wanted)
    return pair


def issue(directory: Path, *, names: Sequence[str]) -> ServingPair:
    """Make a new serving pair, in the place of one that may be there.

    The authority in the directory signs it; one that is absent, without its key or near its end is replaced.
    Keys are ECDSA P-256. The authority lasts ten years, the server's certificate one year.

    Args:
        directory: where the files shall be; it is made if it is absent.
        names: the DNS names and IP addresses the server is called by.

    Raises:
        ConfigurationError: as `ensure` does.
    """
    wanted = _subjects(names)
    pair = _serving_pair(directory)
    with _locked(directory):
        _issue_serving(pair, directory, wanted)
    return pair


def issue_client(directory: Path, name: str) -> ClientPair:
    """Make a certificate for a caller: ``NAME.pem`` and ``NAME-key.pem``, in the place of any that are there.

    The authority in the directory signs it, as with `issue`. It lasts one year, and serves for nothing but to
    show a server who is calling.

    Args:
        directory: where the authority is and the files shall be.
        name: the caller's common name, which is the name of the files as well.

    Raises:
        ConfigurationError: for a name that is no file name or is taken by the files of `issue`, and as
            `ensure` does.
    """
    if not _CLIENT_NAME.fullmatch(name):
        raise ConfigurationError(
            f"client name {name!r}: up to 64 letters, digits and '._:@-' are possible, beginning with a "
            "letter or digit; 'ca', 'tls' and names ending in '-key' are taken"
        )
    from cryptography.x509.oid import ExtendedKeyUsageOID

    pair = ClientPair(directory / f"{name}.pem", directory / f"{name}-key.pem")
    with _locked(directory):
        authority = _authority(directory)
        _issue_leaf(pair, name, authority, ExtendedKeyUsageOID.CLIENT_AUTH, [])
    return pair


def _serving_pair(directory: Path) -> ServingPair:
    return ServingPair(directory / "ca.pem", directory / "tls.pem", directory / "tls-key.pem")


def _subjects(names: Sequence[str]) -> list[str]:
    """The names in the one form they compare in; each once."""
    subjects = list(dict.fromkeys(_subject(name) for name in names))
    if not subjects:
        raise ConfigurationError("a serving certificate needs at least one DNS name or IP address")
    return subjects


def _subject(name: str) -> str:
    address = _address(name)
    if address is not None:
        return address
    if not _DNS_NAME.fullmatch(name.lower()):
        raise ConfigurationError(f"name {name!r}: neither a DNS name nor an IP address")
    return name.lower()


def _address(name: str) -> str | None:
    """The usual spelling of an IP address; None for anything else, and for one with a zone."""
    try:
        return None if "%" in name else str(ip_address(name))
    except ValueError:
        return None


def _is_good(pair: ServingPair, names: list[str]) -> bool:
    try:
        certificate = _shown_to_client(pair)
    except (OSError, ValueError):
        return False
    covered = {
        _address(name) if kind == "IP Address" else name.lower() for kind, name in certificate.get("subjectAltName", ())
    }
    left = ssl.cert_time_to_seconds(certificate["notAfter"]) - time.time()
    return covered.issuperset(names) and left > _TIME_LEFT.total_seconds()


def _shown_to_client(pair: ServingPair) -> dict[str, Any]:
    """What a client that trusts the authority sees of the server; the whole handshake happens in memory.

    Raises:
        OSError: when a file cannot be read, the key is not the certificate's or the client refuses it.
    """
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key, password="")  # never ask on the terminal
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    calling.check_hostname = False  # all the names are compared, not one
    calling.load_verify_locations(pair.ca)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = calling.wrap_bio(to_client, to_server)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert() or {}


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """The directory, made if it is absent, for this process alone."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _unwritable(directory, error) from error
    try:
        _lock(directory, descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(directory: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigurationError:
    reason = error.strerror or error
    return ConfigurationError(
        f"{path}: cannot be written ({reason}): choose a directory that this user can write, "
        "or give the server a certificate and key"
    )


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: _Key


def _authority(directory: Path) -> _Authority:
    """The authority that is in the directory, or a new one if that cannot sign, or not for long."""
    certificate = _certificate_in(directory / "ca.pem")
    key = _key_in(directory / "ca-key.pem")
    if certificate is not None and key is not None and _is_sound(certificate, key):
        return _Authority(certificate, key)
    return _new_authority(directory)


def _is_sound(certificate: x509.Certificate, key: _Key) -> bool:
    from cryptography import x509

    if certificate.public_key() != key.public_key():
        return False
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _TIME_LEFT:
        return False
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _new_authority(directory: Path) -> _Authority:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    extensions = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_key_usage("key_cert_sign", "crl_sign"), True),
    ]
    certificate = _signed("webhooks development CA", key, None, _AUTHORITY_LIFE, extensions)
    _write_pair(directory / "ca.pem", directory / "ca-key.pem", certificate, key)
    return _Authority(certificate, key)


def _issue_serving(pair: ServingPair, directory: Path, names: list[str]) -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    alternatives = [x509.IPAddress(ip_address(name)) if _address(name) else x509.DNSName(name) for name in names]
    extensions = [(x509.SubjectAlternativeName(alternatives), False)]
    _issue_leaf(pair, "webhooks", _authority(directory), ExtendedKeyUsageOID.SERVER_AUTH, extensions)


def _issue_leaf(
    pair: ServingPair | ClientPair,
    name: str,
    authority: _Authority,
    usage: x509.ObjectIdentifier,
    extensions: _Extensions,
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    common = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage([usage]), False),
        *extensions,
    )
    certificate = _signed(name, key, authority, _LIFE, common)
    _write_pair(pair.certificate, pair.key, certificate, key)


def _signed(
    name: str,
    key: EllipticCurvePrivateKey,
    authority: _Authority | None,
    life: timedelta,
    extensions: _Extensions,
) -> x509.Certificate:
    """A certificate for a key, signed by the authority, which it does not outlive, or else by itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    until = now + life
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(min(until, authority.certificate.not_valid_after_utc) if authority else until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_key_identifier(key, authority), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(authority.key if authority else key, hashes.SHA256())


def _key_identifier(key: EllipticCurvePrivateKey, authority: _Authority | None) -> x509.AuthorityKeyIdentifier:
    from cryptography import x509

    if authority is None:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    try:
        known = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known.value)


def _key_usage(*allowed: str) -> x509.KeyUsage:
    from cryptography import x509

    every = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{usage: usage in allowed for usage in every})


def _certificate_in(path: Path) -> x509.Certificate | None:
    from cryptography import x509

    content = _content(path)
    if content is None:
        return None
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise ConfigurationError(f"{path}: no certificate in PEM form: remove it to get a new one") from error


def _key_in(path: Path) -> _Key | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _content(path)
    if content is None:
        return None
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ConfigurationError(f"{path}: no plain EC or RSA key in PEM form: remove it to get a new one")
    return key


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror or error}): make it readable to this user, or remove it"
        ) from error


def _write_pair(
    certificate_path: Path, key_path: Path, certificate: x509.Certificate, key: EllipticCurvePrivateKey
) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    _write(key_path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    _write(certificate_path, certificate.public_bytes(Encoding.PEM), 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Put a file in its place whole or not at all."""
    temporary = path.with_name(f".{path.stem}.{os.urandom(8).hex()}.pem")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise _unwritable(path, error) from error

"""Files of certificates, and TLS handshakes with them."""

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from webhooks.certificates import ServingPair


def read_all(path: Path) -> list[x509.Certificate]:
    """Return the certificates in a file."""
    return x509.load_pem_x509_certificates(path.read_bytes())


def contents(directory: Path) -> dict[str, bytes]:
    """Return the contents of all files in a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def changed(before: dict[str, bytes], directory: Path) -> set[str]:
    """Return the names of the files that were added, changed or removed."""
    after = contents(directory)
    return {name for name in before | after if before.get(name) != after.get(name)}


def server_names(directory: Path) -> list[str]:
    """Return the DNS names and IP addresses of the serving certificate in a directory."""
    extensions = read_all(directory / "tls.pem")[0].extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def accepts(trusted: Sequence[x509.Certificate], directory: Path, name: str, now: datetime) -> bool:
    """Whether a client that trusts some CAs accepts the serving certificate in a directory at a time."""
    certificate, *chain = read_all(directory / "tls.pem")
    verifier = PolicyBuilder().store(Store(trusted)).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(certificate, chain)
    except VerificationError:
        return False
    return True


def contexts(pair: ServingPair) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server and of a client that trusts its CA."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    return server, ssl.create_default_context(cafile=str(pair.ca))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Run a TLS handshake in memory; the client verifies the name of the server."""
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client.wrap_bio(to_client, to_server, server_hostname=name)
    server_side = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (client_side, server_side, client_side, server_side):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def foreign_ca(days: int = 1000) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Create a CA that is not one of ours, although its name looks like one."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhooks CA 01234567")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()), key


def to_pem(certificate: x509.Certificate) -> bytes:
    """Encode a certificate."""
    return certificate.public_bytes(Encoding.PEM)

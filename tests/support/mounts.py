"""Files as Kubernetes mounts a Secret, with valid and invalid certificates."""

import itertools
import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from webhooks.certificates import signing

NAMES = ["localhost", "127.0.0.1"]
Contents = dict[str, bytes]


class Mount:
    """A folder of symbolic links into another folder, which a rename replaces atomically, as the kubelet does.

    Args:
        folder: the folder.
        contents: the contents of the files by name.
        names: the names of the files; by default those of a Secret of cert-manager.
    """

    def __init__(
        self, folder: Path, contents: Contents, names: Iterable[str] = ("tls.crt", "tls.key", "ca.crt")
    ) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        folder.mkdir()
        self.put(contents)
        for name in names:
            (folder / name).symlink_to(f"..data/{name}")

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Replace all files."""
        number = next(self._numbers)
        new = self.folder / f"..{number}"
        new.mkdir()
        for name, content in contents.items():
            (new / name).write_bytes(content)
        (self.folder / "..data_tmp").symlink_to(new.name)
        os.replace(self.folder / "..data_tmp", self.folder / "..data")
        shutil.rmtree(self.folder / f"..{number - 1}", ignore_errors=True)


def secret(ca: signing.CertificateAuthority | None = None, *, days_ago: float = 0) -> Contents:
    """Return a valid certificate with its key and its CA."""
    now = datetime.now(UTC) - timedelta(days=days_ago)
    ca = ca or signing.create_ca(now)
    chain, key = signing.sign_server(ca, NAMES, now)
    return _contents(ca, chain, key)


def client_files(ca: signing.CertificateAuthority, name: str = "client") -> Contents:
    """Return a client certificate with its key and its CA."""
    return _contents(ca, *signing.sign_client(ca, name, datetime.now(UTC)))


def _contents(ca, chain, key: ec.EllipticCurvePrivateKey) -> Contents:
    return {
        "tls.crt": b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain),
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "ca.crt": ca.certificate.public_bytes(Encoding.PEM),
    }


def invalid_secrets() -> dict[str, Contents]:
    """Return invalid contents of a Secret by description."""
    good, other = secret(), secret()
    ca = signing.create_ca(datetime.now(UTC))
    certificate, key = good["tls.crt"], good["tls.key"]
    private_key = load_pem_private_key(key, None)
    encrypted = private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    half_certificate, half_key = certificate[: len(certificate) // 2], key[: len(key) // 2]
    without_certificate, without_key = ({k: v for k, v in good.items() if k != name} for name in ("tls.crt", "tls.key"))
    return {
        "half a certificate": good | {"tls.crt": half_certificate},
        "half a key": good | {"tls.key": half_key},
        "half of both": good | {"tls.crt": half_certificate, "tls.key": half_key},
        "another key": good | {"tls.key": other["tls.key"]},
        "another certificate": good | {"tls.crt": other["tls.crt"]},
        "the CA certificate": good | {"tls.crt": good["ca.crt"]},
        "an empty certificate": good | {"tls.crt": b""},
        "an empty key": good | {"tls.key": b""},
        "both empty": good | {"tls.crt": b"", "tls.key": b""},
        "no certificate": without_certificate,
        "no key": without_key,
        "neither": {"ca.crt": good["ca.crt"]},
        "rubbish": good | {"tls.crt": os.urandom(700), "tls.key": os.urandom(200)},
        "certificate and key exchanged": good | {"tls.crt": key, "tls.key": certificate},
        "a key with a password": good | {"tls.key": encrypted},
        "an expired certificate": secret(days_ago=366),
        "a certificate that is not yet valid": secret(days_ago=-1),
        "a client certificate": client_files(ca),
    }

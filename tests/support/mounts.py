"""Files as others deliver them: in a folder like that of a mounted Secret; certificates, good ones and bad ones."""

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
    """A folder whose files are links into one that is exchanged by a rename, which changes all of them at once.

    Args:
        folder: where they are.
        contents: of the files, by their names.
        names: of the files; of a certificate's as cert-manager has them.
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
        """Exchange the files."""
        number = next(self._numbers)
        new = self.folder / f"..{number}"
        new.mkdir()
        for name, content in contents.items():
            (new / name).write_bytes(content)
        (self.folder / "..data_tmp").symlink_to(new.name)
        os.replace(self.folder / "..data_tmp", self.folder / "..data")
        shutil.rmtree(self.folder / f"..{number - 1}", ignore_errors=True)


def secret(authority: signing.CertificateAuthority | None = None, *, days_ago: float = 0) -> Contents:
    """A good pair, and the authority that issued it."""
    now = datetime.now(UTC) - timedelta(days=days_ago)
    authority = authority or signing.create_ca(now)
    chain, key = signing.sign_server(authority, NAMES, now)
    return _contents(authority, chain, key)


def client_files(authority: signing.CertificateAuthority, name: str = "client") -> Contents:
    """A pair of somebody who calls."""
    return _contents(authority, *signing.sign_client(authority, name, datetime.now(UTC)))


def _contents(authority, chain, key: ec.EllipticCurvePrivateKey) -> Contents:
    return {
        "tls.crt": b"".join(each.public_bytes(Encoding.PEM) for each in chain),
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "ca.crt": authority.certificate.public_bytes(Encoding.PEM),
    }


def bad_secrets() -> dict[str, Contents]:
    """What should never be delivered, and is."""
    good, other = secret(), secret()
    authority = signing.create_ca(datetime.now(UTC))
    certificate, key = good["tls.crt"], good["tls.key"]
    private = load_pem_private_key(key, None)
    locked = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    half, half_key = certificate[: len(certificate) // 2], key[: len(key) // 2]
    without_certificate, without_key = ({k: v for k, v in good.items() if k != name} for name in ("tls.crt", "tls.key"))
    return {
        "half a certificate": good | {"tls.crt": half},
        "half a key": good | {"tls.key": half_key},
        "half of both": good | {"tls.crt": half, "tls.key": half_key},
        "the key of another": good | {"tls.key": other["tls.key"]},
        "the certificate of another": good | {"tls.crt": other["tls.crt"]},
        "the authority's certificate": good | {"tls.crt": good["ca.crt"]},
        "an empty certificate": good | {"tls.crt": b""},
        "an empty key": good | {"tls.key": b""},
        "nothing in both": good | {"tls.crt": b"", "tls.key": b""},
        "no certificate": without_certificate,
        "no key": without_key,
        "neither": {"ca.crt": good["ca.crt"]},
        "rubbish": good | {"tls.crt": os.urandom(700), "tls.key": os.urandom(200)},
        "the two exchanged": good | {"tls.crt": key, "tls.key": certificate},
        "a key with a password": good | {"tls.key": locked},
        "one that has ended": secret(days_ago=366),
        "one that begins tomorrow": secret(days_ago=-1),
        "one for callers": client_files(authority),
    }

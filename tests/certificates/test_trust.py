"""Whether certificates that were taken are to be taken still."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from webhooks.certificates.trust import signed_by_one

from ..support.identities import Identity, identity


def der(of: Identity) -> bytes:
    return of.certificate.public_bytes(Encoding.DER)


@pytest.fixture
def authority(tmp_path: Path) -> Identity:
    return identity(tmp_path, "callers", authority=True)


def test_who_signed(tmp_path: Path, authority: Identity) -> None:
    other, again = (identity(tmp_path, name, authority=True) for name in ("others", "callers"))
    client = der(identity(tmp_path, "listed", authority))
    assert signed_by_one([der(other), der(authority)], client)
    assert not signed_by_one([der(other), der(again)], client)
    assert not signed_by_one([], client)


def test_what_cannot_be_read_is_not_trusted_and_keeps_nobody(tmp_path: Path, authority: Identity) -> None:
    client = der(identity(tmp_path, "listed", authority))
    assert signed_by_one([b"rubbish", der(authority)], client)
    assert not signed_by_one([der(authority)], b"rubbish")

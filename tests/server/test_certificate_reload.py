"""Certificates are exchanged while they are used: good ones are taken over, bad ones are not, and nobody notices."""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop

from webhooks import certificates
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.certificates import signing, verification
from webhooks.errors import ConfigurationError
from webhooks.server import certificate_reload
from webhooks.server.certificate_reload import CertificateReloader, Renewer, renewing
from webhooks.server.tls import Files
from webhooks.settings import Settings

from ..support.mounts import Contents, Mount, client_files, invalid_secrets, secret
from ..support.servers import await_true

BAD = invalid_secrets()


class Followed:
    """A follower of a mounted Secret."""

    def __init__(self, folder: Path, contents: Contents, *, client_ca: bool = False) -> None:
        self.mount = Mount(folder / "mount", contents)
        self.contents = contents
        at = self.mount.folder
        self.files = Files(at / "tls.crt", at / "tls.key", client_ca=at / "ca.crt" if client_ca else None)
        self.tally = MetricsSnapshot()
        self.follower = CertificateReloader(self.files, self.tally)

    def put(self, contents: Contents) -> None:
        """Exchange the files, and let it look twice."""
        self.mount.put(contents)
        self.follower.look()
        self.follower.look()

    def serves(self, contents: Contents, name: str | None = None) -> bool:
        """Whether a caller who trusts the authority of these, and no other, accepts what is shown now."""
        return _accepts(self.follower.context, contents, name)


def _accepts(context: ssl.SSLContext, contents: Contents, name: str | None = None) -> bool:
    calling = verification.client_context()
    calling.load_verify_locations(cadata=contents["ca.crt"].decode())
    try:
        return bool(verification.peer_certificate(context, calling))
    except ssl.SSLCertVerificationError:
        return False


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path, secret())


def test_new_certificates_are_taken_over(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    old, new = followed.contents, secret(days_ago=10)
    ends = followed.tally.certificates["serving"]
    assert followed.serves(old)
    followed.mount.put(new)
    followed.follower.look()
    assert followed.serves(old)
    followed.follower.look()
    assert followed.serves(new)
    assert not followed.serves(old)
    assert ends - followed.tally.certificates["serving"] == pytest.approx(10 * 86400, abs=60)
    followed.follower.look()
    assert len(caplog.records) == 1
    assert followed.tally.reload_failures == 0


@pytest.mark.parametrize("name", BAD)
def test_bad_ones_are_not_taken_over(name: str, followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    good, tally = followed.contents, followed.tally
    ends = dict(tally.certificates)
    for _ in range(2):
        followed.put(BAD[name])
        followed.follower.look()
        assert followed.serves(good)
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert str(followed.mount.folder) in record.getMessage()
    assert (tally.certificates, tally.reload_failures) == (ends, 1)
    new = secret()
    followed.put(new)
    assert followed.serves(new)
    assert tally.reload_failures == 1


def test_each_bad_change_is_counted_and_told_once(followed: Followed, caplog: pytest.LogCaptureFixture) -> None:
    for count, contents in enumerate(BAD.values(), 1):
        followed.put(contents)
        assert followed.tally.reload_failures == count
        assert len(caplog.records) == count
        assert followed.serves(followed.contents)


def test_what_is_still_being_written_is_not_complained_of(
    followed: Followed, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """As when the two files are written one after the other, in place."""
    new = secret()
    for content in (b"", new["tls.crt"][:300], new["tls.crt"]):
        (followed.mount.folder / "tls.crt").write_bytes(content)
        followed.follower.look()
        assert followed.serves(followed.contents)
    (followed.mount.folder / "tls.key").write_bytes(new["tls.key"])
    followed.follower.look()
    followed.follower.look()
    assert followed.serves(new)
    assert (followed.tally.reload_failures, caplog.records) == (0, [])


def test_files_that_are_exchanged_while_they_are_read_are_read_again(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was loaded may be neither the one nor the other."""
    first, second = secret(), secret()
    load = certificate_reload.tls.fresh

    def loads(files: Files) -> certificate_reload.tls.Fresh:
        fresh = load(files)
        followed.mount.put(second)
        return fresh

    monkeypatch.setattr(certificate_reload.tls, "fresh", loads)
    followed.put(first)
    assert followed.serves(followed.contents)
    monkeypatch.undo()
    followed.follower.look()
    followed.follower.look()
    assert followed.serves(second)


def test_a_change_that_leaves_size_and_time_as_they_were_is_seen(tmp_path: Path) -> None:
    """File systems keep times more coarsely than they are written, and keys of a kind are of one size."""
    followed = Followed(tmp_path, secret())
    while True:
        new = secret()
        if all(len(new[name]) == len(followed.contents[name]) for name in ("tls.crt", "tls.key")):
            break
    for name in ("tls.crt", "tls.key"):
        file = followed.mount.folder / name
        before = file.stat()
        file.write_bytes(new[name])
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    followed.follower.look()
    followed.follower.look()
    assert followed.serves(new)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_start_is_a_mistake(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tls\.crt: "):
        Followed(tmp_path, BAD[name])


# Callers' authorities.


def test_callers_authorities_are_exchanged_too(tmp_path: Path) -> None:
    one, other = (signing.create_ca(datetime.now(UTC)) for _ in range(2))
    server = secret(one)
    followed = Followed(tmp_path, server, client_ca=True)

    def admits(authority: signing.CertificateAuthority) -> bool:
        return _admits(followed.follower.context, server, client_files(authority), tmp_path)

    assert (admits(one), admits(other)) == (True, False)
    followed.put(server | {"ca.crt": secret(other)["ca.crt"]})
    assert (admits(one), admits(other)) == (False, True)
    followed.put(server | {"ca.crt": server["ca.crt"] + secret(other)["ca.crt"]})
    assert (admits(one), admits(other)) == (True, True)
    assert followed.tally.certificates.keys() == {"serving", "client_ca"}
    assert followed.tally.reload_failures == 0


def _admits(context: ssl.SSLContext, server: Contents, client: Contents, folder: Path) -> bool:
    """Whether the server takes a caller with this certificate."""
    calling = verification.client_context()
    calling.load_verify_locations(cadata=server["ca.crt"].decode())
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(client[name])
    calling.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = calling.wrap_bio(down, up)
    server_side = context.wrap_bio(up, down, server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client_side.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server_side.do_handshake()
    client_side.do_handshake()
    try:
        server_side.do_handshake()
    except ssl.SSLCertVerificationError:
        return False
    peer = server_side.getpeercert()
    return peer is not None and peer["subject"] == ((("commonName", "client"),),)


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b"", "no certificates of an authority"),
        (b"rubbish", "no certificates of an authority"),
        (secret()["tls.crt"], "no authority in it"),
        (secret(days_ago=3651)["ca.crt"], "none that has not ended"),
        (None, "cannot be read: No such file or directory"),
    ],
    ids=["empty", "rubbish", "no authority", "ended", "missing"],
)
def test_bad_authorities_of_callers_are_not_taken_over(
    contents: bytes | None, says: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = signing.create_ca(datetime.now(UTC))
    server = secret(authority)
    followed = Followed(tmp_path, server, client_ca=True)
    bad = {name: content for name, content in server.items() if name != "ca.crt"}
    followed.put(bad if contents is None else bad | {"ca.crt": contents})
    assert followed.tally.reload_failures == 1
    assert f"{followed.mount.folder / 'ca.crt'}: " in caplog.records[0].getMessage()
    assert says in caplog.records[0].getMessage()
    assert _admits(followed.follower.context, server, client_files(authority), tmp_path)


# The listener, on both event loops.


@pytest.mark.parametrize("client_ca", [False, True], ids=["anybody", "callers with certificates"])
@pytest.mark.parametrize("name", ["localhost", "webhooks.default.svc", None])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_listeners_show_what_was_taken_over(
    loop: Callable[[], asyncio.AbstractEventLoop], name: str | None, client_ca: bool, tmp_path: Path
) -> None:
    """To callers that give a server's name, whatever it is, and to those that give none, as with an address."""
    authority = signing.create_ca(datetime.now(UTC))
    followed = Followed(tmp_path, secret(authority), client_ca=client_ca)
    client = client_files(authority)
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).write_bytes(client[file])

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async def call(port: int) -> bytes | None:
        calling = verification.client_context()
        calling.load_verify_locations(cadata=followed.contents["ca.crt"].decode())
        calling.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=calling, server_hostname=name or "")
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert await reader.read() == b"hello"
        writer.close()
        return shown

    async def exchange() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=followed.follower.context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            for _ in range(3):
                contents = secret(authority)
                followed.put(contents)
                assert await call(port) == ssl.PEM_cert_to_DER_cert(contents["tls.crt"].decode())

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(exchange())


# Certificates of the server's own.


def own(folder: Path) -> Settings:
    return Settings(certs_dir=folder, host="192.0.2.1")


def test_our_own_are_made_for_the_address_that_is_listened_at(tmp_path: Path) -> None:
    with renewing(own(tmp_path)) as files:
        tally = MetricsSnapshot()
        CertificateReloader(files, tally)
    assert tally.certificates.keys() == {"serving", "ca"}
    life = {name: end - datetime.now(UTC).timestamp() for name, end in tally.certificates.items()}
    assert life["serving"] == pytest.approx(365 * 86400, abs=60)
    assert life["ca"] == pytest.approx(3650 * 86400, abs=60)
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        _call_by(files, "192.0.2.2")
    _call_by(files, "192.0.2.1")


def _call_by(files: Files, address: str) -> None:
    calling = ssl.create_default_context(cafile=files.ca)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = calling.wrap_bio(down, up, server_hostname=address)
    server = CertificateReloader(files, MetricsSnapshot()).context.wrap_bio(up, down, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


def test_our_own_are_renewed_and_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for interval in ("_RENEWAL", "_LOOK"):
        monkeypatch.setattr(certificate_reload, interval, 0.01)
    tally = MetricsSnapshot()
    with renewing(own(tmp_path)) as files, CertificateReloader(files, tally).looking() as follower:
        certificates.issue(tmp_path, names=["localhost"], now=datetime.now(UTC) - timedelta(days=300))
        due = files.certificate.read_bytes()
        await_true(lambda: files.certificate.read_bytes() != due, "it is renewed")
        renewed = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
        await_true(lambda: _shown(follower.context, tmp_path / "ca.pem") == renewed, "it is taken over")
    assert tally.certificates["serving"] - datetime.now(UTC).timestamp() == pytest.approx(365 * 86400, abs=60)


def _shown(context: ssl.SSLContext, ca: Path) -> bytes | None:
    calling = verification.client_context()
    calling.load_verify_locations(ca)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client, server = calling.wrap_bio(down, up), context.wrap_bio(up, down, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True)


def test_it_looks_again_after_a_failure_of_our_own(
    followed: Followed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(certificate_reload, "_LOOK", 0.01)
    monkeypatch.setattr(certificate_reload.tls, "fresh", _fails)
    new = secret()
    with followed.follower.looking() as follower:
        followed.mount.put(new)
        await_true(lambda: len(caplog.records) > 1, "it has failed twice")
        monkeypatch.undo()
        await_true(lambda: _accepts(follower.context, new), "it is taken over")
    assert {record.getMessage() for record in caplog.records} == {"certificates failed; it will be retried"}


def _fails(_: Files) -> certificate_reload.tls.Fresh:
    raise RuntimeError("a fault of ours")


def test_others_are_not_renewed(tmp_path: Path) -> None:
    """They are whoever's who gave them."""
    certificates.issue(tmp_path, names=["localhost"], now=datetime.now(UTC) - timedelta(days=300))
    before = (tmp_path / "tls.pem").read_bytes()
    settings = Settings(certs_dir=tmp_path, tls_cert=tmp_path / "tls.pem", tls_key=tmp_path / "tls-key.pem")
    with renewing(settings) as files:
        assert files == Files(tmp_path / "tls.pem", tmp_path / "tls-key.pem")
    assert (tmp_path / "tls.pem").read_bytes() == before


def test_a_failed_renewal_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    certificates.issue(tmp_path, names=["localhost"], now=datetime.now(UTC) - timedelta(days=300))
    key = (tmp_path / "ca-key.pem").read_bytes()
    (tmp_path / "ca-key.pem").unlink()
    renewer = Renewer(tmp_path)
    for _ in range(3):
        renewer.renew_if_due()
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "cannot be renewed" in record.getMessage()
    (tmp_path / "ca-key.pem").write_bytes(key)
    renewer.renew_if_due()
    renewer.renew_if_due()
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.INFO]

"""Certificates are reloaded while the server runs: valid ones are used, invalid ones are not, and no request fails."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import uvloop

from webhooks import certificates
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.certificates import signing, verification
from webhooks.errors import ConfigurationError
from webhooks.server import certificate_reload, tls
from webhooks.server.certificate_reload import CertificateReloader, Renewer, renew_certificates
from webhooks.server.tls import LoadedTls, TlsFiles

from ..support.certificate_swaps import MountedServer, serve_mounted
from ..support.mounts import Contents, Mount, client_files, invalid_secrets, secret
from ..support.servers import await_true

BAD = invalid_secrets()
DAY = 86_400  # seconds


class Mounted:
    """A reloader of the files in a mounted Secret."""

    def __init__(self, folder: Path, contents: Contents, *, client_ca: bool = False) -> None:
        self.mount = Mount(folder / "mount", contents)
        self.contents = contents
        folder = self.mount.folder
        self.files = TlsFiles(
            folder / "tls.crt", folder / "tls.key", client_ca=folder / "ca.crt" if client_ca else None
        )
        self.snapshot = MetricsSnapshot()
        self.reloader = CertificateReloader(self.files, self.snapshot)

    def put(self, contents: Contents) -> None:
        """Replace the files, and poll twice."""
        self.mount.put(contents)
        self.poll_twice()

    def poll_twice(self) -> None:
        self.reloader.poll()
        self.reloader.poll()

    def serves(self, contents: Contents) -> bool:
        """Whether a client that trusts only the CA of a Secret accepts the current certificate."""
        return is_accepted(self.reloader.context, contents)


def is_accepted(context: ssl.SSLContext, contents: Contents) -> bool:
    client_context = verification.client_context()
    client_context.load_verify_locations(cadata=contents["ca.crt"].decode())
    try:
        return bool(verification.peer_certificate(context, client_context))
    except ssl.SSLCertVerificationError:
        return False


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path, secret())


def test_new_certificates_are_reloaded(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    old, new = mounted.contents, secret(days_ago=10)
    expiry = mounted.snapshot.certificate_expiry["serving"]
    assert mounted.serves(old)
    mounted.mount.put(new)
    mounted.reloader.poll()
    assert mounted.serves(old)
    mounted.reloader.poll()
    assert mounted.serves(new)
    assert not mounted.serves(old)
    assert expiry - mounted.snapshot.certificate_expiry["serving"] == pytest.approx(10 * DAY, abs=60)
    mounted.reloader.poll()
    [record] = caplog.records
    assert record.getMessage() == f"certificates were reloaded from {mounted.files.certificate}"
    assert mounted.snapshot.certificate_reload_failures == 0


@pytest.mark.parametrize("name", BAD)
def test_invalid_certificates_are_not_used(name: str, mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    good, snapshot = mounted.contents, mounted.snapshot
    expiry = dict(snapshot.certificate_expiry)
    for _ in range(2):
        mounted.put(BAD[name])
        mounted.reloader.poll()
        assert mounted.serves(good)
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert str(mounted.mount.folder) in record.getMessage()
    assert (snapshot.certificate_expiry, snapshot.certificate_reload_failures) == (expiry, 1)
    new = secret()
    mounted.put(new)
    assert mounted.serves(new)
    assert snapshot.certificate_reload_failures == 1


def test_each_invalid_change_is_counted_and_logged_once(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    for count, contents in enumerate(BAD.values(), 1):
        mounted.put(contents)
        assert mounted.snapshot.certificate_reload_failures == count
        assert len(caplog.records) == count
        assert mounted.serves(mounted.contents)


def test_incomplete_files_are_no_error(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    """The two files may be written one after the other, in parts."""
    new = secret()
    for content in (b"", new["tls.crt"][:300], new["tls.crt"]):
        (mounted.mount.folder / "tls.crt").write_bytes(content)
        mounted.reloader.poll()
        assert mounted.serves(mounted.contents)
    (mounted.mount.folder / "tls.key").write_bytes(new["tls.key"])
    mounted.poll_twice()
    assert mounted.serves(new)
    assert (mounted.snapshot.certificate_reload_failures, caplog.records) == (0, [])


def test_files_that_change_while_they_are_loaded_are_loaded_again(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the result may mix two versions."""
    first, second = secret(), secret()
    load = tls.load

    def load_and_replace(files: TlsFiles) -> LoadedTls:
        loaded = load(files)
        mounted.mount.put(second)
        return loaded

    monkeypatch.setattr(tls, "load", load_and_replace)
    mounted.put(first)
    assert mounted.serves(mounted.contents)
    monkeypatch.undo()
    mounted.poll_twice()
    assert mounted.serves(second)


def test_a_change_that_keeps_size_and_time_is_detected(mounted: Mounted) -> None:
    """The times of file systems are coarse, and keys of one kind have one size."""
    while True:
        new = secret()
        if all(len(new[name]) == len(mounted.contents[name]) for name in ("tls.crt", "tls.key")):
            break
    for name in ("tls.crt", "tls.key"):
        path = mounted.mount.folder / name
        before = path.stat()
        path.write_bytes(new[name])
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    mounted.poll_twice()
    assert mounted.serves(new)


@pytest.mark.parametrize("name", BAD)
def test_invalid_files_at_the_start_are_an_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"tls\.crt: "):
        Mounted(tmp_path, BAD[name])


def test_a_failed_poll_is_retried(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: TlsFiles) -> LoadedTls:
        raise RuntimeError("a bug")

    monkeypatch.setattr(certificate_reload, "_POLL_INTERVAL", 0.01)
    monkeypatch.setattr(tls, "load", fail)
    new = secret()
    with mounted.reloader.watching() as reloader:
        mounted.mount.put(new)
        await_true(lambda: len(caplog.records) > 1, "two failures")
        monkeypatch.undo()
        await_true(lambda: is_accepted(reloader.context, new), "the reload")
    assert {record.getMessage() for record in caplog.records} == {"certificates failed; it will be retried"}


# The CAs of clients.


def test_the_cas_of_clients_are_reloaded(tmp_path: Path) -> None:
    one, other = (signing.create_ca(datetime.now(UTC)) for _ in range(2))
    server = secret(one)
    mounted = Mounted(tmp_path, server, client_ca=True)
    removals: list[int] = []
    mounted.reloader.on_ca_removed(lambda remaining: removals.append(len(remaining)))

    def admits(ca: signing.CertificateAuthority) -> bool:
        return admits_client(mounted.reloader.context, server, client_files(ca), tmp_path)

    assert (admits(one), admits(other)) == (True, False)
    mounted.put(server | {"ca.crt": secret(other)["ca.crt"]})
    assert (admits(one), admits(other)) == (False, True)
    assert removals == [1]
    mounted.put(server | {"ca.crt": server["ca.crt"] + secret(other)["ca.crt"]})
    assert (admits(one), admits(other)) == (True, True)
    assert removals == [1]
    assert mounted.snapshot.certificate_expiry.keys() == {"serving", "client_ca"}
    assert mounted.snapshot.certificate_reload_failures == 0


def admits_client(context: ssl.SSLContext, server: Contents, client: Contents, folder: Path) -> bool:
    """Whether a server accepts the certificate of a client."""
    client_context = verification.client_context()
    client_context.load_verify_locations(cadata=server["ca.crt"].decode())
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(client[name])
    client_context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client_side = client_context.wrap_bio(to_client, to_server)
    server_side = context.wrap_bio(to_server, to_client, server_side=True)
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
    ("contents", "message"),
    [
        (b"", "no valid CA certificates"),
        (b"rubbish", "no valid CA certificates"),
        (secret()["tls.crt"], "no CA certificate, or all have expired"),
        (secret(days_ago=3651)["ca.crt"], "no CA certificate, or all have expired"),
        (None, "cannot be read: No such file or directory"),
    ],
    ids=["empty", "rubbish", "no CA", "expired", "missing"],
)
def test_invalid_cas_of_clients_are_not_used(
    contents: bytes | None, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = signing.create_ca(datetime.now(UTC))
    server = secret(ca)
    mounted = Mounted(tmp_path, server, client_ca=True)
    bad = {name: content for name, content in server.items() if name != "ca.crt"}
    mounted.put(bad if contents is None else bad | {"ca.crt": contents})
    assert mounted.snapshot.certificate_reload_failures == 1
    assert f"{mounted.mount.folder / 'ca.crt'}: {message}" in caplog.records[0].getMessage()
    assert admits_client(mounted.reloader.context, server, client_files(ca), tmp_path)


# Listeners, on both event loops.


@pytest.mark.parametrize("client_ca", [False, True], ids=["any client", "clients with certificates"])
@pytest.mark.parametrize("name", ["localhost", "webhooks.default.svc", None])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_listeners_present_reloaded_certificates(
    loop: Callable[[], asyncio.AbstractEventLoop], name: str | None, client_ca: bool, tmp_path: Path
) -> None:
    """Also to clients that send no server name, because they connect to an address."""
    ca = signing.create_ca(datetime.now(UTC))
    mounted = Mounted(tmp_path, secret(ca), client_ca=client_ca)
    for file, content in client_files(ca).items():
        (tmp_path / file).write_bytes(content)

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    async def connect(port: int) -> bytes | None:
        client_context = verification.client_context()
        client_context.load_verify_locations(cadata=mounted.contents["ca.crt"].decode())
        client_context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context, server_hostname=name or ""
        )
        certificate: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert await reader.read() == b"hello"
        writer.close()
        return certificate

    async def scenario() -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=mounted.reloader.context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            for _ in range(3):
                contents = secret(ca)
                mounted.put(contents)
                assert await connect(port) == ssl.PEM_cert_to_DER_cert(contents["tls.crt"].decode())

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(scenario())


# Certificates of the development CA.


def test_development_certificates_are_issued_for_the_address_of_the_server(tmp_path: Path) -> None:
    files, snapshot = TlsFiles.development(tmp_path), MetricsSnapshot()
    with renew_certificates(tmp_path, "192.0.2.1"):
        CertificateReloader(files, snapshot)
    assert snapshot.certificate_expiry.keys() == {"serving", "ca"}
    lifetimes = {name: seconds - time.time() for name, seconds in snapshot.certificate_expiry.items()}
    assert lifetimes == {"serving": pytest.approx(365 * DAY, abs=60), "ca": pytest.approx(3650 * DAY, abs=60)}
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        connect_to(files, "192.0.2.2")
    connect_to(files, "192.0.2.1")


def connect_to(files: TlsFiles, address: str) -> None:
    client_context = ssl.create_default_context(cafile=files.ca)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=address)
    server = CertificateReloader(files, MetricsSnapshot()).context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


def test_development_certificates_are_renewed_and_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for interval in ("_RENEWAL_INTERVAL", "_POLL_INTERVAL"):
        monkeypatch.setattr(certificate_reload, interval, 0.01)
    files, snapshot = TlsFiles.development(tmp_path), MetricsSnapshot()
    with renew_certificates(tmp_path, "192.0.2.1"), CertificateReloader(files, snapshot).watching() as reloader:
        certificates.issue(tmp_path, names=["localhost"], now=datetime.now(UTC) - timedelta(days=300))
        due = files.certificate.read_bytes()
        await_true(lambda: files.certificate.read_bytes() != due, "the renewal")
        renewed = ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
        await_true(lambda: presented(reloader.context, tmp_path / "ca.pem") == renewed, "the reload")
    assert snapshot.certificate_expiry["serving"] - time.time() == pytest.approx(365 * DAY, abs=60)


def presented(context: ssl.SSLContext, ca: Path) -> bytes | None:
    """The certificate that a server presents to clients (DER)."""
    client_context = verification.client_context()
    client_context.load_verify_locations(ca)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert(binary_form=True)


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


# A server under load.

RATE = 10  # replacements per second
REPLACEMENTS = 30
MAX_DELAY = 10  # seconds until the last certificate is presented


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uvloop", "asyncio", "two workers"])
def test_certificates_are_replaced_under_load(kind: str, tmp_path: Path) -> None:
    """The serving pair, its CA and the CAs of clients are replaced at once."""
    environment = {}
    if kind == "asyncio":
        (tmp_path / "uvloop.py").write_text("raise ImportError('not installed')\n")
        environment["PYTHONPATH"] = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    secrets = [secret() for _ in range(6)]
    options = ("--workers", 2) if kind == "two workers" else ()
    with serve_mounted(tmp_path, secrets, *options, **environment) as served:
        if kind != "two workers":
            maps = Path(f"/proc/{served.server.process.pid}/maps").read_text()
            assert ("uvloop" in maps) is (kind == "uvloop")
        with served.under_load() as load:
            for number in range(REPLACEMENTS):
                served.mount.put(secrets[number % len(secrets)])
                time.sleep(1 / RATE)  # the test needs this rate
            last = secrets[REPLACEMENTS % len(secrets)]
            served.mount.put(last)
            start = time.monotonic()
            await_true(lambda: served.presents(last), "the last certificate")
            delay = time.monotonic() - start
        print(f"{load.answered} requests, {len(load.failures)} failures, presented after {delay:.1f} s")
        assert load.failures == []
        assert load.answered > 100
        assert delay < MAX_DELAY
        assert served.metric_values("webhooks_certificate_reload_failures_total") == {"": 0}


def has_failures(served: MountedServer, count: int) -> bool:
    return served.metric_values("webhooks_certificate_reload_failures_total") == {"": count}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_failed_reloads_are_counted_under_load(workers: int, tmp_path: Path) -> None:
    good = secret()
    with serve_mounted(tmp_path, [good], "--workers", workers) as served, served.under_load() as load:
        expiry = served.metric_values("webhooks_certificate_expiry_timestamp_seconds")
        assert expiry.keys() == {"serving", "client_ca"}
        for count, name in enumerate(("another key", "an empty certificate"), 1):
            served.mount.put(invalid_secrets()[name] | {"ca.crt": good["ca.crt"]})
            await_true(partial(has_failures, served, count * workers), "a failure")
            assert served.presents(good)
        assert served.metric_values("webhooks_certificate_expiry_timestamp_seconds") == expiry
    assert load.failures == []
    levels = [record["level"] for record in served.server.logs() if record["logger"] == "webhooks.server"]
    assert levels == ["error"] * 2 * workers

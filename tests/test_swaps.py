"""Certificates of a running server are exchanged under load: no call fails, and what is new is shown before long."""

import os
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from webhooks.certificates import signing

from .mounts import Contents, Mount, bad_secrets, caller, secret
from .servers import Connection, Server, await_true, review, serving

VALIDATE = "/admission/validate"
RATE = 10  # exchanges a second
SWAPS = 30
CALLERS = 4
PATIENCE = 10  # seconds until what is new is shown
NO_UVLOOP = "raise ImportError('there is none here')\n"


@dataclass
class Load:
    """Callers that call all the time: half of them on connections of their own, half on one each that stays open.

    Attributes:
        answered: how many calls were answered rightly.
        failures: what went wrong with the others.
    """

    server: Server
    tls: ssl.SSLContext
    answered: int = 0
    failures: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _call(self, keep: bool) -> None:
        connection: Connection | None = None
        body = review()
        while not self._ended.is_set():
            try:
                connection = connection or self.server.connect(self.tls)
                answer = connection.post(VALIDATE, body).json()["response"]
                assert answer == {"uid": "uid-1", "allowed": True}
            except Exception as error:
                self.failures.append(repr(error))
            else:
                with self._lock:
                    self.answered += 1
            if connection is not None and not keep:
                connection.close()
                connection = None
        if connection is not None:
            connection.close()

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Call as long as the block lasts."""
        threads = [threading.Thread(target=self._call, args=(number % 2 == 0,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()


@dataclass
class Swapped:
    """A server whose certificates are mounted, and a caller that trusts all of their authorities."""

    server: Server
    mount: Mount
    tls: ssl.SSLContext

    def shows(self, contents: Contents) -> bool:
        """Whether this certificate is shown, by every process that answers."""
        expected = ssl.PEM_cert_to_DER_cert(contents["tls.crt"].decode())
        with ExitStack() as stack:
            connections = [stack.enter_context(self.server.connect(self.tls)) for _ in range(8)]
            return {connection.socket.getpeercert(binary_form=True) for connection in connections} == {expected}

    def metric(self, name: str) -> dict[str, float]:
        """The samples of a metric, by the values of their labels."""
        page = self.server.get("/metrics", ops=True).body.decode()
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return {",".join(sample.labels.values()): sample.value for sample in samples if sample.name == name}


@contextmanager
def swapped(folder: Path, secrets: list[Contents], *options: object, **environment: str) -> Iterator[Swapped]:
    """A server on the first of these, which takes callers of the authority in them."""
    authority = signing.first(datetime.now(UTC))
    for contents in secrets:
        contents["ca.crt"] += secret(authority)["ca.crt"]
    mount = Mount(folder / "mount", secrets[0])
    at = mount.folder
    for name, content in caller(authority).items():
        (folder / name).write_bytes(content)
    tls = ssl.create_default_context(cadata="".join(each["ca.crt"].decode() for each in secrets))
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    named = ("--tls-cert", at / "tls.crt", "--tls-key", at / "tls.key", "--client-ca", at / "ca.crt")
    with serving(folder, *named, *options, **environment) as server:
        yield Swapped(server, mount, tls)


@pytest.mark.parametrize("kind", ["uvloop", "asyncio", "two workers"])
def test_certificates_are_exchanged_under_load(kind: str, tmp_path: Path) -> None:
    """The serving pair with its authority, and the authorities of callers, all at once."""
    environment = {}
    if kind == "asyncio":
        (tmp_path / "uvloop.py").write_text(NO_UVLOOP)
        environment["PYTHONPATH"] = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    secrets = [secret() for _ in range(6)]
    options = ("--workers", 2) if kind == "two workers" else ()
    with swapped(tmp_path, secrets, *options, **environment) as served:
        if kind != "two workers":
            maps = Path(f"/proc/{served.server.process.pid}/maps").read_text()
            assert ("uvloop" in maps) is (kind == "uvloop")
        with Load(served.server, served.tls).running() as load:
            for number in range(SWAPS):
                served.mount.put(secrets[number % len(secrets)])
                time.sleep(1 / RATE)  # the rate is what is tried here
            last = secrets[SWAPS % len(secrets)]
            served.mount.put(last)
            began = time.monotonic()
            await_true(lambda: served.shows(last), "the last one is shown")
            shown = time.monotonic() - began
        print(f"{load.answered} calls, {len(load.failures)} failures, shown after {shown:.1f} s")
        assert load.failures == []
        assert load.answered > 100
        assert shown < PATIENCE
        assert served.metric("webhooks_certificate_reload_failures_total") == {"": 0}


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_ones_are_counted_while_the_old_one_serves_on(workers: int, tmp_path: Path) -> None:
    good = secret()
    with swapped(tmp_path, [good], "--workers", workers) as served, Load(served.server, served.tls).running() as load:
        ends = served.metric("webhooks_certificate_expiry_timestamp_seconds")
        assert ends.keys() == {"serving", "client_ca"}
        for count, name in enumerate(("the key of another", "an empty certificate"), 1):
            served.mount.put(bad_secrets()[name] | {"ca.crt": good["ca.crt"]})
            failures = {"": float(count * workers)}
            await_true(lambda: served.metric("webhooks_certificate_reload_failures_total") == failures, "it is counted")  # noqa: B023
            assert served.shows(good)
        assert served.metric("webhooks_certificate_expiry_timestamp_seconds") == ends
    assert load.failures == []
    told = [record["level"] for record in served.server.logs() if record["logger"] == "webhooks.following"]
    assert told == ["error"] * 2 * workers

"""A server whose certificates are exchanged, and a caller that trusts all of their authorities."""

import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from webhooks.certificates import signing

from .load import Client, Load
from .mounts import Contents, Mount, client_files, secret
from .servers import Connection, Server, serving

CALLERS = 4


@dataclass
class Swapped:
    """A server whose certificates are mounted, and a caller that trusts all of their authorities."""

    server: Server
    mount: Mount
    tls: ssl.SSLContext

    def connect(self) -> Connection:
        return self.server.connect(self.tls)

    @contextmanager
    def called(self) -> Iterator[Load]:
        """Callers call as long as the block lasts: half of them on connections of their own, half on one that stays."""
        callers = [Client(self.connect, keeps=number % 2 == 0) for number in range(CALLERS)]
        with Load(callers).running() as load:
            yield load

    def shows(self, contents: Contents) -> bool:
        """Whether this certificate is shown, by every process that answers."""
        expected = ssl.PEM_cert_to_DER_cert(contents["tls.crt"].decode())
        with ExitStack() as stack:
            connections = [stack.enter_context(self.connect()) for _ in range(8)]
            return {connection.socket.getpeercert(binary_form=True) for connection in connections} == {expected}

    def metric(self, name: str) -> dict[str, float]:
        """The samples of a metric, by the values of their labels."""
        page = self.server.get("/metrics", ops=True).body.decode()
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return {",".join(sample.labels.values()): sample.value for sample in samples if sample.name == name}


@contextmanager
def swapped(folder: Path, secrets: list[Contents], *options: object, **environment: str) -> Iterator[Swapped]:
    """A server on the first of these, which takes callers of the authority in them."""
    authority = signing.create_ca(datetime.now(UTC))
    for contents in secrets:
        contents["ca.crt"] += secret(authority)["ca.crt"]
    mount = Mount(folder / "mount", secrets[0])
    at = mount.folder
    for name, content in client_files(authority).items():
        (folder / name).write_bytes(content)
    tls = ssl.create_default_context(cadata="".join(each["ca.crt"].decode() for each in secrets))
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    named = ("--tls-cert", at / "tls.crt", "--tls-key", at / "tls.key", "--client-ca", at / "ca.crt")
    with serving(folder, *named, *options, **environment) as server:
        yield Swapped(server, mount, tls)

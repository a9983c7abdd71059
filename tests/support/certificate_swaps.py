"""A server whose mounted certificates tests replace under load."""

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

CLIENTS = 4


@dataclass
class MountedServer:
    """A server whose certificates are mounted.

    Attributes:
        server: the server.
        mount: its certificates.
        tls: the context of a client that trusts the CAs of all certificates.
    """

    server: Server
    mount: Mount
    tls: ssl.SSLContext

    def connect(self) -> Connection:
        return self.server.connect(self.tls)

    @contextmanager
    def under_load(self) -> Iterator[Load]:
        """Run clients within the block. Half of them open a connection for each request."""
        clients = [Client(self.connect, keep_alive=number % 2 == 0) for number in range(CLIENTS)]
        with Load(clients).running() as load:
            yield load

    def presents(self, contents: Contents) -> bool:
        """Whether all processes of the server present this certificate."""
        expected = ssl.PEM_cert_to_DER_cert(contents["tls.crt"].decode())
        with ExitStack() as stack:
            connections = [stack.enter_context(self.connect()) for _ in range(8)]
            return {connection.socket.getpeercert(binary_form=True) for connection in connections} == {expected}

    def metric_values(self, name: str) -> dict[str, float]:
        """Return the samples of a metric by the values of their labels."""
        page = self.server.get("/metrics", ops=True).body.decode()
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return {",".join(sample.labels.values()): sample.value for sample in samples if sample.name == name}


@contextmanager
def serve_mounted(
    folder: Path, secrets: list[Contents], *options: object, **environment: str
) -> Iterator[MountedServer]:
    """Run a server with the first of these Secrets. It accepts clients of the CA in all of them."""
    ca = signing.create_ca(datetime.now(UTC))
    for contents in secrets:
        contents["ca.crt"] += secret(ca)["ca.crt"]
    mount = Mount(folder / "mount", secrets[0])
    path = mount.folder
    for name, content in client_files(ca).items():
        (folder / name).write_bytes(content)
    tls = ssl.create_default_context(cadata="".join(contents["ca.crt"].decode() for contents in secrets))
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    tls_options = (
        "--tls-cert",
        path / "tls.crt",
        "--tls-key",
        path / "tls.key",
        "--client-ca",
        path / "ca.crt",
    )
    with serving(folder, *tls_options, *options, **environment) as server:
        yield MountedServer(server, mount, tls)

"""The listening sockets of a server."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from webhooks.errors import ConfigurationError
from webhooks.server.sockets import Sockets, bind

from ..support.servers import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server")) as server:
        yield server


def close(sockets: Sockets) -> None:
    for listener in (*sockets.reviews, sockets.ops):
        if listener is not None:
            listener.close()


@pytest.mark.parametrize("workers", [1, 3])
def test_each_worker_has_a_socket_at_the_same_port(workers: int) -> None:
    sockets = Sockets("127.0.0.1", 0, 0, workers)
    ports = {listener.getsockname()[1] for listener in sockets.reviews}
    assert (len(sockets.reviews), len(ports)) == (workers, 1)
    assert sockets.url == f"https://127.0.0.1:{ports.pop()}"
    close(sockets)


@pytest.mark.skipif(not socket.has_ipv6, reason="requires IPv6")
def test_ipv6() -> None:
    try:
        sockets = Sockets("::1", 0)
    except ConfigurationError:
        pytest.skip("requires IPv6")
    assert sockets.url == f"https://[::1]:{sockets.reviews[0].getsockname()[1]}"
    close(sockets)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use(workers: int) -> None:
    """Also if the other server shares its port between its workers."""
    sockets = Sockets("127.0.0.1", 0, None, workers)
    port = sockets.reviews[0].getsockname()[1]
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
        Sockets("127.0.0.1", port, None, 2)
    with pytest.raises(ConfigurationError, match=r"in use: give another port by --port$"):
        Sockets("127.0.0.1", port)
    with pytest.raises(ConfigurationError, match=r"in use: give another port by --ops-port$"):
        Sockets("127.0.0.1", 0, port)
    close(sockets)


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("a" * 70, 0), ("127.0.0.1", 70_000)])
def test_unavailable_addresses(host: str, port: int) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on {host} port {port}: "):
        bind(host, port, is_shared=False)


def count_listening(server: Server) -> int:
    """Return the number of ports on which the process listens."""
    links = [str(link.readlink()) for link in Path(f"/proc/{server.process.pid}/fd").iterdir()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(fields[3] == "0A" and fields[9] in inodes for fields in lines)


def test_the_ops_port_is_optional(server: Server, tmp_path: Path) -> None:
    assert count_listening(server) == 2
    with serving(tmp_path, ops=False) as without:
        assert count_listening(without) == 1
        assert without.get("/readyz").body == b"ok"

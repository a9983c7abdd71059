"""Tests of ``webhooks health``."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..support.servers import SECONDS, await_true, free_port, serving, webhooks


def check(*arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run the command. Return its exit code, standard output and standard error."""
    done = subprocess.run(
        webhooks("health", *arguments), capture_output=True, text=True, timeout=SECONDS, env=variables or None
    )
    return done.returncode, done.stdout, done.stderr


def test_a_healthy_server_and_one_that_shuts_down(tmp_path: Path) -> None:
    with serving(tmp_path, "--shutdown-delay", "1m") as server:
        url = f"http://127.0.0.1:{server.ops_port}"
        assert check(f"{url}/readyz") == (0, f"{url}/readyz: ok\n", "")
        code, out, _ = check(f"{url}/readyz?verbose")
        assert (code, out.count("\n")) == (0, 1)
        server.signal()
        await_true(lambda: server.get("/readyz", ops=True).status == 503, "the server is not ready any more")
        code, out, err = check(f"{url}/readyz")
        assert (code, out) == (1, "")
        assert err.startswith(f"{url}/readyz: 503 [+]")
        assert err.endswith("ok, [-]shutdown failed, readyz check failed\n")
        assert check(f"{url}/livez")[0] == 0
        server.signal()


def test_no_server() -> None:
    code, out, err = check(f"http://127.0.0.1:{free_port()}/readyz")
    assert (code, out) == (1, "")
    assert "refused" in err
    assert err.count("\n") == 1


def test_no_proxy_is_used(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        url = f"http://127.0.0.1:{server.ops_port}/readyz"
        proxy = f"http://127.0.0.1:{free_port()}"
        assert check(url, http_proxy=proxy, HTTP_PROXY=proxy)[0] == 0


@contextmanager
def responding(*parts: bytes) -> Iterator[str]:
    """A server that sends this to its client and nothing more; the value is its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = threading.Event()

        def respond() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                for part in parts:
                    connection.sendall(part)
                done.wait(SECONDS)

        thread = threading.Thread(target=respond)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/readyz"
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "timed out"),
        ((b"SSH-2.0-OpenSSH_9.2\r\n",), "SSH-2.0-OpenSSH_9.2"),
        ((b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",), "302"),
        ((b"HTTP/1.1 500 Oh\r\nContent-Length: 7\r\n\r\n\xff\n\x1b[2J\n",), "500"),
    ],
    ids=["silence", "no HTTP", "a redirect", "control characters"],
)
def test_other_servers_are_not_healthy(parts: tuple[bytes, ...], message: str) -> None:
    with responding(*parts) as url:
        code, out, err = check(url)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:8443/readyz",
        "127.0.0.1:8080",
        "http:///readyz",
        "http://a:b/",
        "http://a..b/",
        "http://127.0.0.1/\u00e4",
    ],
)
def test_invalid_urls(url: str) -> None:
    code, out, err = check(url)
    assert (code, out) == (2, "")
    assert err.startswith(f"webhooks: {url}: ")

"""Asking a server for its health, as containers do."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..support.servers import SECONDS, await_true, free_port, serving, webhooks


def asked(*words: str, **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        webhooks("health", *words), capture_output=True, text=True, timeout=SECONDS, env=variables or None
    )
    return done.returncode, done.stdout, done.stderr


def test_a_server_that_is_well_and_one_that_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "--shutdown-delay", "1m") as server:
        url = f"http://127.0.0.1:{server.ops_port}"
        assert asked(f"{url}/readyz") == (0, f"{url}/readyz: ok\n", "")
        code, out, _ = asked(f"{url}/readyz?verbose")
        assert (code, out.count("\n")) == (0, 1)
        server.signal()
        await_true(lambda: server.get("/readyz", ops=True).status == 503, "the server is not ready any more")
        code, out, err = asked(f"{url}/readyz")
        assert (code, out) == (1, "")
        assert err.startswith(f"{url}/readyz: 503 [+]")
        assert err.endswith("ok, [-]shutdown failed, readyz check failed\n")
        assert asked(f"{url}/livez")[0] == 0
        server.signal()


def test_nobody_there() -> None:
    url = f"http://127.0.0.1:{free_port()}/readyz"
    code, out, err = asked(url)
    assert (code, out) == (1, "")
    assert "refused" in err
    assert err.count("\n") == 1


def test_no_proxy_is_asked(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        url = f"http://127.0.0.1:{server.ops_port}/readyz"
        proxy = f"http://127.0.0.1:{free_port()}"
        assert asked(url, http_proxy=proxy, HTTP_PROXY=proxy)[0] == 0


@contextmanager
def answering(*parts: bytes) -> Iterator[str]:
    """Somebody at a port who says that to whoever comes, and then nothing more; the URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        done = threading.Event()

        def answer() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                for part in parts:
                    connection.sendall(part)
                done.wait(SECONDS)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/readyz"
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((), "timed out"),
        ((b"SSH-2.0-OpenSSH_9.2\r\n",), "SSH-2.0-OpenSSH_9.2"),
        ((b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",), "302"),
        ((b"HTTP/1.1 500 Oh\r\nContent-Length: 7\r\n\r\n\xff\n\x1b[2J\n",), "500"),
    ],
    ids=["silence", "no HTTP", "a redirection", "rubbish"],
)
def test_others_are_not_well(said: tuple[bytes, ...], found: str) -> None:
    with answering(*said) as url:
        code, out, err = asked(url)
    assert (code, out) == (1, "")
    assert found in err
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
def test_what_is_no_url_of_the_ops_port(url: str) -> None:
    code, out, err = asked(url)
    assert (code, out) == (2, "")
    assert err.startswith(f"webhooks: {url}: ")

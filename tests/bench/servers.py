"""Starts, measures and stops the servers."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

ROOT = Path(__file__).parents[2]
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """The benchmark cannot continue."""


class NotInstalledError(Exception):
    """A server is not installed on this machine."""


@dataclass(frozen=True)
class ServerSetup:
    """The port, the certificate and the folder of a server."""

    port: int
    certificate: Path
    key: Path
    folder: Path

    @property
    def arguments(self) -> list[str]:
        return [str(self.port), str(self.certificate), str(self.key)]


@dataclass(frozen=True)
class Candidate:
    """A server that can be measured.

    Attributes:
        name: its name on the command line.
        title: its title in the tables.
        path: where reviews are posted.
        command: returns its command line.
        expects: the response to a review of the benchmark: with a patch, without one, or any.
        denies: whether it denies images of other registries.
    """

    name: str
    title: str
    path: str
    command: Callable[[ServerSetup], list[str]]
    expects: Literal["patch", "allow", "any"] = "patch"
    denies: bool = True


@dataclass
class Server:
    """A running candidate."""

    candidate: Candidate
    setup: ServerSetup
    process: subprocess.Popen[bytes]
    start_seconds: float = 0.0

    def url(self, path: str | None = None) -> str:
        return f"https://127.0.0.1:{self.setup.port}{path or self.candidate.path}"

    def post(self, body: bytes, path: str | None = None) -> Any:
        """Post one review on a new connection, and return the decoded response."""
        context = ssl.create_default_context(cafile=self.setup.certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", self.setup.port, timeout=10, context=context)
        try:
            connection.request("POST", path or self.candidate.path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise BenchError(f"{self.candidate.name}: {response.status} {content[:300]!r}")
        return json.loads(content)

    def memory_mb(self) -> float:
        """Return the resident memory of the process and its descendants."""
        return sum(_resident_kb(pid) for pid in _list_process_tree(self.process.pid)) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and its descendants."""
        return sum(_cpu_ticks(pid) for pid in _list_process_tree(self.process.pid)) / TICKS_PER_SECOND


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Create a self-signed ECDSA P-256 certificate and its key for 127.0.0.1."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@contextmanager
def running(candidate: Candidate, certificate: tuple[Path, Path], scratch: Path, probe: bytes) -> Iterator[Server]:
    """Start a server, wait for its first response, and stop it after the block."""
    setup = ServerSetup(_free_port(), *certificate, scratch / candidate.name)
    setup.folder.mkdir(exist_ok=True)
    command = candidate.command(setup)
    with (setup.folder / "output.log").open("w+b") as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        server = Server(candidate, setup, process)
        try:
            _await_first_response(server, probe, output, deadline=started + 30)
            server.start_seconds = time.perf_counter() - started
            yield server
            if process.poll() is not None:
                raise BenchError(f"{candidate.name} exited during the run:\n{_tail(output)}")
        finally:
            _stop(process)


def _await_first_response(server: Server, probe: bytes, output: IO[bytes], deadline: float) -> None:
    last: Exception | None = None
    while server.process.poll() is None and time.perf_counter() < deadline:
        try:
            server.post(probe)
        except (OSError, http.client.HTTPException, BenchError) as error:
            last = error
            time.sleep(0.005)
        else:
            return
    raise BenchError(f"{server.candidate.name} did not start: {last}\n{_tail(output)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read()[-2000:].decode(errors="replace")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _list_process_tree(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(grandchild for child in children for grandchild in _list_process_tree(int(child)))]


def _resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])

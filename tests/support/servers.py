"""Real servers for the tests: started at free ports, spoken to byte by byte, ended by their ids."""

import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from .builders import admission_body, written

SECONDS = 15  # for whatever should take a moment
REPLY_SECONDS = 5  # for an answer
REVIEWS = {"Content-Type": "application/json"}

# One policy for each thing that a server can meet; an object's name chooses among those for widgets.
POLICIES = """\
import asyncio
import socket

from webhooks import *


@mutating("pods", operations=["CREATE"])
def labelled(review):
    pod = review.object
    pod["metadata"].setdefault("labels", {})["seen"] = "yes"
    return Replace(pod)


@validating("*/*", operations=["*"])
def reads_all(review):
    _ = review.object, review.old_object, review.user, review.options
    return Allow()


@validating("widgets", names=["denied"])
def denies(review):
    return Deny("widgets of that name are refused", audit={"rule": "names"})


@validating("widgets", names=["raises"])
def raises(review):
    raise ValueError("a secret detail\\nof two lines \\x1b[31m")


@validating("widgets", names=["hangs"])
def hangs(review):
    with socket.socket(socket.AF_UNIX) as gate:
        gate.connect(review.object["gate"])
        gate.recv(1)
    return Allow()


@validating("widgets", names=["waits"])
async def waits(review):
    reader, writer = await asyncio.open_unix_connection(review.object["gate"])
    await reader.read()
    writer.close()
    return Allow()


@authorizing("*/*", paths=["*"])
def authorizes(access):
    if access.name == "raises":
        raise ValueError("a secret detail")
    if access.verb == "get":
        return Allow(reason="reading is free")
    return Deny("kept") if access.verb == "delete" else NoOpinion()


@authenticating
def authenticates(token):
    if token.token == "raises":
        raise ValueError("a secret detail")
    return Authenticated("jane", groups=["team-a"]) if token.token == "good" else Unauthenticated("unknown")


@image_policy
def pinned(review):
    loose = [image for image in review.images if "@" not in image]
    return Deny(f"not pinned: {', '.join(loose)}") if loose else Allow()
"""


@dataclass(frozen=True)
class Reply:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def closes(self) -> bool:
        return self.headers.get("connection") == "close"

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A caller's connection: it sends any bytes, and reads answers one by one."""

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext | None,
        name: str = "127.0.0.1",
        patience: float = REPLY_SECONDS,
    ) -> None:
        raw = socket.create_connection(("127.0.0.1", port), patience)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as callers do; else each handshake waits for an ACK
        try:
            self.socket = raw if tls is None else tls.wrap_socket(raw, server_hostname=name)
        except BaseException:
            raw.close()
            raise
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Go away without a word, as a caller does that died."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send it, or as much of it as the server takes: one may answer and close before it has seen all."""
        with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            self.socket.sendall(data)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = REVIEWS) -> None:
        self.send(request(method, path, body, headers))

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = REVIEWS) -> Reply:
        self.request("POST", path, body, headers)
        return self.reply()

    def reply(self, *, to_head: bool = False) -> Reply:
        """The next answer; `EOFError` where the connection ends instead."""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        bodiless = status < 200 or status in (204, 304) or to_head
        body = b"" if bodiless else self._exactly(int(headers["content-length"]))
        return Reply(status, headers, body)

    def is_closed(self) -> bool:
        """Whether nothing more comes: waits until the server has closed it, or an answer comes instead."""
        if self._buffer:
            return False
        try:
            return not self._more()
        except (EOFError, ConnectionResetError):
            return True

    def is_silent(self, seconds: float = 0.1) -> bool:
        """Whether nothing has come for a while, neither an answer nor the end."""
        return not self._buffer and not select.select([self.socket], [], [], seconds)[0]

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _more(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError(f"the connection ended; before that came {self._buffer!r}")
        self._buffer += data
        return data


def request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = REVIEWS, version: str = "HTTP/1.1"
) -> bytes:
    """A request as bytes; it tells its length unless its headers say how its body comes."""
    lines = [f"{method} {path} {version}", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    if body and not {"content-length", "transfer-encoding"} & {name.lower() for name in headers}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1") + body


def chunked(*parts: bytes) -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def review(name: str = "web", *, uid: str = "uid-1", resource: str = "widgets", **members: Any) -> bytes:
    """An AdmissionReview about the creation of an object, which the policies know by its name."""
    obj = {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": name, "namespace": "team-a"}, **members}
    return written(admission_body("CREATE", obj, resource=f"v1/{resource}", name=name, uid=uid)).strip()


class Gate:
    """Where the policies `hangs` and `waits` wait, and which tells that they came."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gate-")  # short, as the paths of such sockets must be
        self.path = f"{self._folder.name}/gate"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(SECONDS)
        self._listener.bind(self.path)
        self._listener.listen()
        self._waiting: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._listener.close()
        self._folder.cleanup()

    def review(self, name: str, **members: Any) -> bytes:
        """A review that one of the policies answers when the gate is opened."""
        return review(name, gate=self.path, **members)

    def await_policy(self) -> None:
        """Wait until a policy has come."""
        self._waiting.append(self._listener.accept()[0])

    def open(self) -> None:
        """Let those go on that came."""
        while self._waiting:
            self._waiting.pop().close()


class Output:
    """What a process writes, by lines, for those who wait for one of them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.lines: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        self._reading = threading.Event()
        self._reading.set()
        self._thread = threading.Thread(target=self._drain, args=(stream,), daemon=True)
        self._thread.start()

    def _drain(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._reading.wait()
                with self._changed:
                    self.lines.append(line.decode().removesuffix("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Stop reading: the process finds its pipe full before long."""
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def await_line(self, part: str, start: int = 0) -> str:
        """The first line with that in it, from a line on; fails where none comes."""
        found: list[str] = []

        def arrived() -> bool:
            found.extend(line for line in self.lines[start:] if part in line)
            return bool(found) or self._ended

        with self._changed:
            self._changed.wait_for(arrived, SECONDS)
        assert found, f"no line with {part!r} in:\n" + "\n".join(self.lines)
        return found[0]

    def all(self) -> list[str]:
        """All lines, of a process that has ended."""
        self._thread.join(SECONDS)
        assert self._ended, "somebody still holds the stream open"
        return self.lines


@dataclass
class Server:
    """A running server: `webhooks serve`, or an application under uvicorn."""

    process: subprocess.Popen[bytes]
    output: Output
    errors: Output
    port: int = 0
    ops_port: int | None = None
    tls: ssl.SSLContext | None = None
    folder: Path = field(default_factory=Path)
    name: str = "127.0.0.1"

    def connect(self, tls: ssl.SSLContext | None = None) -> Connection:
        return Connection(self.port, tls or self.tls, self.name)

    def accepts(self) -> bool:
        """Whether it lets anybody in at the port for reviews."""
        try:
            Connection(self.port, None).close()
        except ConnectionRefusedError:
            return False
        return True

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = REVIEWS) -> Reply:
        """Post a review on a connection of its own."""
        with self.connect() as connection:
            return connection.post(path, body, headers)

    def get(self, path: str, *, ops: bool = False) -> Reply:
        connection = Connection(self.ops_port or 0, None) if ops else self.connect()
        with connection:
            connection.request("GET", path, headers={})
            return connection.reply()

    def logs(self, start: int = 0) -> list[dict[str, Any]]:
        """The records of the log from one on, each of which must be one line of JSON."""
        return [json.loads(line) for line in self.errors.lines[start:]]

    @property
    def resident_mb(self) -> float:
        """Memory of the process."""
        return self._status_mb("VmRSS")

    @property
    def most_mb(self) -> float:
        """The most memory that it had since its start, or since this was forgotten."""
        return self._status_mb("VmHWM")

    def forget_most(self) -> None:
        """Begin anew with what `most_mb` tells."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _status_mb(self, name: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024

    @property
    def descriptors(self) -> int:
        """How many the process has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait until the process has ended by itself; its exit code."""
        return self.process.wait(SECONDS)

    def stop(self) -> int:
        """Ask the process to end; its exit code."""
        self.signal()
        return self.ended()


def webhooks(*arguments: object) -> list[str]:
    """The command line of a `webhooks` command."""
    return [sys.executable, "-m", "webhooks", *map(str, arguments)]


@contextmanager
def started(command: list[str], folder: Path, **environment: str) -> Iterator[Server]:
    """A process, which has ended after the block."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    server = Server(process, Output(process.stdout), Output(process.stderr), folder=folder)
    try:
        yield server
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the group is its own: what it started ends with it
            process.wait()
            server.errors.resume()


@contextmanager
def serving(
    folder: Path,
    *options: object,
    policies: str = POLICIES,
    ops: bool = True,
    within: Sequence[str] = (),
    **environment: str,
) -> Iterator[Server]:
    """`webhooks serve` with policies, at ports that were free, with a development certificate in the folder.

    It may be run within another command, such as a shell's.
    """
    ops_port = free_port() if ops else 0
    given = ("--host", "127.0.0.1", "--port", 0, "--ops-port", ops_port, "--shutdown-delay", 0)
    given += ("--decision-log", "off", *options)
    if policies:
        file = folder / "policies.py"
        file.write_text(policies)
        given += ("--policies", file)
    if "--tls-cert" not in options:
        given += ("--certs-dir", folder / "certs")
    with started([*within, *webhooks("serve", *given)], folder, TMPDIR=str(folder), **environment) as server:
        ready = server.output.await_line("ready https://127.0.0.1:")
        server.port = int(ready.rpartition(":")[2])
        server.ops_port = ops_port or None
        server.tls = client_context(folder / "certs" / "ca.pem") if "--tls-cert" not in options else None
        yield server


@contextmanager
def under_uvicorn(folder: Path, policies: str = POLICIES) -> Iterator[Server]:
    """The same policies as a user's own application under uvicorn, with nothing of ours but `create_app`."""
    application = "\nfrom webhooks import create_app\nfrom webhooks.policy.model import Policy\n"
    application += "app = create_app([each for each in list(globals().values()) if isinstance(each, Policy)])\n"
    (folder / "users.py").write_text(policies + application)
    command = [sys.executable, "-m", "uvicorn", "users:app", "--port", "0", "--no-access-log", "--no-use-colors"]
    with started(command, folder) as server:
        running = server.errors.await_line("running on http://127.0.0.1:")
        server.port = int(running.split("127.0.0.1:")[1].split()[0])
        yield server


def client_context(ca: Path, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """What a caller that trusts an authority verifies servers by, and perhaps shows for itself."""
    context = ssl.create_default_context(cafile=str(ca))
    if client is not None:
        context.load_cert_chain(*client)
    return context


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def await_true(condition: Callable[[], bool], what: str) -> None:
    """Ask again and again until it holds: for states of another process that tells of them in no other way."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.01)

"""Server processes on free ports for tests, and connections that send and receive raw HTTP."""

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

from .builders import admission_body, encode_body

SECONDS = 15  # timeout of events that should be immediate
REPLY_SECONDS = 5  # timeout of a response
REVIEWS = {"Content-Type": "application/json"}

# Policies for all sorts of outcomes; the name of a widget selects the policy.
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
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def closes(self) -> bool:
        return self.headers.get("connection") == "close"

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """The connection of a client: sends arbitrary bytes, and reads responses one by one."""

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext | None,
        name: str = "127.0.0.1",
        timeout: float = REPLY_SECONDS,
    ) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as clients do; else handshakes wait for an ACK
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
        """Reset the connection, as a client does that crashed."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send as much as the server accepts: it may respond and close before it has received all."""
        with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            self.socket.sendall(data)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = REVIEWS) -> None:
        self.send(request(method, path, body, headers))

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = REVIEWS) -> Reply:
        self.request("POST", path, body, headers)
        return self.reply()

    def reply(self, *, to_head: bool = False) -> Reply:
        """Read the next response; raises `EOFError` if the server closes the connection instead."""
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        bodiless = status < 200 or status in (204, 304) or to_head
        body = b"" if bodiless else self._exactly(int(headers["content-length"]))
        return Reply(status, headers, body)

    def is_closed(self) -> bool:
        """Wait until the server closes the connection or sends a response; return whether it closed."""
        if self._buffer:
            return False
        try:
            return not self._more()
        except (EOFError, ConnectionResetError):
            return True

    def is_silent(self, seconds: float = 0.1) -> bool:
        """Whether the server neither sends anything nor closes the connection for some time."""
        return not self._buffer and not select.select([self.socket], [], [], seconds)[0]

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._more()
        data, _, self._buffer = self._buffer.partition(mark)
        return data

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _more(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError(f"the server closed the connection after {self._buffer!r}")
        self._buffer += data
        return data


def request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = REVIEWS, version: str = "HTTP/1.1"
) -> bytes:
    """Return a request as bytes. It has a Content-Length unless the headers set the length or the encoding."""
    lines = [f"{method} {path} {version}", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    if body and not {"content-length", "transfer-encoding"} & {name.lower() for name in headers}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "\r\n"]).encode("latin-1") + body


def chunked(*parts: bytes) -> bytes:
    """Encode a body in chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def review(name: str = "web", *, uid: str = "uid-1", resource: str = "widgets", **members: Any) -> bytes:
    """Return an AdmissionReview of the creation of an object; its name selects the policy."""
    obj = {"apiVersion": "v1", "kind": "Widget", "metadata": {"name": name, "namespace": "team-a"}, **members}
    return encode_body(admission_body("CREATE", obj, resource=f"v1/{resource}", name=name, uid=uid)).strip()


class Gate:
    """Blocks the policies `hangs` and `waits`, and waits until they are called."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gate-")  # the path of a Unix socket must be short
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
        """Return a review for one of the policies, which returns when the gate is opened."""
        return review(name, gate=self.path, **members)

    def await_policy(self) -> None:
        """Wait until a policy is called."""
        self._waiting.append(self._listener.accept()[0])

    def open(self) -> None:
        """Let the blocked policies return."""
        while self._waiting:
            self._waiting.pop().close()


class Output:
    """The lines that a process writes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.lines: list[str] = []
        self._is_closed = False
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
            self._is_closed = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Stop reading, so that the pipe of the process becomes full."""
        self._reading.clear()

    def resume(self) -> None:
        self._reading.set()

    def await_line(self, part: str, start: int = 0) -> str:
        """Wait for a line that contains a text, and return the first one from a line on."""
        matches: list[str] = []

        def has_match() -> bool:
            matches.extend(line for line in self.lines[start:] if part in line)
            return bool(matches) or self._is_closed

        with self._changed:
            self._changed.wait_for(has_match, SECONDS)
        assert matches, f"no line with {part!r} in:\n" + "\n".join(self.lines)
        return matches[0]

    def all(self) -> list[str]:
        """Return all lines of a process that has exited."""
        self._thread.join(SECONDS)
        assert self._is_closed, "another process still has the stream open"
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
        """Whether the port for reviews accepts connections."""
        try:
            Connection(self.port, None).close()
        except ConnectionRefusedError:
            return False
        return True

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = REVIEWS) -> Reply:
        """Post a review on a new connection."""
        with self.connect() as connection:
            return connection.post(path, body, headers)

    def get(self, path: str, *, ops: bool = False) -> Reply:
        connection = Connection(self.ops_port or 0, None) if ops else self.connect()
        with connection:
            connection.request("GET", path, headers={})
            return connection.reply()

    def logs(self, start: int = 0) -> list[dict[str, Any]]:
        """Return the log records from one on; each must be a line of JSON."""
        return [json.loads(line) for line in self.errors.lines[start:]]

    @property
    def resident_mb(self) -> float:
        """The resident memory of the process."""
        return self._status_mb("VmRSS")

    @property
    def peak_mb(self) -> float:
        """The peak of the resident memory since the start or the last reset."""
        return self._status_mb("VmHWM")

    def reset_peak(self) -> None:
        """Reset the peak of the resident memory."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def _status_mb(self, name: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024

    @property
    def descriptors(self) -> int:
        """The number of open file descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Wait until the process exits, and return its exit code."""
        return self.process.wait(SECONDS)

    def stop(self) -> int:
        """Send SIGTERM, wait until the process exits, and return its exit code."""
        self.signal()
        return self.wait()


def webhooks(*arguments: object) -> list[str]:
    """Return the command line of a `webhooks` command."""
    return [sys.executable, "-m", "webhooks", *map(str, arguments)]


@contextmanager
def running_process(command: list[str], folder: Path, **environment: str) -> Iterator[Server]:
    """Run a process within the block."""
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
                os.killpg(process.pid, signal.SIGKILL)  # the process leads a group with its descendants
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
    """Run `webhooks serve` within the block, with policies, on free ports and with a development certificate.

    Args:
        folder: the working directory, also for the policies and the certificate.
        options: further options.
        policies: the code of the policies.
        ops: whether it has an ops port.
        within: a command that runs the server, such as a shell.
        environment: further environment variables.
    """
    ops_port = free_port() if ops else 0
    arguments = ("--host", "127.0.0.1", "--port", 0, "--ops-port", ops_port, "--shutdown-delay", 0)
    arguments += ("--decision-log", "off", *options)
    if policies:
        file = folder / "policies.py"
        file.write_text(policies)
        arguments += ("--policies", file)
    if "--tls-cert" not in options:
        arguments += ("--certs-dir", folder / "certs")
    with running_process(
        [*within, *webhooks("serve", *arguments)], folder, TMPDIR=str(folder), **environment
    ) as server:
        ready = server.output.await_line("ready https://127.0.0.1:")
        server.port = int(ready.rpartition(":")[2])
        server.ops_port = ops_port or None
        server.tls = client_context(folder / "certs" / "ca.pem") if "--tls-cert" not in options else None
        yield server


@contextmanager
def under_uvicorn(folder: Path, policies: str = POLICIES) -> Iterator[Server]:
    """Run a user's application under uvicorn within the block: `create_app` with the same policies."""
    application = "\nfrom webhooks import create_app\nfrom webhooks.policy.model import Policy\n"
    application += "app = create_app([value for value in list(globals().values()) if isinstance(value, Policy)])\n"
    (folder / "users.py").write_text(policies + application)
    command = [sys.executable, "-m", "uvicorn", "users:app", "--port", "0", "--no-access-log", "--no-use-colors"]
    with running_process(command, folder) as server:
        running = server.errors.await_line("running on http://127.0.0.1:")
        server.port = int(running.split("127.0.0.1:")[1].split()[0])
        yield server


def client_context(ca: Path, client: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts a CA, optionally with a client certificate and its key."""
    context = ssl.create_default_context(cafile=str(ca))
    if client is not None:
        context.load_cert_chain(*client)
    return context


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def await_true(condition: Callable[[], bool], description: str) -> None:
    """Poll a condition until it is true. Use it only for states of other processes that cannot be awaited."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"timeout: {description}"
        time.sleep(0.01)

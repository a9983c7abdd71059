"""Serving: sockets, TLS and the life of one process that answers."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from webhooks import certificates, loading, logs
from webhooks.app import WebhookApp
from webhooks.errors import ConfigurationError
from webhooks.protocol import ReviewProtocol
from webhooks.settings import Settings

KEEP_ALIVE = 120  # seconds; callers keep idle connections for 90, and the one who closes first must be they
GRACE = 10  # seconds that open reviews have to end
_BACKLOG = 2048


class Listener:
    """What a server needs before it serves: the TLS context and the listening sockets. Making it fails or leaves nothing."""

    def __init__(self, settings: Settings) -> None:
        self.tls = tls_context(settings)
        self.sockets = [bind(settings.host, settings.port, reuse=settings.workers > 1)]
        self.port: int = self.sockets[0].getsockname()[1]
        for _ in range(settings.workers - 1):
            self.sockets.append(bind(settings.host, self.port, reuse=True))
        self.ops = None if settings.ops_port is None else bind(settings.host, settings.ops_port, reuse=False)

    def address(self, host: str) -> str:
        """Where reviews are answered, as one writes it."""
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"


def tls_context(settings: Settings) -> ssl.SSLContext:
    """A TLS context for the settings' certificate; where they name none, a development certificate is made.

    Raises:
        ConfigurationError: a file is missing, or is not what it must be.
    """
    certificate, key = settings.tls_cert, settings.tls_key
    if (certificate is None) != (key is None):
        raise ConfigurationError("a certificate and its key belong together: give both --tls-cert and --tls-key")
    if certificate is None or key is None:
        names = [*certificates.default_names(), *_name_of(settings.host)]
        pair = certificates.ensure(settings.certs_dir, names=names)
        certificate, key = pair.certificate, pair.key
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # a resumed session would outlive the removal of the authority that admitted it
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load(certificate, lambda: context.load_cert_chain(certificate, key), f"with its key {key}, no usable certificate")
    if settings.client_ca is not None:
        client_ca = settings.client_ca
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # 1.2 would resume sessions all the same
        context.verify_mode = ssl.CERT_REQUIRED
        _load(client_ca, lambda: context.load_verify_locations(client_ca), "no certificates of an authority")
    return context


def _name_of(host: str) -> list[str]:
    return [] if host in ("0.0.0.0", "::", "") else [host]  # noqa: S104


def _load(path: Path, load: Callable[[], object], what: str) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise ConfigurationError(f"{path}: {what} ({error.reason or error})") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from None


def bind(host: str, port: int, *, reuse: bool) -> socket.socket:
    """A listening socket.

    Args:
        host: the address.
        port: the port; 0 for any that is free.
        reuse: whether others of ours listen at the same port, each with a queue of its own.

    Raises:
        ConfigurationError: the address is not ours, or somebody else listens there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen at {host} port {port}: {error.strerror or error}") from None
    listener.setblocking(False)
    return listener


class _Server(uvicorn.Server):
    """A server whose signals somebody else handles, and which tells when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _config(app: Starlette, *, reviews: bool, tls: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=ReviewProtocol if reviews else "httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # what a caller says of itself is not believed
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )


async def _serve(app: WebhookApp, listener: Listener, review_socket: socket.socket, ready: Callable[[], None]) -> None:
    servers = [(_Server(_config(app, reviews=True, tls=listener.tls), ready), review_socket)]
    if listener.ops is not None:
        servers.insert(0, (_Server(_config(Starlette(routes=app.operations), reviews=False, tls=None), lambda: None), listener.ops))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: [_stop(server) for server, _ in servers])
    await asyncio.gather(*(server.serve([sock]) for server, sock in servers))


def _stop(server: uvicorn.Server) -> None:
    server.force_exit = server.should_exit  # a second signal does not wait for anybody
    server.should_exit = True


def run(settings: Settings) -> None:
    """Serve until a signal ends it.

    Raises:
        ConfigurationError: before anything answers, for whatever in the settings or the policies is not as it must be.
    """
    logs.configure()
    app = WebhookApp(loading.load(settings.policies))
    listener = Listener(settings)
    answer(app, listener, listener.sockets[0], lambda: print(f"ready {listener.address(settings.host)}", flush=True))  # noqa: T201


def answer(app: WebhookApp, listener: Listener, review_socket: socket.socket, ready: Callable[[], None]) -> None:
    """Answer reviews in this process until a signal ends it."""
    # What is here now stays for good: the collector need not look at it again, nor often at what a large body makes.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(app, listener, review_socket, ready))
        _end_now_if_stuck(app)


def _end_now_if_stuck(app: WebhookApp) -> None:
    """A thread that a policy never gives back would keep the process for ever."""
    if app.runner.stuck:
        os._exit(0)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop

"""Serving: sockets, TLS and the life of one process that answers."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from multiprocessing import parent_process
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhooks import certificates, loading, logs, plugin
from webhooks.app import WebhookApp
from webhooks.errors import ConfigurationError
from webhooks.plugin import Site
from webhooks.protocol import ReviewProtocol
from webhooks.registry import Registry
from webhooks.settings import Settings

KEEP_ALIVE = 120  # seconds; callers keep idle connections for 90, and the one who closes first must be they
GRACE = 10  # seconds that open reviews have to end
_BACKLOG = 2048


class Sockets:
    """Where a server listens. Making it fails, or takes every port it needs.

    Attributes:
        reviews: one for each process that answers, all at one port, each with a queue of its own: callers keep few
            connections, and from one shared queue a single process could take them all.
        ops: for health and metrics; None for none.
        url: where reviews are answered, as one writes it.

    Raises:
        ConfigurationError: an address is not ours, or somebody else listens there.
    """

    def __init__(self, settings: Settings) -> None:
        host, shared = settings.host, settings.workers > 1
        if shared:
            bind(host, settings.port, shared=False).close()  # to share it with strangers would not be refused
        if settings.ops_port is not None and settings.ops_port == settings.port != 0:
            raise ConfigurationError(
                f"--port and --ops-port are both {settings.port}: choose two, or 0 for no ops port"
            )
        self.reviews = [bind(host, settings.port, shared=shared)]
        port: int = self.reviews[0].getsockname()[1]
        self.reviews += [bind(host, port, shared=True) for _ in range(settings.workers - 1)]
        self.ops = None if settings.ops_port is None else bind(host, settings.ops_port, shared=False)
        self.url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def tell_ready(self) -> None:
        """Tell whoever started the server that it answers."""
        print(f"ready {self.url}", flush=True)  # noqa: T201


def tls_context(settings: Settings) -> ssl.SSLContext:
    """A TLS context for the settings' certificate; where they name none, a development certificate is made.

    Raises:
        ConfigurationError: a file is missing, or is not what it must be.
    """
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigurationError("a certificate and its key belong together: give both --tls-cert and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # a resumed session would outlive the removal of the authority that admitted it
    context.options |= ssl.OP_NO_RENEGOTIATION
    if settings.client_ca is not None:
        client_ca = settings.client_ca
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # 1.2 would resume sessions all the same
        context.verify_mode = ssl.CERT_REQUIRED
        _load(client_ca, lambda: context.load_verify_locations(client_ca), "no certificates of an authority")
    certificate, key = settings.tls_cert, settings.tls_key
    if certificate is None or key is None:
        pair = certificates.ensure(settings.certs_dir, names=[*certificates.default_names(), *_name_of(settings.host)])
        certificate, key = pair.certificate, pair.key
    what = f"with its key {key}, no usable certificate"
    _load(certificate, lambda: context.load_cert_chain(certificate, key, password=""), what)
    return context


def _name_of(host: str) -> list[str]:
    return [] if host in ("0.0.0.0", "::", "") else [host]  # noqa: S104


def _load(path: Path, load: Callable[[], object], what: str) -> None:
    try:
        load()
    except ssl.SSLError as error:
        raise ConfigurationError(f"{path}: {what} ({error.reason or error})") from None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {_reason(error)}") from None


def bind(host: str, port: int, *, shared: bool) -> socket.socket:
    """A listening socket.

    Args:
        host: the address.
        port: the port; 0 for any that is free.
        shared: whether others of ours listen at the same port.

    Raises:
        ConfigurationError: the address is not ours, or somebody else listens there.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigurationError(f"cannot listen at {host} port {port}: {_reason(error)}") from None
    listener.setblocking(False)
    return listener


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class Server(uvicorn.Server):
    """A server whose signals somebody else handles, and which tells when it answers.

    Args:
        app: what answers.
        tls: the context of its connections; None for plain HTTP.
        http: the protocol of its connections.
        started: called when it answers.
    """

    def __init__(
        self,
        app: Starlette,
        tls: ssl.SSLContext | None = None,
        http: type[asyncio.Protocol] = HttpToolsProtocol,
        started: Callable[[], None] | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=http,
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
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if self._started is not None:
            self._started()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    def stop(self) -> None:
        """Let open requests end, and then end; called again, end at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


def on_signal(stop: Callable[[], None]) -> None:
    """Have this called when the process is asked to end: by a signal, or by the end of the process that made it."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    parent = parent_process()
    if parent is not None:
        sentinel = parent.sentinel

        def orphaned() -> None:
            loop.remove_reader(sentinel)
            stop()

        loop.add_reader(sentinel, orphaned)


def application(settings: Settings) -> WebhookApp:
    """What answers in one process: the policies that are loaded, and those of plugins.

    Raises:
        ConfigurationError: for whatever in the policies or the plugins' configuration is not as it must be.
    """
    site = Site(settings.workers)
    policies = list(loading.load(settings.policies))
    if settings.admission_config is not None:
        policies += plugin.load(settings.admission_config, site)
    return WebhookApp(Registry(policies), site)


def run(settings: Settings) -> None:
    """Serve with one process until a signal ends it.

    Raises:
        ConfigurationError: before anything answers, for whatever in the settings or the policies is not as it must be.
    """
    logs.configure()
    app = application(settings)
    sockets = Sockets(settings)
    tls = tls_context(settings)
    answer(app, tls, sockets.reviews[0], sockets.ops, sockets.tell_ready)


def answer(
    app: WebhookApp,
    tls: ssl.SSLContext,
    reviews: socket.socket,
    ops: socket.socket | None,
    started: Callable[[], None],
) -> None:
    """Answer in this process until it is asked to end.

    Args:
        app: what answers.
        tls: the context of the connections for reviews.
        reviews: where reviews come in.
        ops: where health and metrics are asked for; None for nowhere.
        started: called when reviews are answered.
    """
    servers = [(Server(app, tls, ReviewProtocol, started), reviews)]
    if ops is not None:
        servers.insert(0, (Server(Starlette(routes=app.operations)), ops))

    def stop() -> None:
        for server, _ in servers:
            server.stop()

    async def serve() -> None:
        on_signal(stop)
        await asyncio.gather(*(server.serve([listener]) for server, listener in servers))
        if not servers[0][0].force_exit:
            await app.site.close()

    # What is here now stays for good: the collector need not look at it again, nor often at what a large body makes.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())
        if app.runner.busy:
            logs.flush()
            os._exit(0)  # a thread that a policy does not give back would keep the process for ever


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop

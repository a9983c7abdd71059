"""Serving: sockets, TLS and the life of one process that answers."""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette

from webhooks.app.asgi import WebhookApp
from webhooks.app.decision_log import DecisionLog
from webhooks.app.lifecycle import Phase
from webhooks.auth.authenticator import Authenticator
from webhooks.cluster.ca_bundle_sync import keeping
from webhooks.errors import ConfigurationError
from webhooks.http.connections import ConnectionTable
from webhooks.http.listener import Listener, raise_fd_limit
from webhooks.http.protocol import CLOSE_HEADER, LimitedHttpProtocol, WriteBatcher
from webhooks.observability import logs
from webhooks.observability.log_writer import LogWriter
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.loader import PluginContext
from webhooks.server.certificate_reload import CertificateReloader, renewing
from webhooks.server.policy_reload import PolicyReloader
from webhooks.server.review_protocol import ReviewContext, ReviewProtocol
from webhooks.settings import Limits, Settings

if TYPE_CHECKING:
    from webhooks.app.tracing import Tracing

logger = logging.getLogger("webhooks.server")

KEEP_ALIVE = 120  # seconds; callers keep idle connections for 90, and the one who closes first must be they
_QUIET = 1.0  # seconds without a request, after which none is expected just when its connection ends
_TICK = 0.05  # seconds between two looks whether all connections have ended
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
        self.reviews = [bind(host, settings.port, shared=shared)]
        port: int = self.reviews[0].getsockname()[1]
        self.reviews += [bind(host, port, shared=True) for _ in range(settings.workers - 1)]
        self.ops = None if settings.ops_port is None else bind(host, settings.ops_port, shared=False)
        self.url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def tell_ready(self) -> None:
        """Tell whoever started the server that it answers."""
        print(f"ready {self.url}", flush=True)  # noqa: T201


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
        connections: those that it has.
        tls: the context of its connections; None for plain HTTP.
        http: the protocol of its connections.
        started: called when it answers.
        grace: seconds that its connections have to end.
    """

    _outbox: WriteBatcher  # made on the loop

    def __init__(
        self,
        app: Starlette,
        connections: ConnectionTable,
        tls: ssl.SSLContext | None = None,
        http: Callable[..., LimitedHttpProtocol] = LimitedHttpProtocol,
        started: Callable[[], None] | None = None,
        grace: float = 0.0,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=LimitedHttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            log_level="warning",
            proxy_headers=False,  # what a caller says of itself is not believed
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        super().__init__(config)
        self._connections = connections
        self._tls = tls
        self._http = http
        self._started = started
        self._grace = grace

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup([])
        self._outbox = WriteBatcher(asyncio.get_running_loop())
        self.servers = [Listener(each, self._tls, self._connections, self._make) for each in sockets or ()]  # type: ignore[misc]
        self._connections.watch()
        if self._started is not None:
            self._started()

    def _make(self, peer: str) -> LimitedHttpProtocol:
        """The protocol of a connection."""
        state = self.server_state
        return self._http(peer, self._connections, self._outbox, config=self.config, server_state=state, app_state={})

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody in any more, end each connection with its next answer, and wait for that.

        To end them at once would meet requests that are on their way; and who is told comes again somewhere else.
        """
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        state, connections = self.server_state, self._connections
        state.default_headers = [*state.default_headers, CLOSE_HEADER]
        for connection in state.connections:
            connection.shutdown()
        connections.close_idle(_QUIET)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                while (len(connections) or state.tasks) and not self.force_exit:  # noqa: ASYNC110
                    await asyncio.sleep(_TICK)
        if len(connections) and self._grace and not self.force_exit:
            logger.error("%d connections had not ended within the grace of %g s", len(connections), self._grace)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone."""
        yield

    def stop(self) -> None:
        """Let open requests end, and then end; called again, end at once. From any thread."""
        self.force_exit = self.should_exit
        self.should_exit = True


def connections(port: str, limits: Limits, meters: MetricRegistry) -> ConnectionTable:
    """Those at a port, as many as the limits and the system allow."""
    limits = replace(limits, max_connections=raise_fd_limit(limits.max_connections))
    return ConnectionTable(port, limits, KEEP_ALIVE, meters)


def application(settings: Settings, meters: MetricRegistry, log: LogWriter) -> tuple[WebhookApp, PolicyReloader]:
    """What answers in one process: the policies that are loaded, which follow their files, and those of plugins.

    Args:
        settings: how to serve.
        meters: where it is counted.
        log: where decisions are written.

    Raises:
        ConfigurationError: for whatever in these, the policies or the plugins' configuration is not as it must be.
    """
    settings.check()
    site = PluginContext(settings.workers, meters)
    reloader = PolicyReloader(settings, site)
    callers = Authenticator.from_settings(settings, meters)
    tracing = _tracing() if settings.tracing else None
    app = WebhookApp(reloader.registry, site, settings.limits, callers, _journal(settings, log), tracing)
    return app, reloader


def _journal(settings: Settings, log: LogWriter) -> DecisionLog | None:
    if settings.decision_log == "off":
        return None
    return DecisionLog(log.put, denials_only=settings.decision_log == "denials")


def _tracing() -> "Tracing":
    try:
        from webhooks.app.tracing import Tracing  # here, since what it needs comes with an extra
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--tracing: there is no module {error.name}: pip install 'cluster-webhooks[tracing]'"
        ) from None
    return Tracing.told()


def run(settings: Settings) -> None:
    """Serve with one process until a signal ends it.

    Raises:
        ConfigurationError: before anything answers, for whatever in the settings or the policies is not as it must be.
    """
    meters = MetricRegistry()
    app, reloader = application(settings, meters, logs.configure(settings.log_level, meters))
    sockets = Sockets(settings)
    with (
        renewing(settings) as files,
        keeping(settings, meters),
        CertificateReloader(files, app.metrics.tally).looking() as follower,
    ):
        begun = partial(app.life.heed_signals, settings.shutdown_delay)
        answer(app, reloader, follower, sockets.reviews[0], sockets.ops, settings.grace, begun, sockets.tell_ready)


def answer(
    app: WebhookApp,
    reloader: PolicyReloader,
    follower: CertificateReloader,
    reviews: socket.socket,
    ops: socket.socket | None,
    grace: float,
    begun: Callable[[], None],
    started: Callable[[], None],
) -> None:
    """Answer in this process until its life ends.

    Args:
        app: what answers.
        reloader: what has its policies follow their files.
        follower: has the context of the connections for reviews.
        reviews: where reviews come in.
        ops: where health and metrics are asked for; None for nowhere.
        grace: seconds that open reviews have at the end.
        begun: called on the loop before all else.
        started: called when reviews are answered.

    Raises:
        ConfigurationError: an isolated policy cannot be.
    """
    callers = connections("reviews", app.limits, app.site.metrics)
    context = ReviewContext(app.endpoints_by_path, app.heads, app.head_cache, app.callers)
    server = Server(app, callers, follower.context, partial(ReviewProtocol, context), started, grace)
    for phase in (Phase.DRAINING, Phase.ENDED):
        app.life.at(phase, server.stop)

    app.site.metrics.gauge("webhooks_workers", "Processes that answer.").set(1)

    async def serve() -> None:
        begun()
        loop = asyncio.get_running_loop()

        def expel(authorities: Sequence[bytes]) -> None:
            from webhooks.certificates.signing import is_signed_by_any  # here, since hardly any server ever needs it

            loop.call_soon_threadsafe(callers.close_untrusted, partial(is_signed_by_any, authorities))

        follower.at_distrust(expel)
        await app.runner.start()
        with app.pulse.beating(), app.callers.watching(), reloader.looking(app), _operations(app, ops):
            await server.serve([reviews])
        if not server.force_exit:
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


@contextlib.contextmanager
def _operations(app: WebhookApp, listener: socket.socket | None) -> Iterator[None]:
    """Answer about health and metrics as long as the block lasts: by a thread, whatever keeps the loop."""
    if listener is None:
        yield
        return
    server = Server(Starlette(routes=app.operations), connections("ops", app.limits, app.site.metrics))
    thread = threading.Thread(target=asyncio.run, args=(server.serve([listener]),), name="ops", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join(_QUIET)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop

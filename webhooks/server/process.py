"""The composition root: takes the settings apart, connects the parts of a server, and runs one process."""

import asyncio
import contextlib
import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from webhooks.app.asgi import WebhookApp
from webhooks.app.decision_log import DecisionLog
from webhooks.app.lifecycle import Lifecycle, Phase
from webhooks.app.ops_routes import OpsRoutes
from webhooks.app.review_metrics import MetricsSnapshot, ReviewMetrics
from webhooks.app.review_routes import ReviewRoutes
from webhooks.auth.authenticator import Authenticator
from webhooks.config import file
from webhooks.config.file import Configuration
from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.executor import PolicyExecutor
from webhooks.engine.watchdog import DEAD_AFTER, LoopWatchdog, PolicyInterrupter
from webhooks.errors import missing_extra
from webhooks.http.header_cache import HeaderCache
from webhooks.http.headers import HeaderReader
from webhooks.observability import logs
from webhooks.observability.log_writer import LogWriter
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.loader import PluginContext, load
from webhooks.reviews.envelope import ID_PREFIX_SIZE
from webhooks.server import tls
from webhooks.server.certificate_reload import CertificateReloader, renew_certificates
from webhooks.server.policy_reload import PolicyReloader
from webhooks.server.review_protocol import ReviewContext, ReviewProtocol
from webhooks.server.sockets import Sockets
from webhooks.server.tls import TlsFiles
from webhooks.server.uvicorn_server import IDLE_AT_SHUTDOWN, UvicornServer, create_table
from webhooks.settings import Settings

if TYPE_CHECKING:
    from webhooks.app.tracing import Tracing


def run(settings: Settings, configuration: Configuration | None = None) -> None:
    """Run a server of one process until a signal stops it.

    Args:
        settings: the settings.
        configuration: the content of `settings.config`; None to read it.

    Raises:
        ConfigurationError: the settings, the policies or a file is invalid. No request was answered.
    """
    metrics, lifecycle = MetricRegistry(), Lifecycle()
    log = logs.configure(settings.log_level, metrics)
    process = ReviewProcess(settings, configuration or read_configuration(settings), lifecycle, metrics, log)
    sockets = Sockets(settings.host, settings.port, settings.ops_port)
    files = tls_files(settings)
    with maintain_certificates(settings, files), sync_ca_bundle(settings, metrics):
        process.run(
            CertificateReloader(files, process.snapshot),
            sockets.reviews[0],
            sockets.ops,
            on_start=partial(lifecycle.handle_signals, settings.shutdown_delay),
            on_ready=partial(print_ready, sockets.url),
        )


def print_ready(url: str) -> None:
    """Print the line that reports that the server answers reviews."""
    print(f"ready {url}", flush=True)  # noqa: T201


def read_configuration(settings: Settings) -> Configuration | None:
    """Read the configuration file, if there is one.

    Raises:
        ConfigurationError: it cannot be read or is invalid.
    """
    return None if settings.config is None else file.read(settings.config)


def tls_files(settings: Settings) -> TlsFiles:
    """Return the certificate files, which need not exist yet."""
    if settings.tls_cert is None or settings.tls_key is None:
        return TlsFiles.development(settings.certs_dir, settings.client_ca)
    return TlsFiles(settings.tls_cert, settings.tls_key, client_ca=settings.client_ca)


def maintain_certificates(settings: Settings, files: TlsFiles) -> contextlib.AbstractContextManager[None]:
    """Issue and renew the certificates of the development CA within the block, if they are used.

    Raises:
        ConfigurationError: they cannot be issued, or the CAs of clients are invalid.
    """
    if files.ca is None:
        return contextlib.nullcontext()
    if files.client_ca is not None:
        tls.check_client_ca(files.client_ca)  # before certificates are written
    return renew_certificates(settings.certs_dir, settings.host)


def sync_ca_bundle(settings: Settings, metrics: MetricRegistry) -> contextlib.AbstractContextManager[None]:
    """Keep the caBundle of webhook configurations in sync within the block, if the settings request it.

    Raises:
        ConfigurationError: the cluster is not accessible, or the CA is missing.
    """
    if settings.sync_ca_bundle is None:
        return contextlib.nullcontext()
    from webhooks.certificates import ca_bundle  # imports cryptography, which takes long
    from webhooks.cluster.ca_bundle_sync import sync_periodically  # requires an extra

    path = ca_bundle.path_for(settings.certs_dir, settings.tls_cert)
    return sync_periodically(settings.sync_ca_bundle, path, settings.kubeconfig, settings.context, metrics)


class ReviewProcess:
    """A process that answers reviews.

    Args:
        settings: the settings.
        configuration: the content of the configuration file; None for none.
        lifecycle: the phases of the process.
        metrics: the registry for the metrics.
        log: the log writer.

    Attributes:
        snapshot: the metrics of the process.

    Raises:
        ConfigurationError: the settings, a policy or the configuration of a plugin is invalid.
    """

    def __init__(
        self,
        settings: Settings,
        configuration: Configuration | None,
        lifecycle: Lifecycle,
        metrics: MetricRegistry,
        log: LogWriter,
    ) -> None:
        settings.check()
        self._lifecycle, self._metrics, self._limits, self._grace = lifecycle, metrics, settings.limits, settings.grace
        self._context = context = PluginContext(settings.workers, metrics)
        plugins = settings.admission_config
        load_plugins = partial(load, plugins, context) if plugins is not None else list
        self._reloader = PolicyReloader(settings.policies, configuration, load_plugins, metrics)
        self._authenticator = Authenticator.from_settings(settings, metrics)
        self._watchdog = LoopWatchdog(PolicyInterrupter(metrics).interrupt)
        self._headers = HeaderReader(settings.limits.max_body, ID_PREFIX_SIZE)
        review_metrics = ReviewMetrics(metrics)
        self.snapshot: MetricsSnapshot = review_metrics.snapshot
        decision_log, tracing = _create_decision_log(settings, log), _create_tracing() if settings.tracing else None
        create_executor: Callable[..., PolicyExecutor] = PolicyExecutor
        if tracing is not None:
            context.on_shutdown(tracing.close)
            decision_log = tracing.trace_decisions(decision_log)
            create_executor = tracing.create_executor
        registry = self._reloader.registry
        self._executor = create_executor(registry, review_metrics.on_mode_change, metrics)
        context.on_shutdown(self._executor.close)
        limiter = ConcurrencyLimiter(settings.limits, metrics)
        self._routes = ReviewRoutes(registry, self._executor, limiter, review_metrics, decision_log, tracing)
        self._ops = OpsRoutes(
            {"loop": lambda: self.seconds_since_tick < DEAD_AFTER},
            {"policies": lambda: self._routes.has_policies, "shutdown": lambda: lifecycle.phase is Phase.SERVING},
            lambda: self.snapshot,
        )

    @property
    def seconds_since_tick(self) -> float:
        """The seconds since the event loop was last seen running. For any thread."""
        return self._watchdog.seconds_since_tick

    async def close(self) -> None:
        """Release all resources, without having answered a review."""
        await self._context.close()

    def run(
        self,
        certificates: CertificateReloader,
        reviews: socket.socket,
        ops: socket.socket | None,
        *,
        on_start: Callable[[], None],
        on_ready: Callable[[], None],
    ) -> None:
        """Answer reviews until the server is stopped.

        Args:
            certificates: reloads the TLS context for reviews.
            reviews: the listening socket for reviews.
            ops: the listening socket for health and metrics; None for none.
            on_start: called first, on the event loop.
            on_ready: called when reviews are answered.

        Raises:
            ConfigurationError: an isolated policy cannot be loaded in its process.
        """
        server = self._create_server(certificates, on_ready)

        async def serve() -> None:
            on_start()
            await self._executor.start()
            with (
                self._watchdog.running(),
                self._authenticator.watching(),
                self._reloader.watching(self._routes.replace_policies),
                certificates.watching(),
                self._serving_ops(ops),
            ):
                await server.serve([reviews])
            if not server.force_exit:
                await self._context.close()

        _tune_garbage_collector()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(serve())
            if self._executor.is_busy:
                logs.flush()
                os._exit(0)  # a thread that a policy blocks would keep the process alive

    def _create_server(self, certificates: CertificateReloader, on_ready: Callable[[], None]) -> UvicornServer:
        app = WebhookApp(self._routes, self._ops, self._authenticator, self._headers)
        context = ReviewContext(self._routes.by_raw_path, self._headers, HeaderCache(), self._authenticator)
        server = UvicornServer(
            app,
            create_table("reviews", self._limits, self._metrics),
            certificates.context,
            protocol=partial(ReviewProtocol, context),
            on_ready=on_ready,
            grace=self._grace,
        )
        for phase in (Phase.DRAINING, Phase.STOPPED):
            self._lifecycle.on(phase, server.stop)
        certificates.on_ca_removed(partial(_close_untrusted, server))
        self._metrics.gauge("webhooks_workers", "Processes that answer reviews.").set(1)
        return server

    @contextlib.contextmanager
    def _serving_ops(self, listener: socket.socket | None) -> Iterator[None]:
        """Serve health and metrics within the block: in a thread, so that a blocked event loop is reported."""
        if listener is None:
            yield
            return
        server = UvicornServer(self._ops, create_table("ops", self._limits, self._metrics))
        thread = threading.Thread(target=asyncio.run, args=(server.serve([listener]),), name="ops", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.stop()
            thread.join(IDLE_AT_SHUTDOWN)


def _create_decision_log(settings: Settings, log: LogWriter) -> DecisionLog | None:
    if settings.decision_log == "off":
        return None
    return DecisionLog(log.write, denials_only=settings.decision_log == "denials")


def _create_tracing() -> "Tracing":
    try:
        from webhooks.app.tracing import Tracing  # requires an extra
    except ModuleNotFoundError as error:
        raise missing_extra("--tracing", "tracing", error) from None
    return Tracing.from_environment()


def _close_untrusted(server: UvicornServer, cas: Sequence[bytes]) -> None:
    """Close the connections of clients whose certificate is not signed by any of the remaining CAs."""
    from webhooks.certificates.signing import is_signed_by_any  # imports cryptography, which takes long

    server.close_untrusted(partial(is_signed_by_any, cas))


def _tune_garbage_collector() -> None:
    """Exclude existing objects from garbage collection, and collect rarely: large bodies create many objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop

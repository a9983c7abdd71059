"""Serving: sockets, TLS and the life of one process that answers."""

import asyncio
import contextlib
import gc
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette

from webhooks.app.asgi import WebhookApp
from webhooks.app.decision_log import DecisionLog
from webhooks.app.lifecycle import Phase
from webhooks.auth.authenticator import Authenticator
from webhooks.errors import ConfigurationError
from webhooks.observability import logs
from webhooks.observability.log_writer import LogWriter
from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.loader import PluginContext
from webhooks.server.certificate_reload import CertificateReloader, renewing
from webhooks.server.policy_reload import PolicyReloader
from webhooks.server.review_protocol import ReviewContext, ReviewProtocol
from webhooks.server.sockets import Sockets
from webhooks.server.uvicorn_server import IDLE_AT_SHUTDOWN, UvicornServer, create_table
from webhooks.settings import Settings

if TYPE_CHECKING:
    from webhooks.app.tracing import Tracing

logger = logging.getLogger("webhooks.server")


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
    return DecisionLog(log.write, denials_only=settings.decision_log == "denials")


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
    sockets = Sockets(settings.host, settings.port, settings.ops_port)
    with (
        renewing(settings) as files,
        sync_ca_bundle(settings, meters),
        CertificateReloader(files, app.metrics.tally).looking() as follower,
    ):
        begun = partial(app.life.heed_signals, settings.shutdown_delay)
        answer(
            app,
            reloader,
            follower,
            sockets.reviews[0],
            sockets.ops,
            settings.grace,
            begun,
            partial(print_ready, sockets.url),
        )


def sync_ca_bundle(settings: Settings, metrics: MetricRegistry) -> contextlib.AbstractContextManager[None]:
    """Keep the caBundle of webhook configurations in sync within the block, if the settings request it.

    Raises:
        ConfigurationError: there is no access to a cluster, or there is no CA.
    """
    if settings.sync_ca_bundle is None:
        return contextlib.nullcontext()
    from webhooks.certificates import ca_bundle
    from webhooks.cluster.ca_bundle_sync import sync_periodically

    path = ca_bundle.path_for(settings.certs_dir, settings.tls_cert)
    return sync_periodically(settings.sync_ca_bundle, path, settings.kubeconfig, settings.context, metrics)


def print_ready(url: str) -> None:
    """Print the line that reports that the server answers reviews."""
    print(f"ready {url}", flush=True)  # noqa: T201


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
    callers = create_table("reviews", app.limits, app.site.metrics)
    context = ReviewContext(app.endpoints_by_path, app.heads, app.head_cache, app.callers)
    server = UvicornServer(
        app, callers, follower.context, protocol=partial(ReviewProtocol, context), on_ready=started, grace=grace
    )
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
        with app.pulse.running(), app.callers.watching(), reloader.looking(app), _operations(app, ops):
            await server.serve([reviews])
        if not server.force_exit:
            await app.site.close()

    # What is here now stays for good: the collector need not look at it again, nor often at what a large body makes.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())
        if app.runner.is_busy:
            logs.flush()
            os._exit(0)  # a thread that a policy does not give back would keep the process for ever


@contextlib.contextmanager
def _operations(app: WebhookApp, listener: socket.socket | None) -> Iterator[None]:
    """Answer about health and metrics as long as the block lasts: by a thread, whatever keeps the loop."""
    if listener is None:
        yield
        return
    server = UvicornServer(Starlette(routes=app.operations), create_table("ops", app.limits, app.site.metrics))
    thread = threading.Thread(target=asyncio.run, args=(server.serve([listener]),), name="ops", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join(IDLE_AT_SHUTDOWN)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop

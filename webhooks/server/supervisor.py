"""Runs several worker processes that answer reviews, and replaces those that die or hang."""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import msgspec

from webhooks.app.lifecycle import Lifecycle, Phase
from webhooks.app.ops_routes import OpsRoutes
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.config.file import Configuration
from webhooks.engine.watchdog import DEAD_AFTER
from webhooks.errors import ConfigurationError
from webhooks.observability import logs
from webhooks.observability.metrics import Counter, MetricRegistry
from webhooks.server import process, tls
from webhooks.server.certificate_reload import CertificateReloader
from webhooks.server.process import ReviewProcess
from webhooks.server.sockets import Sockets
from webhooks.server.uvicorn_server import UvicornServer, create_table
from webhooks.settings import Limits, Settings

logger = logging.getLogger("webhooks.server")

_MIN_RESTART_DELAY, _MAX_RESTART_DELAY = 1.0, 30.0  # seconds, for a worker that never became ready
_REPORT_INTERVAL = 1.0  # seconds between two reports of a worker
_CHECK_INTERVAL = 0.5  # seconds between two checks for workers that do not report
_START_TIMEOUT = 60.0  # seconds that a worker has to load its policies

_decode_snapshot = msgspec.msgpack.Decoder(MetricsSnapshot).decode


class Worker:
    """A worker process, which is started again after it has died. The listening socket stays open.

    Args:
        settings: the settings.
        configuration: the content of the configuration file, for the first start; None for none. Later starts read it.
        listener: the listening socket.
        lifecycle: the phases of the server, which the worker follows.

    Attributes:
        ready: whether the worker answers reviews.
        hung: whether it was killed because it did not report.
    """

    def __init__(
        self, settings: Settings, configuration: Configuration | None, listener: socket.socket, lifecycle: Lifecycle
    ) -> None:
        self._settings = settings
        self._configuration = configuration
        self._listener = listener
        self._lifecycle = lifecycle
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._previous = MetricsSnapshot()  # of processes that have died
        self._current = MetricsSnapshot()
        self._silence = 0.0  # seconds without a report
        self.ready = self.hung = False
        for phase in (Phase.TERMINATING, Phase.DRAINING, Phase.STOPPED):
            lifecycle.on(phase, self._send_phase)

    async def start(self) -> None:
        """Start the process, and wait until it is ready or dead."""
        context = get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        arguments = (self._settings, self._configuration, self._listener, child_pipe)
        self._process = context.Process(target=_run_worker, args=arguments)
        self._configuration = None
        self._silence, self.hung = 0.0, False
        self._process.start()
        child_pipe.close()
        self._send_phase()
        await _wait_readable(self._pipe.fileno())
        self.ready = self._receive()
        if self.ready:
            asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._receive)

    def _receive(self) -> bool:
        """Receive a report. Return whether there was one: the pipe of a dead process is closed."""
        assert self._pipe is not None
        self._silence = 0.0
        try:
            self._current = _decode_snapshot(self._pipe.recv_bytes())
        except (EOFError, OSError):  # closed, or closed within a message
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            return False
        return True

    def check_alive(self, seconds: float) -> None:
        """Kill the process if it has not reported for too long: its event loop is blocked.

        Args:
            seconds: the time since the last check.
        """
        self._silence += seconds
        timeout = DEAD_AFTER if self.ready else _START_TIMEOUT
        if self._silence > timeout and self._process is not None and self._process.is_alive():
            logger.error("a worker has not reported for %g s and is killed", timeout)
            self._silence, self.hung = 0.0, True
            self._process.kill()

    @property
    def snapshot(self) -> MetricsSnapshot:
        """The metrics of the process and its predecessors."""
        total = MetricsSnapshot()
        total.add(self._previous)
        total.add(self._current)
        return total

    async def wait(self) -> int:
        """Wait until the process is dead, and return its exit code."""
        assert self._process is not None
        assert self._pipe is not None
        await _wait_readable(self._process.sentinel)
        self._process.join()
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        while self._pipe.poll() and self._receive():
            pass
        self._pipe.close()
        self._previous.add(self._current.without_state())
        self._current = MetricsSnapshot()
        self.ready = False
        return self._process.exitcode or 0

    def _send_phase(self) -> None:
        """Send the phase of the server to the process; kill the process in the last phase."""
        phase = self._lifecycle.phase
        if self._process is None or self._pipe is None or self._pipe.closed or phase is Phase.SERVING:
            return
        if phase is Phase.STOPPED:
            self._process.kill()
        else:
            with suppress(OSError):  # the process is dead
                self._pipe.send_bytes(bytes([phase]))


async def _wait_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


# The worker process


def _run_worker(
    settings: Settings, configuration: Configuration | None, listener: socket.socket, pipe: Connection
) -> None:
    metrics, lifecycle = MetricRegistry(), Lifecycle()
    log = logs.configure(settings.log_level, metrics)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # a signal may be sent to the process group; the parent sends phases
    stopped = threading.Event()
    try:
        configuration = configuration or process.read_configuration(settings)
        worker = ReviewProcess(settings, configuration, lifecycle, metrics, log)
        reporter = threading.Thread(target=_report_metrics, args=(worker, pipe, stopped), daemon=True)
        worker.run(
            CertificateReloader(process.tls_files(settings), worker.snapshot),
            listener,
            None,
            on_start=partial(_follow_parent, pipe, lifecycle),
            on_ready=reporter.start,
        )
    except ConfigurationError as error:
        logger.error("a worker cannot start: %s", error)
        sys.exit(2)
    stopped.set()
    reporter.join()


def _follow_parent(pipe: Connection, lifecycle: Lifecycle) -> None:
    """Advance to the phases that the parent sends. If the parent is dead, close all connections and stop."""
    loop = asyncio.get_running_loop()

    def receive() -> None:
        try:
            lifecycle.advance(Phase(pipe.recv_bytes()[0]))
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            lifecycle.advance(Phase.DRAINING)

    loop.add_reader(pipe.fileno(), receive)


def _report_metrics(worker: ReviewProcess, pipe: Connection, stopped: threading.Event) -> None:
    """Send the metrics to the parent, at once and then periodically. Runs in a thread, so that no review waits for it.

    A process whose event loop is blocked sends nothing.
    """
    while True:
        is_last = stopped.is_set()
        try:
            if is_last or worker.seconds_since_tick < _REPORT_INTERVAL:
                pipe.send_bytes(msgspec.msgpack.encode(worker.snapshot))
        except OSError:
            return
        except RuntimeError:
            continue  # a label was added while the metrics were encoded
        if is_last:
            return
        stopped.wait(_REPORT_INTERVAL)


# The parent process


def run(settings: Settings, configuration: Configuration | None = None) -> None:
    """Run a server of several processes until a signal stops it.

    Args:
        settings: the settings.
        configuration: the content of `settings.config`; None to read it.

    Raises:
        ConfigurationError: the settings, the policies or a file is invalid. No request was answered.
    """
    metrics = MetricRegistry()
    log = logs.configure(settings.log_level, metrics)
    configuration = configuration or process.read_configuration(settings)
    # Only to check that workers can start:
    asyncio.run(ReviewProcess(settings, configuration, Lifecycle(), MetricRegistry(), log).close())
    sockets = Sockets(settings.host, settings.port, settings.ops_port, settings.workers)
    files = process.tls_files(settings)
    with process.maintain_certificates(settings, files), process.sync_ca_bundle(settings, metrics):
        tls.load(files)  # only to check that workers can load them
        lifecycle = Lifecycle()
        workers = [Worker(settings, configuration, listener, lifecycle) for listener in sockets.reviews]
        ops = _create_ops_server(workers, lifecycle, metrics, settings.limits)
        asyncio.run(_supervise(workers, sockets, ops, lifecycle, metrics, settings.shutdown_delay))


async def _supervise(
    workers: Sequence[Worker],
    sockets: Sockets,
    ops: UvicornServer,
    lifecycle: Lifecycle,
    metrics: MetricRegistry,
    shutdown_delay: float,
) -> None:
    for listener in sockets.reviews:  # each worker has its own; nothing would accept the connections in these queues
        lifecycle.on(Phase.DRAINING, listener.close)
    lifecycle.handle_signals(shutdown_delay)
    checking = asyncio.create_task(_check_workers(workers))
    await asyncio.gather(*(worker.start() for worker in workers))
    if lifecycle.phase < Phase.DRAINING and not all(worker.ready for worker in workers):
        lifecycle.advance(Phase.STOPPED)
        raise ConfigurationError("a worker did not start: the log has the reason")
    serving_ops = asyncio.create_task(ops.serve([sockets.ops])) if sockets.ops is not None else None
    if lifecycle.phase is Phase.SERVING:
        process.print_ready(sockets.url)
    restarts = metrics.counter("webhooks_worker_restarts_total", "Workers that were replaced, by reason.", ("reason",))
    for reason in ("died", "hung"):
        restarts.add(reason, amount=0)
    await asyncio.gather(*(_restart_loop(worker, lifecycle, restarts) for worker in workers))
    checking.cancel()
    if serving_ops is not None:
        ops.stop()
        await serving_ops


async def _check_workers(workers: Sequence[Worker]) -> None:
    while True:
        await asyncio.sleep(_CHECK_INTERVAL)
        for worker in workers:
            worker.check_alive(_CHECK_INTERVAL)  # counted: time while this process is stopped must not count


async def _restart_loop(worker: Worker, lifecycle: Lifecycle, restarts: Counter) -> None:
    draining = asyncio.Event()
    lifecycle.on(Phase.DRAINING, draining.set)
    delay = 0.0
    while True:
        delay = 0.0 if worker.ready else min(2 * delay or _MIN_RESTART_DELAY, _MAX_RESTART_DELAY)
        code = await worker.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await draining.wait()
        if lifecycle.phase >= Phase.DRAINING:
            return
        logger.error("a worker died with exit code %d and is replaced", code)
        restarts.add("hung" if worker.hung else "died")
        await worker.start()


def _create_ops_server(
    workers: Sequence[Worker], lifecycle: Lifecycle, metrics: MetricRegistry, limits: Limits
) -> UvicornServer:
    def snapshot() -> MetricsSnapshot:
        total = MetricsSnapshot()
        total.add(MetricsSnapshot(registered=metrics.by_name))
        for worker in workers:
            total.add(worker.snapshot)
        return total

    readiness = {
        "workers": lambda: all(worker.ready for worker in workers),
        "shutdown": lambda: lifecycle.phase is Phase.SERVING,
    }
    return UvicornServer(OpsRoutes({}, readiness, snapshot), create_table("ops", limits, metrics))

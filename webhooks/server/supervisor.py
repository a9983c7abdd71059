"""Several processes that answer: each with a queue of its own at the shared port, replaced when it dies."""

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
from starlette.applications import Starlette

from webhooks.app import ops_routes
from webhooks.app.asgi import WebhookApp
from webhooks.app.lifecycle import Lifecycle, Phase
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.engine.watchdog import DEAD_AFTER
from webhooks.errors import ConfigurationError
from webhooks.observability import logs
from webhooks.observability.metrics import Counter, MetricRegistry
from webhooks.server import process, tls
from webhooks.server.certificate_reload import CertificateReloader, renewing
from webhooks.server.sockets import Sockets
from webhooks.server.uvicorn_server import UvicornServer, create_table
from webhooks.settings import Limits, Settings

logger = logging.getLogger("webhooks.server")

_PAUSE, _MAX_PAUSE = 1.0, 30.0  # seconds before a worker that never answered is replaced, and again and again
_INTERVAL = 1.0  # seconds between the times that a worker tells what it has counted
_LOOK = 0.5  # seconds between the times that the parent looks who has told nothing
_START_TIME = 60.0  # seconds that a worker has to load its policies

_tally = msgspec.msgpack.Decoder(MetricsSnapshot)


class Worker:
    """One process, and the socket it answers at, which outlives it.

    Args:
        settings: what it is told.
        listener: the socket.
        life: of the server, as which it goes on.

    Attributes:
        ready: whether it answers.
        hung: whether it had to be killed, since its loop did not turn.
    """

    def __init__(self, settings: Settings, listener: socket.socket, life: Lifecycle) -> None:
        self._arguments = (settings, listener)
        self._life = life
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._before = MetricsSnapshot()
        self._now = MetricsSnapshot()
        self._silence = 0.0
        self.ready = self.hung = False
        for phase in (Phase.LEAVING, Phase.DRAINING, Phase.ENDED):
            life.at(phase, self._tell_phase)

    async def start(self) -> None:
        """Start the process, and wait until it answers or is dead."""
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(*self._arguments, theirs))
        self._silence, self.hung = 0.0, False
        self._process.start()
        theirs.close()
        self._tell_phase()
        await _readable(self._pipe.fileno())
        self.ready = self._listen()
        if self.ready:
            asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._listen)

    def _listen(self) -> bool:
        """Take what the process tells: what it has counted so far; nothing any more once it is dead."""
        assert self._pipe is not None
        self._silence = 0.0
        try:
            self._now = _tally.decode(self._pipe.recv_bytes())
        except (EOFError, OSError):  # the end, or one in the middle of a message
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            return False
        return True

    def look(self, seconds: float) -> None:
        """Kill the process if it has told nothing for too long: its loop does not turn.

        Args:
            seconds: since the last look.
        """
        self._silence += seconds
        patience = DEAD_AFTER if self.ready else _START_TIME
        if self._silence > patience and self._process is not None and self._process.is_alive():
            logger.error("a worker has told nothing for %g s: it is killed", patience)
            self._silence, self.hung = 0.0, True
            self._process.kill()

    @property
    def tally(self) -> MetricsSnapshot:
        """What it and those before it in its place have counted."""
        total = MetricsSnapshot()
        total.add(self._before)
        total.add(self._now)
        return total

    async def ended(self) -> int:
        """Wait until the process is dead; what it left as its exit code."""
        assert self._process is not None
        assert self._pipe is not None
        await _readable(self._process.sentinel)
        self._process.join()
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        while self._pipe.poll() and self._listen():
            pass
        self._pipe.close()
        self._before.add(self._now.settled())
        self._now = MetricsSnapshot()
        self.ready = False
        return self._process.exitcode or 0

    def _tell_phase(self) -> None:
        """Tell the process how far the life of the server is; where that is over, so is its own."""
        phase = self._life.phase
        if self._process is None or self._pipe is None or self._pipe.closed or phase is Phase.SERVING:
            return
        if phase is Phase.ENDED:
            self._process.kill()
        else:
            with suppress(OSError):  # it is dead already
                self._pipe.send_bytes(bytes([phase]))


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def _work(settings: Settings, listener: socket.socket, pipe: Connection) -> None:
    meters = MetricRegistry()
    log = logs.configure(settings.log_level, meters)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # a whole group may get them; the parent tells its workers itself
    ended = threading.Event()
    try:
        app, reloader = process.application(settings, meters, log)
        teller = threading.Thread(target=_tell, args=(app, pipe, ended), daemon=True)
        with CertificateReloader(tls.Files.told(settings), app.metrics.tally).looking() as follower:
            begun = partial(_obey, pipe, app.life)
            process.answer(app, reloader, follower, listener, None, settings.grace, begun, teller.start)
    except ConfigurationError as error:
        logger.error("a worker could not start: %s", error)
        sys.exit(2)
    ended.set()
    teller.join()


def _obey(pipe: Connection, life: Lifecycle) -> None:
    """Have the life of this process go on as the parent tells, and end with the parent's."""
    loop = asyncio.get_running_loop()

    def hear() -> None:
        try:
            life.advance(Phase(pipe.recv_bytes()[0]))
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            life.advance(Phase.DRAINING)

    loop.add_reader(pipe.fileno(), hear)


def _tell(app: WebhookApp, pipe: Connection, ended: threading.Event) -> None:
    """Tell the parent that this process answers, then over and over what it counted: by a thread, to delay none.

    A process whose loop does not turn tells nothing.
    """
    while True:
        last = ended.is_set()
        try:
            if last or app.pulse.seconds_since_tick < _INTERVAL:
                pipe.send_bytes(msgspec.msgpack.encode(app.metrics.tally))
        except OSError:
            return
        except RuntimeError:
            continue  # a label came in between; it is not lost, but told the next time
        if last:
            return
        ended.wait(_INTERVAL)


def run(settings: Settings) -> None:
    """Serve with several processes until a signal ends it.

    Raises:
        ConfigurationError: before anything answers, for whatever in the settings or the policies is not as it must be.
    """
    meters = MetricRegistry()
    log = logs.configure(settings.log_level, meters)
    app, _ = process.application(
        settings, MetricRegistry(), log
    )  # this one only shows that each worker can make its own
    asyncio.run(app.site.close())
    sockets = Sockets(settings.host, settings.port, settings.ops_port, settings.workers)
    with renewing(settings) as files, process.sync_ca_bundle(settings, meters):
        tls.fresh(files)  # likewise
        asyncio.run(_supervise(settings, sockets, meters))


async def _supervise(settings: Settings, sockets: Sockets, meters: MetricRegistry) -> None:
    life = Lifecycle()
    workers = [Worker(settings, listener, life) for listener in sockets.reviews]
    for listener in sockets.reviews:  # each worker has its own; with these open, callers would queue up behind nobody
        life.at(Phase.DRAINING, listener.close)
    life.heed_signals(settings.shutdown_delay)
    looking = asyncio.create_task(_look(workers))
    await asyncio.gather(*(worker.start() for worker in workers))
    if life.phase < Phase.DRAINING and not all(worker.ready for worker in workers):
        life.advance(Phase.ENDED)
        raise ConfigurationError("a worker did not start; its log says why")
    ops = _ops_server(workers, life, meters, settings.limits)
    serving_ops = asyncio.create_task(ops.serve([sockets.ops])) if sockets.ops is not None else None
    if life.phase is Phase.SERVING:
        process.print_ready(sockets.url)
    restarts = meters.counter("webhooks_worker_restarts_total", "Workers that were replaced, by why.", ("reason",))
    for reason in ("died", "hung"):
        restarts.add(reason, amount=0)
    await asyncio.gather(*(_keep(worker, life, restarts) for worker in workers))
    looking.cancel()
    if serving_ops is not None:
        ops.stop()
        await serving_ops


async def _look(workers: Sequence[Worker]) -> None:
    while True:
        await asyncio.sleep(_LOOK)
        for worker in workers:
            worker.look(_LOOK)  # by no clock, since time in which this process was stopped itself does not count


async def _keep(worker: Worker, life: Lifecycle, restarts: Counter) -> None:
    draining = asyncio.Event()
    life.at(Phase.DRAINING, draining.set)
    pause = 0.0
    while True:
        pause = 0.0 if worker.ready else min(2 * pause or _PAUSE, _MAX_PAUSE)
        code = await worker.ended()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await draining.wait()
        if life.phase >= Phase.DRAINING:
            return
        logger.error("a worker died with exit code %d and is replaced", code)
        restarts.add("hung" if worker.hung else "died")
        await worker.start()


def _ops_server(workers: Sequence[Worker], life: Lifecycle, meters: MetricRegistry, limits: Limits) -> UvicornServer:
    def tally() -> MetricsSnapshot:
        total = MetricsSnapshot()
        total.add(MetricsSnapshot(meters=meters.by_name))
        for worker in workers:
            total.add(worker.tally)
        return total

    checks = {
        "workers": lambda: all(worker.ready for worker in workers),
        "shutdown": lambda: life.phase is Phase.SERVING,
    }
    connections = create_table("ops", limits, meters)
    return UvicornServer(Starlette(routes=ops_routes.routes({}, checks, tally)), connections)

"""Several processes that answer: each with a queue of its own at the shared port, replaced when it dies."""

import asyncio
import logging
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import msgspec
from starlette.applications import Starlette

from webhooks import logs, serving
from webhooks.app import operations
from webhooks.errors import ConfigurationError
from webhooks.metrics import Metrics, Tally
from webhooks.settings import Settings

logger = logging.getLogger("webhooks.workers")

_PAUSE = 1.0  # seconds before a worker that never answered is replaced
_INTERVAL = 1.0  # seconds between the times that a worker tells what it has counted

_tally = msgspec.msgpack.Decoder(Tally)


class Worker:
    """One process, and the socket it answers at, which outlives it.

    Attributes:
        ready: whether it answers.
    """

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._arguments = (settings, listener)
        self._process: SpawnProcess | None = None
        self._told: Connection | None = None
        self._before = Tally()
        self._now = Tally()
        self.ready = False

    async def start(self) -> None:
        """Start the process, and wait until it answers or is dead."""
        context = get_context("spawn")
        self._told, tell = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(*self._arguments, tell))
        self._process.start()
        tell.close()
        await _readable(self._told.fileno())
        self.ready = self._listen()
        if self.ready:
            asyncio.get_running_loop().add_reader(self._told.fileno(), self._listen)

    def _listen(self) -> bool:
        """Take what the process tells: what it has counted so far; nothing any more once it is dead."""
        assert self._told is not None
        try:
            self._now = _tally.decode(self._told.recv_bytes())
        except (EOFError, OSError):  # the end, or one in the middle of a message
            asyncio.get_running_loop().remove_reader(self._told.fileno())
            return False
        return True

    @property
    def tally(self) -> Tally:
        """What it and those before it in its place have counted."""
        total = Tally()
        total.add(self._before)
        total.add(self._now)
        return total

    async def ended(self) -> int:
        """Wait until the process is dead; what it left as its exit code."""
        assert self._process is not None
        assert self._told is not None
        await _readable(self._process.sentinel)
        self._process.join()
        asyncio.get_running_loop().remove_reader(self._told.fileno())
        while self._told.poll() and self._listen():
            pass
        self._told.close()
        self._before.add(self._now.settled())
        self._now = Tally()
        self.ready = False
        return self._process.exitcode or 0

    def stop(self) -> None:
        """Ask the process to end."""
        if self._process is not None and self._process.is_alive():
            self._process.terminate()


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def _work(settings: Settings, listener: socket.socket, tell: Connection) -> None:
    logs.configure()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the parent ends its workers itself
    try:
        app = serving.application(settings)
        tls = serving.tls_context(settings)
    except ConfigurationError as error:
        logger.error("a worker could not start: %s", error)
        sys.exit(2)
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(app.metrics, tell, ended), daemon=True)
    serving.answer(app, tls, listener, None, teller.start)
    ended.set()
    teller.join()


def _tell(metrics: Metrics, tell: Connection, ended: threading.Event) -> None:
    """Tell the parent that this process answers, then over and over what it counted: by a thread, to delay none."""
    while True:
        last = ended.is_set()
        try:
            tell.send_bytes(msgspec.msgpack.encode(metrics.tally))
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
    logs.configure()
    app = serving.application(settings)  # each worker makes its own: this one only shows that they can
    asyncio.run(app.site.close())
    sockets = serving.Sockets(settings)
    serving.tls_context(settings)
    asyncio.run(_supervise([Worker(settings, listener) for listener in sockets.reviews], sockets))


async def _supervise(workers: Sequence[Worker], sockets: serving.Sockets) -> None:
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        for listener in sockets.reviews:
            listener.close()  # the workers have their own; with these open, callers would queue up behind nobody
        for worker in workers:
            worker.stop()

    serving.on_signal(stop)
    await asyncio.gather(*(worker.start() for worker in workers))
    if not stopping.is_set() and not all(worker.ready for worker in workers):
        stop()
        raise ConfigurationError("a worker did not start; its log says why")
    ops = _ops_server(workers)
    serving_ops = asyncio.create_task(ops.serve([sockets.ops])) if sockets.ops is not None else None
    if not stopping.is_set():
        sockets.tell_ready()
    await asyncio.gather(*(_keep(worker, stopping) for worker in workers))
    if serving_ops is not None:
        ops.stop()
        await serving_ops


async def _keep(worker: Worker, stopping: asyncio.Event) -> None:
    while True:
        answered = worker.ready
        code = await worker.ended()
        if not (answered or stopping.is_set()):
            await asyncio.sleep(_PAUSE)
        if stopping.is_set():
            return
        logger.error("a worker died with exit code %d and is replaced", code)
        await worker.start()
        if stopping.is_set():
            worker.stop()


def _ops_server(workers: Sequence[Worker]) -> serving.Server:
    def tally() -> Tally:
        total = Tally()
        for worker in workers:
            total.add(worker.tally)
        return total

    checks = {"workers": lambda: all(worker.ready for worker in workers)}
    return serving.Server(Starlette(routes=operations(checks, tally)))

"""Several processes that answer: each with a queue of its own at the shared port, replaced when it dies."""

import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from prometheus_client import generate_latest, multiprocess
from starlette.applications import Starlette

from webhooks import loading, logs, serving
from webhooks.app import WebhookApp, operations
from webhooks.errors import ConfigurationError
from webhooks.metrics import SHARED_DIR, shared_registry
from webhooks.settings import Settings

logger = logging.getLogger("webhooks.workers")

_PAUSE = 1.0  # seconds before the place of a worker that died is taken


class Worker:
    """One process, and the socket it answers at, which outlives it.

    Attributes:
        ready: whether it answers.
    """

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._arguments = (settings, listener)
        self._process: SpawnProcess | None = None
        self.ready = False

    async def start(self) -> None:
        """Start the process, and wait until it answers or is dead."""
        told, tell = get_context("spawn").Pipe(duplex=False)
        with told, tell:
            self._process = get_context("spawn").Process(target=_work, args=(*self._arguments, tell))
            self._process.start()
            tell.close()
            await _readable(told.fileno())
            self.ready = told.poll() and not _at_end(told)

    async def ended(self) -> int:
        """Wait until the process is dead; what it left as its exit code."""
        process = self._process
        assert process is not None
        await _readable(process.sentinel)
        process.join()
        self.ready = False
        multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
        return process.exitcode or 0

    def stop(self) -> None:
        """Ask the process to end."""
        if self._process is not None and self._process.is_alive():
            self._process.terminate()


def _at_end(connection: Connection) -> bool:
    try:
        connection.recv_bytes()
    except EOFError:
        return True
    return False


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
        app = WebhookApp(loading.load(settings.policies))
        tls = serving.tls_context(settings)
    except ConfigurationError as error:
        logger.error("a worker could not start: %s", error)
        sys.exit(2)
    serving.answer(app, tls, listener, None, lambda: tell.send_bytes(b"ready"))


def run(settings: Settings) -> None:
    """Serve with several processes until a signal ends it.

    Raises:
        ConfigurationError: before anything answers, for whatever in the settings or the policies is not as it must be.
    """
    logs.configure()
    loading.load(settings.policies)
    serving.tls_context(settings)
    sockets = serving.Sockets(settings)
    with tempfile.TemporaryDirectory(prefix="webhooks-metrics-") as shared:
        os.environ[SHARED_DIR] = shared
        asyncio.run(_supervise([Worker(settings, listener) for listener in sockets.reviews], sockets))


async def _supervise(workers: Sequence[Worker], sockets: serving.Sockets) -> None:
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        for worker in workers:
            worker.stop()

    serving.on_signal(stop)
    await asyncio.gather(*(worker.start() for worker in workers))
    if not stopping.is_set() and not all(worker.ready for worker in workers):
        stop()
        raise ConfigurationError("a worker did not start; its log says why")
    ops = _ops_server(workers)
    serving_ops = asyncio.create_task(ops.serve([sockets.ops])) if sockets.ops is not None else None
    sockets.tell_ready()
    await asyncio.gather(*(_keep(worker, stopping) for worker in workers))
    if serving_ops is not None:
        ops.stop()
        await serving_ops


async def _keep(worker: Worker, stopping: asyncio.Event) -> None:
    while True:
        code = await worker.ended()
        if stopping.is_set():
            return
        logger.error("a worker died with exit code %d and is replaced", code)
        if not worker.ready:
            await asyncio.sleep(_PAUSE)
        await worker.start()
        if stopping.is_set():
            worker.stop()


def _ops_server(workers: Sequence[Worker]) -> serving.Server:
    checks = {"workers": lambda: all(worker.ready for worker in workers)}
    return serving.Server(Starlette(routes=operations(checks, lambda: generate_latest(shared_registry()))))

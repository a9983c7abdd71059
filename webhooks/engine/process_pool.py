"""Isolated policies: each runs in its own processes, which can be killed; a thread cannot.

Such a process is a new interpreter that loads the policy's file. It has nothing of the server: no keys, no connections,
and only a few environment variables. It runs one review at a time. Both directions carry data only, never pickles: a
compromised process must not be able to run code in the server. Its code is `webhooks.engine.process_worker`.
"""

import asyncio
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Coroutine
from contextlib import suppress
from time import perf_counter
from typing import Any

import msgspec

from webhooks.errors import ConfigurationError, MalformedReview, PolicyFailure
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import OUTCOMES, AnyPolicy
from webhooks.reviews.kinds import CODECS
from webhooks.reviews.outcomes import Outcome

logger = logging.getLogger("webhooks.engine")

TASK = struct.Struct("!Id")  # the header of a task: its bytes, and the seconds that it may take
REPLY = struct.Struct("!I")  # the header of a reply: its bytes

_START_TIMEOUT = 30.0  # seconds to load a policy
_MAX_PROCESSES = 4  # of one policy
_MAX_REPLY = 16 * 1024 * 1024  # bytes
_BACKOFF, _MAX_BACKOFF = 0.1, 5.0  # seconds between starts of processes that never reply
_ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ")


class WorkerSpec(msgspec.Struct, omit_defaults=True):
    """The policy that a process runs: its file, its name, and the parameters that are set in the configuration."""

    file: str
    name: str
    parameters: dict[str, Any] = {}


class Reply(msgspec.Struct, omit_defaults=True):
    """The reply of a process.

    Attributes:
        outcome: the name of the outcome's class; empty for a failure.
        fields: the fields of the outcome.
        failure: the message of a failure.
        code: the HTTP status code, if the failure is a malformed review.
        traceback: the traceback of a failure.
        exits: whether the process exits now, because it has grown too large.
    """

    outcome: str = ""
    fields: dict[str, Any] = {}
    failure: str = ""
    code: int = 0
    traceback: str = ""
    exits: bool = False


class RemoteTraceback(Exception):
    """A traceback from another process, as text."""


_encode = msgspec.json.Encoder().encode
_reply_decoder = msgspec.json.Decoder(Reply)


class _Process:
    """A process of an isolated policy, with the connection to it."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls) -> "_Process":
        """Start a process.

        Raises:
            PolicyFailure: the system cannot start another process.
        """
        server_end, worker_end = socket.socketpair()
        with worker_end:
            try:
                process = _popen(worker_end)
            except OSError as error:
                server_end.close()
                raise PolicyFailure(f"no process could be started: {error}") from None
        return cls(process, *await asyncio.open_unix_connection(sock=server_end))

    @property
    def has_exited(self) -> bool:
        """Whether it has exited by itself."""
        return self._reader.at_eof()

    async def request(self, task: bytes, seconds: float) -> Reply:
        """Send a task and wait for the reply.

        Raises:
            PolicyFailure: the process died, or its reply is invalid.
        """
        try:
            self._writer.writelines([TASK.pack(len(task), seconds), task])
            await self._writer.drain()
            [size] = REPLY.unpack(await self._reader.readexactly(REPLY.size))
            if size > _MAX_REPLY:
                raise PolicyFailure(f"its process replied with more than {_MAX_REPLY} bytes")
            return _reply_decoder.decode(await self._reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            raise PolicyFailure("its process died") from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise PolicyFailure(f"its process sent an invalid reply: {error}") from None

    def kill(self) -> None:
        """Kill the process, and all processes that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()

    async def wait(self) -> int:
        """Wait until a killed process is gone; return its exit code."""
        return await asyncio.to_thread(self._process.wait)


def _popen(stdin: socket.socket) -> "subprocess.Popen[bytes]":
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", "webhooks.engine.process_worker"]
    return subprocess.Popen(command, stdin=stdin.fileno(), env=environment, start_new_session=True)  # noqa: S603


class IsolatedPolicyPool:
    """The processes of one isolated policy: one from the start, more while all of them are busy.

    Args:
        policy: the policy.
        metrics: the registry for the counter of process exits.
    """

    def __init__(self, policy: AnyPolicy, metrics: MetricRegistry) -> None:
        self._policy = policy
        self._exits = metrics.counter(
            "webhooks_isolated_process_exits_total",
            "Processes of isolated policies that were killed past a deadline, died, or were recycled for their size.",
            ("policy", "reason"),
        )
        self._processes: set[_Process] = set()
        self._idle: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        self._start_tasks: set[asyncio.Task[None]] = set()
        self._wait_tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._max_processes = _MAX_PROCESSES
        self._backoff = 0.0

    async def start(self) -> None:
        """Start the first process.

        Raises:
            ConfigurationError: the process cannot load the policy.
        """
        try:
            await self._start_process()
        except PolicyFailure as failure:
            raise ConfigurationError(
                f"{self._policy.origin}: policy {self._policy.name!r} cannot be isolated: {failure}"
            ) from None

    async def run(self, review: Any, deadline: float) -> Outcome:
        """Run the policy on a review.

        Args:
            review: the review.
            deadline: the latest end, on the clock of `time.perf_counter`.

        Raises:
            TimeoutError: it missed the deadline; its process was killed.
            PolicyFailure: it failed, or its process did.
            MalformedReview: a part of the review that it needs cannot be read.
        """
        body = CODECS[self._policy.kind].encode_request(review)
        async with asyncio.timeout(deadline - perf_counter()):
            process = await self._acquire()
            try:
                reply = await process.request(body, max(0.0, deadline - perf_counter()))
            except BaseException as error:
                self._replace(process, "died" if isinstance(error, PolicyFailure) else "killed")
                raise
        self._backoff = 0.0
        if reply.exits:
            self._replace(process, "recycled")
        else:
            self._idle.put_nowait(process)
        return _parse_outcome(self._policy, reply)

    async def close(self) -> None:
        """Kill all processes."""
        self._max_processes = 0
        for task in self._start_tasks:
            task.cancel()
        await asyncio.gather(*self._start_tasks, return_exceptions=True)
        for process in list(self._processes):
            self._kill(process)
        await asyncio.gather(*self._wait_tasks, return_exceptions=True)

    async def _acquire(self) -> _Process:
        if self._idle.empty():
            self._grow()
        while (process := await self._idle.get()).has_exited:
            self._replace(process, "died")
        return process

    def _grow(self) -> None:
        if len(self._processes) + self._starting < self._max_processes:
            self._starting += 1
            _spawn(self._add_process(), self._start_tasks)

    async def _add_process(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._backoff)
                self._backoff = min(max(2 * self._backoff, _BACKOFF), _MAX_BACKOFF)  # reset by the first reply
                try:
                    return await self._start_process()
                except PolicyFailure as failure:
                    logger.error("a process of policy %s did not start: %s", self._policy.name, failure)
        finally:
            self._starting -= 1

    async def _start_process(self) -> None:
        process = await _Process.start()
        self._processes.add(process)
        origin = self._policy.origin
        spec = _encode(WorkerSpec(origin.module_file, origin.name, dict(self._policy.operator_parameters)))
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                reply = await process.request(spec, _START_TIMEOUT)
            if reply.failure:
                raise PolicyFailure(reply.failure)
        except BaseException as error:
            self._kill(process)
            if isinstance(error, TimeoutError):
                raise PolicyFailure(f"its process did not load it within {_START_TIMEOUT:.0f} s") from None
            raise
        self._idle.put_nowait(process)

    def _replace(self, process: _Process, reason: str) -> None:
        self._exits.add(self._policy.name, reason)
        self._kill(process, died_by_itself=reason == "died")
        self._grow()

    def _kill(self, process: _Process, *, died_by_itself: bool = False) -> None:
        self._processes.discard(process)
        process.kill()
        _spawn(self._wait(process, died_by_itself=died_by_itself), self._wait_tasks)

    async def _wait(self, process: _Process, *, died_by_itself: bool) -> None:
        code = await process.wait()
        if died_by_itself:
            logger.warning("a process of policy %s died with exit code %d", self._policy.name, code)


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(tasks.discard)
    tasks.add(task)


def _parse_outcome(policy: AnyPolicy, reply: Reply) -> Outcome:
    if reply.code:
        raise MalformedReview(reply.failure, code=reply.code)
    if reply.failure:
        raise PolicyFailure(reply.failure) from (RemoteTraceback(reply.traceback) if reply.traceback else None)
    for type_ in OUTCOMES[policy.kind]:
        if type_.__name__ == reply.outcome:
            try:
                return msgspec.convert(reply.fields, type_)
            except msgspec.ValidationError as error:
                raise PolicyFailure(f"its process sent an invalid {reply.outcome}: {error}") from None
    raise PolicyFailure(f"its process sent {reply.outcome[:64]!r}; must be an outcome")

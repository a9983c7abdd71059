"""Isolated policies: asked in processes of their own, which can be killed, as no thread can.

Such a process is an interpreter that was started anew and has the policy's file, and nothing of the server's: no key,
no connection, hardly anything of its environment. It is asked about one review at a time. What goes there and comes
back is data, and never makes Python run anything: a process that has gone wrong is not to be believed. What runs in it
is in `webhooks.engine.process_worker`.
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

TASK = struct.Struct("!Id")  # before what is asked: its bytes, and the seconds that it may take
ANSWER = struct.Struct("!I")  # before the answer: its bytes

_START_TIME = 30.0  # seconds to load a policy
_MOST = 4  # processes of one policy
_MAX_ANSWER = 16 * 1024 * 1024  # bytes
_PAUSE, _MAX_PAUSE = 0.1, 5.0  # seconds between processes that end one after the other and answer nothing
_ENVIRONMENT = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ")


class WorkerSpec(msgspec.Struct, omit_defaults=True):
    """What a process is for: the policy of this name, which this file makes, with parameters that are set beside it."""

    file: str
    name: str
    parameters: dict[str, Any] = {}


class Reply(msgspec.Struct, omit_defaults=True):
    """What a process answers.

    Attributes:
        outcome: the name of the outcome; empty for a failure.
        fields: those of the outcome.
        failure: why there is none.
        code: of a review that turned out to be malformed.
        traceback: where it failed.
        last: whether the process ends now, since it has grown too large.
    """

    outcome: str = ""
    fields: dict[str, Any] = {}
    failure: str = ""
    code: int = 0
    traceback: str = ""
    last: bool = False


class RemoteTraceback(Exception):
    """Where something failed in another process, as text."""


_encode = msgspec.json.Encoder().encode
_reply = msgspec.json.Decoder(Reply)


class _Process:
    """A process of an isolated policy, and the way to it."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls) -> "_Process":
        """Start one.

        Raises:
            PolicyFailure: the system has no room for it.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = _popen(theirs)
            except OSError as error:
                ours.close()
                raise PolicyFailure(f"no process could be started: {error}") from None
        return cls(process, *await asyncio.open_unix_connection(sock=ours))

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._reader.at_eof()

    async def ask(self, what: bytes, seconds: float) -> Reply:
        """Ask it.

        Raises:
            PolicyFailure: it died, or what it says cannot be understood.
        """
        try:
            self._writer.writelines([TASK.pack(len(what), seconds), what])
            await self._writer.drain()
            [size] = ANSWER.unpack(await self._reader.readexactly(ANSWER.size))
            if size > _MAX_ANSWER:
                raise PolicyFailure(f"answered with more than {_MAX_ANSWER} bytes")
            return _reply.decode(await self._reader.readexactly(size))
        except (OSError, asyncio.IncompleteReadError):
            raise PolicyFailure("its process died") from None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise PolicyFailure(f"its process answered something else: {error}") from None

    def kill(self) -> None:
        """Kill it, with whatever it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()

    async def buried(self) -> int:
        """Wait until nothing is left of one that was killed; how it ended."""
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
        meters: where their ends are counted.
    """

    def __init__(self, policy: AnyPolicy, meters: MetricRegistry) -> None:
        self._policy = policy
        self._ends = meters.counter(
            "webhooks_isolated_process_exits_total",
            "Processes of isolated policies that were killed past a deadline, died, or were recycled for their size.",
            ("policy", "reason"),
        )
        self._processes: set[_Process] = set()
        self._idle: asyncio.LifoQueue[_Process] = asyncio.LifoQueue()
        self._starts: set[asyncio.Task[None]] = set()
        self._burials: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._most = _MOST
        self._pause = 0.0

    async def start(self) -> None:
        """Start the first process.

        Raises:
            ConfigurationError: the policy cannot be loaded there.
        """
        try:
            await self._start()
        except PolicyFailure as failure:
            raise ConfigurationError(
                f"{self._policy.origin}: policy {self._policy.name!r} cannot be isolated: {failure}"
            ) from None

    async def ask(self, review: Any, deadline: float) -> Outcome:
        """Ask the policy about a review.

        Args:
            review: the review.
            deadline: the latest end, on the clock of `time.perf_counter`.

        Raises:
            TimeoutError: it did not answer in time, and the process is killed.
            PolicyFailure: it failed, or its process did.
            MalformedReview: a part of the review that it needed cannot be read.
        """
        body = CODECS[self._policy.kind].encode_request(review)
        async with asyncio.timeout(deadline - perf_counter()):
            process = await self._take()
            try:
                reply = await process.ask(body, max(0.0, deadline - perf_counter()))
            except BaseException as error:
                self._end(process, "died" if isinstance(error, PolicyFailure) else "killed")
                raise
        self._pause = 0.0
        if reply.last:
            self._end(process, "recycled")
        else:
            self._idle.put_nowait(process)
        return _outcome(self._policy, reply)

    async def close(self) -> None:
        """Kill all of them."""
        self._most = 0
        for start in self._starts:
            start.cancel()
        await asyncio.gather(*self._starts, return_exceptions=True)
        for process in list(self._processes):
            self._bury(process)
        await asyncio.gather(*self._burials, return_exceptions=True)

    async def _take(self) -> _Process:
        if self._idle.empty():
            self._grow()
        while (process := await self._idle.get()).ended:
            self._end(process, "died")
        return process

    def _grow(self) -> None:
        if len(self._processes) + self._starting < self._most:
            self._starting += 1
            _spawn(self._add(), self._starts)

    async def _add(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._pause)
                self._pause = min(max(2 * self._pause, _PAUSE), _MAX_PAUSE)  # until one of them answers
                try:
                    return await self._start()
                except PolicyFailure as failure:
                    logger.error("a process of policy %s did not start: %s", self._policy.name, failure)
        finally:
            self._starting -= 1

    async def _start(self) -> None:
        process = await _Process.start()
        self._processes.add(process)
        origin = self._policy.origin
        charge = _encode(WorkerSpec(origin.module_file, origin.name, dict(self._policy.operator_parameters)))
        try:
            async with asyncio.timeout(_START_TIME):
                reply = await process.ask(charge, _START_TIME)
            if reply.failure:
                raise PolicyFailure(reply.failure)
        except BaseException as error:
            self._bury(process)
            if isinstance(error, TimeoutError):
                raise PolicyFailure(f"it was not loaded within {_START_TIME:.0f} s") from None
            raise
        self._idle.put_nowait(process)

    def _end(self, process: _Process, reason: str) -> None:
        self._ends.add(self._policy.name, reason)
        self._bury(process, told=reason == "died")
        self._grow()

    def _bury(self, process: _Process, *, told: bool = False) -> None:
        self._processes.discard(process)
        process.kill()
        _spawn(self._wait(process, told=told), self._burials)

    async def _wait(self, process: _Process, *, told: bool) -> None:
        code = await process.buried()
        if told:
            logger.warning("a process of policy %s died with exit code %d", self._policy.name, code)


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(tasks.discard)
    tasks.add(task)


def _outcome(policy: AnyPolicy, reply: Reply) -> Outcome:
    if reply.code:
        raise MalformedReview(reply.failure, code=reply.code)
    if reply.failure:
        raise PolicyFailure(reply.failure) from (RemoteTraceback(reply.traceback) if reply.traceback else None)
    for kind in OUTCOMES[policy.kind]:
        if kind.__name__ == reply.outcome:
            try:
                return msgspec.convert(reply.fields, kind)
            except msgspec.ValidationError as error:
                raise PolicyFailure(f"its process answered a misshapen {reply.outcome}: {error}") from None
    raise PolicyFailure(f"its process answered {reply.outcome[:64]!r}, which is no outcome")

"""Processes that end with the test session, and whose logs can be read."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

STOP_SECONDS = 15
POLL_SECONDS = 0.02

# Its standard input ends with the session, even a killed one; then it kills what that session left.
REAPER = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
left = set()
for line in sys.stdin:
    sign, group = line.split()
    (left.add if sign == "+" else left.discard)(int(group))
for group in left:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on; all are held until the last one is found, so they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_for(what: str, probe: Callable[[], T | None], *, seconds: float = 10) -> T:
    """Ask until there is an answer, or fail with a message that says what did not happen."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(POLL_SECONDS)
    return answer


class Process:
    """A process that leads a group of its own and writes all it says into one log file."""

    def __init__(self, name: str, command: list[str], *, log: Path, cwd: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as out:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def size(self) -> int:
        return self.log.stat().st_size

    def text(self, start: int = 0) -> str:
        """What the log holds from this byte on."""
        with self.log.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")

    def wait_until(self, ready: Callable[[], object], *, seconds: float) -> None:
        """Wait until the process is ready; fail at once when it has ended instead."""

        def probe() -> object:
            if (code := self._child.poll()) is not None:
                raise RuntimeError(f"{self.name} ended with code {code}")
            return ready()

        wait_for(f"{self.name} is ready", probe, seconds=seconds)

    def stop(self) -> bool:
        """Ask the leader to end, then kill what is left of its group; whether the leader ended by itself."""
        self._child.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(STOP_SECONDS)
        ended = self._child.poll() is not None
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        return ended


class Processes:
    """Everything that a session has running, oldest first."""

    def __init__(self, folder: Path, reaper: Callable[[str], object]) -> None:
        self.folder = folder
        self._tell_reaper = reaper
        self._running: list[Process] = []

    def __iter__(self) -> Iterator[Process]:
        return iter(self._running)

    def start(self, name: str, *command: object, cwd: Path | None = None, env: Mapping[str, str]) -> Process:
        words = [str(word) for word in command]
        process = Process(name, words, log=self.folder / f"{name}.log", cwd=cwd or self.folder, env=env)
        self._running.append(process)
        self._tell_reaper(f"+ {process.pid}\n")
        return process

    def stop(self, process: Process) -> None:
        """End one of them."""
        process.stop()
        self._running.remove(process)
        self._tell_reaper(f"- {process.pid}\n")

    def stop_all(self) -> None:
        """End them, newest first: nobody then misses what it depends on."""
        stubborn = []
        while self._running:
            process = self._running[-1]
            if not process.stop():
                stubborn.append(process.name)
            self._running.pop()
            self._tell_reaper(f"- {process.pid}\n")
        assert not stubborn, f"killed, not ended within {STOP_SECONDS} s: {', '.join(stubborn)}"


@contextmanager
def running(folder: Path) -> Iterator[Processes]:
    """Whatever is started within the block has ended after it, also when the session itself is killed."""
    reaper = subprocess.Popen(
        [sys.executable, "-c", REAPER], stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
    )
    with reaper:
        assert reaper.stdin is not None
        everything = Processes(folder, reaper.stdin.write)
        try:
            yield everything
        finally:
            everything.stop_all()

"""Processes that are stopped with the test session, and their logs."""

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

# Its standard input closes when the session exits, even if it is killed; then it kills the remaining processes.
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
    """Return different ports of 127.0.0.1 that are not in use."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


def wait_for(description: str, probe: Callable[[], T | None], *, seconds: float = 10) -> T:
    """Call a function until its result is true, and return it; raise TimeoutError after a time."""
    deadline = time.monotonic() + seconds
    while not (result := probe()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds} s: {description}")
        time.sleep(POLL_SECONDS)
    return result


class Process:
    """A process that leads its own process group; a log file has its output."""

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
        """Return the log from a byte on."""
        with self.log.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")

    def wait_until(self, ready: Callable[[], object], *, seconds: float) -> None:
        """Wait until the process is ready; fail immediately if it exits."""

        def probe() -> object:
            if (code := self._child.poll()) is not None:
                raise RuntimeError(f"{self.name} exited with code {code}")
            return ready()

        wait_for(f"{self.name} is ready", probe, seconds=seconds)

    def stop(self) -> bool:
        """Terminate the process, then kill the rest of its group. Return whether it exited in time."""
        self._child.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(STOP_SECONDS)
        has_exited = self._child.poll() is not None
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        return has_exited


class Processes:
    """The processes of a session, oldest first."""

    def __init__(self, folder: Path, reaper: Callable[[str], object]) -> None:
        self.folder = folder
        self._notify_reaper = reaper
        self._running: list[Process] = []

    def __iter__(self) -> Iterator[Process]:
        return iter(self._running)

    def start(self, name: str, *command: object, cwd: Path | None = None, env: Mapping[str, str]) -> Process:
        words = [str(word) for word in command]
        process = Process(name, words, log=self.folder / f"{name}.log", cwd=cwd or self.folder, env=env)
        self._running.append(process)
        self._notify_reaper(f"+ {process.pid}\n")
        return process

    def stop(self, process: Process) -> None:
        """Stop one process."""
        process.stop()
        self._running.remove(process)
        self._notify_reaper(f"- {process.pid}\n")

    def stop_all(self) -> None:
        """Stop all processes, newest first: they depend on older ones."""
        killed = []
        while self._running:
            process = self._running[-1]
            if not process.stop():
                killed.append(process.name)
            self._running.pop()
            self._notify_reaper(f"- {process.pid}\n")
        assert not killed, f"killed, did not exit within {STOP_SECONDS} s: {', '.join(killed)}"


@contextmanager
def running(folder: Path) -> Iterator[Processes]:
    """Run processes within the block. They are stopped after it, even if the session is killed."""
    reaper = subprocess.Popen(
        [sys.executable, "-c", REAPER], stdin=subprocess.PIPE, text=True, bufsize=1, start_new_session=True
    )
    with reaper:
        assert reaper.stdin is not None
        processes = Processes(folder, reaper.stdin.write)
        try:
            yield processes
        finally:
            processes.stop_all()

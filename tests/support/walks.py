"""A page of the documentation, done as a reader does it: files are written, commands are run, their output compared."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .servers import SECONDS, Server, await_true, free_port, started

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>\w[\w./-]*\.(?:py|yaml))\n")
_HEREDOC = re.compile(r"<<'(\w+)'")
_ANYTHING = re.compile(r"(?<!\.)\.{3}(?!\.)")
_PATIENCE = 4 * SECONDS  # for a command, which may run tests itself
_SECONDS = re.compile(r"\b\d+\.\d+s\b")  # what is different each time


@dataclass(frozen=True)
class File:
    """A file that a page shows, with its name in the first line."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a console, and what it is said to print; ``...`` is anything."""

    line: str
    output: str

    def prints(self, printed: str) -> bool:
        """Whether it printed that, but for times."""
        parts = map(re.escape, _ANYTHING.split(_SECONDS.sub("0s", self.output.rstrip("\n"))))
        return re.fullmatch("(?:.|\n)*".join(parts), _SECONDS.sub("0s", printed.rstrip("\n"))) is not None


def steps(page: Path) -> Iterator[File | Command]:
    """What a reader of a page does, in order."""
    for block in _BLOCK.finditer(page.read_text()):
        language, text = block["language"], block["text"]
        if language in ("python", "yaml") and (name := _FILE.match(text)):
            yield File(name["name"], text)
        elif language == "console":
            yield from _commands(text.splitlines())


def files(page: Path) -> Iterator[File]:
    """The files that a page shows."""
    return (step for step in steps(page) if isinstance(step, File))


def _commands(lines: Sequence[str]) -> Iterator[Command]:
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command, output = [lines[start].removeprefix("$ ")], list(lines[start + 1 : end])
        heredoc = _HEREDOC.search(command[0])
        while output and (command[-1].endswith("\\") or (heredoc and command[-1] != heredoc[1])):
            command.append(output.pop(0))
        yield Command("\n".join(command), "\n".join(output))


@dataclass
class Walk:
    """A reader in a folder, on ports that were free. A server that they start serves until they start another."""

    folder: Path
    ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    server: Server | None = None
    _running: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def take(self, step: File | Command) -> None:
        """Do what comes next; fails where it does not go as the page says."""
        if isinstance(step, File):
            file = self.folder / step.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._here(step.text))
            return
        command = Command(self._here(step.line), self._here(step.output))
        if command.line.startswith("webhooks serve "):
            self._serve(command)
        elif command.line.startswith("curl "):
            self._ask(command)
        else:
            assert command.prints(printed := self._run(command)), f"$ {command.line}\n{printed}"

    def _serve(self, command: Command) -> None:
        self._running.close()
        shell = ["bash", "-c", f"exec {command.line}"]
        self.server = self._running.enter_context(started(shell, self.folder, **self._environment))
        self.server.output.await_line(command.output)

    def _ask(self, command: Command) -> None:
        """Ask the server until it answers so: it may be taking over what was written just now."""
        printed = ""

        def answered() -> bool:
            nonlocal printed
            printed = self._run(command)
            return command.prints(printed)

        try:
            await_true(answered, "the answer of the page")
        except AssertionError as error:
            raise AssertionError(f"{error}\n$ {command.line}\n{printed}") from None

    def _run(self, command: Command) -> str:
        done = subprocess.run(
            ["bash", "-c", command.line],
            cwd=self.folder,
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
        )
        return done.stdout

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "WEBHOOKS_SERVE_HOST": "127.0.0.1",
            "WEBHOOKS_SERVE_PORT": str(self.ports[0]),
            "WEBHOOKS_SERVE_OPS_PORT": str(self.ports[1]),
            "WEBHOOKS_SERVE_SHUTDOWN_DELAY": "0",
            "NO_COLOR": "1",
            "COLUMNS": "80",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }

    def _here(self, text: str) -> str:
        """A page's text, with what is different here."""
        for there, here in (("8443", self.ports[0]), ("8080", self.ports[1]), ("0.0.0.0", "127.0.0.1")):
            text = text.replace(there, str(here))
        return text

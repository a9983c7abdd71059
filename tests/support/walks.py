"""Follow a page of the documentation as a reader does: write its files, run its commands, compare their output."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from .servers import SECONDS, Server, await_true, free_port, running_process

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (?P<name>\w[\w./-]*\.(?:py|yaml))\n")
_HEREDOC = re.compile(r"<<'(\w+)'")
_ELLIPSIS = re.compile(r"(?<!\.)\.{3}(?!\.)")
_TIMEOUT = 4 * SECONDS  # for a command, which may run tests itself
_SECONDS = re.compile(r"\b\d+\.\d+s\b")  # differs in each run


@dataclass(frozen=True)
class File:
    """A file on a page. Its name is in the first line, in a comment."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command on a page, with its output. ``...`` in the output stands for any text."""

    line: str
    output: str

    def matches(self, output: str) -> bool:
        """Whether the command printed this output, apart from durations."""
        parts = map(re.escape, _ELLIPSIS.split(_SECONDS.sub("0s", self.output.rstrip("\n"))))
        return re.fullmatch("(?:.|\n)*".join(parts), _SECONDS.sub("0s", output.rstrip("\n"))) is not None


def parse_steps(page: Path) -> Iterator[File | Command]:
    """Yield the files and commands of a page in order."""
    for block in _BLOCK.finditer(page.read_text()):
        language, text = block["language"], block["text"]
        if language in ("python", "yaml") and (name := _FILE.match(text)):
            yield File(name["name"], text)
        elif language == "console":
            yield from _parse_commands(text.splitlines())


def parse_files(page: Path) -> Iterator[File]:
    """Yield the files of a page."""
    return (step for step in parse_steps(page) if isinstance(step, File))


def _parse_commands(lines: Sequence[str]) -> Iterator[Command]:
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        command, output = [lines[start].removeprefix("$ ")], list(lines[start + 1 : end])
        heredoc = _HEREDOC.search(command[0])
        while output and (command[-1].endswith("\\") or (heredoc and command[-1] != heredoc[1])):
            command.append(output.pop(0))
        yield Command("\n".join(command), "\n".join(output))


@dataclass
class Walk:
    """A reader in a folder. Replaces the ports of the page by free ones. A server runs until the next one starts."""

    folder: Path
    ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    server: Server | None = None
    _exit_stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Walk":
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()

    def perform(self, step: File | Command) -> None:
        """Write a file, or run a command and check its output."""
        if isinstance(step, File):
            file = self.folder / step.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._localize(step.text))
            return
        command = Command(self._localize(step.line), self._localize(step.output))
        if command.line.startswith("webhooks serve "):
            self._serve(command)
        elif command.line.startswith("curl "):
            self._request(command)
        else:
            assert command.matches(output := self._run(command)), f"$ {command.line}\n{output}"

    def _serve(self, command: Command) -> None:
        self._exit_stack.close()
        shell = ["bash", "-c", f"exec {command.line}"]
        self.server = self._exit_stack.enter_context(running_process(shell, self.folder, **self._environment))
        self.server.output.await_line(command.output)

    def _request(self, command: Command) -> None:
        """Repeat a request until the response matches: the server may be reloading a file."""
        output = ""

        def matches() -> bool:
            nonlocal output
            output = self._run(command)
            return command.matches(output)

        try:
            await_true(matches, "the response of the page")
        except AssertionError as error:
            raise AssertionError(f"{error}\n$ {command.line}\n{output}") from None

    def _run(self, command: Command) -> str:
        result = subprocess.run(
            ["bash", "-c", command.line],
            cwd=self.folder,
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT,
        )
        return result.stdout

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

    def _localize(self, text: str) -> str:
        """Replace the ports and addresses of a page by those of this walk."""
        for theirs, ours in (("8443", self.ports[0]), ("8080", self.ports[1]), ("0.0.0.0", "127.0.0.1")):
            text = text.replace(theirs, str(ours))
        return text

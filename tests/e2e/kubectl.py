"""kubectl as one user of a cluster."""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .processes import wait_for

Json = dict[str, Any]

COMMAND_SECONDS = 60


@dataclass(frozen=True)
class Output:
    """The exit code and the output of a kubectl command."""

    code: int
    out: str
    err: str

    def json(self) -> Json:
        return json.loads(self.out)


class Kubectl:
    """Runs kubectl as one user. `body` is an object for the standard input."""

    def __init__(self, binary: Path, kubeconfig: Path) -> None:
        home = kubeconfig.parent
        self.kubeconfig = kubeconfig
        self._command = [str(binary), f"--kubeconfig={kubeconfig}", f"--cache-dir={home / 'cache'}"]
        self._env = {"HOME": str(home), "PATH": os.defpath}

    def write_wrapper(self, folder: Path) -> None:
        """Write a program `kubectl` into a folder of the search path, which runs kubectl as this user."""
        file = folder / "kubectl"
        file.write_text(f'#!/bin/sh\nexec {shlex.join(self._command)} "$@"\n')
        file.chmod(0o755)

    def apply(self, *files: Path) -> Output:
        """Apply files."""
        return self("apply", *(f"-f={file}" for file in files))

    def run(self, *words: str, body: Json | None = None) -> Output:
        done = subprocess.run(
            [*self._command, *words],
            input="" if body is None else json.dumps(body),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            env=self._env,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def __call__(self, *words: str, body: Json | None = None) -> Output:
        """Run a command that must succeed."""
        output = self.run(*words, body=body)
        assert output.code == 0, f"kubectl {' '.join(words)}: {output.err}"
        return output

    def error(self, *words: str, body: Json | None = None) -> str:
        """Run a command that must fail, and return its standard error."""
        output = self.run(*words, body=body)
        assert output.code != 0, f"kubectl {' '.join(words)} did not fail: {output.out}{output.err}"
        return output.err

    def retry_until(self, condition: Callable[[Output], bool], *words: str, body: Json | None = None) -> None:
        """Repeat a command until its output meets a condition."""
        output = None

        def probe() -> bool:
            nonlocal output
            output = self.run(*words, body=body)
            return condition(output)

        try:
            wait_for(f"kubectl {' '.join(words)}", probe)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {output}") from None

    def create(self, body: Json, *words: str) -> Output:
        return self("create", "--validate=false", "-f", "-", *words, body=body)

    def create_error(self, body: Json, *words: str) -> str:
        return self.error("create", "--validate=false", "-f", "-", *words, body=body)

    def get(self, *words: str) -> Json:
        return self("get", "-o", "json", *words).json()

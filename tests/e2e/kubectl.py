"""kubectl, run as one user of the cluster."""

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
    """How a kubectl command ended and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> Json:
        return json.loads(self.out)


class Kubectl:
    """The commands of one user. `given` is an object for the standard input."""

    def __init__(self, binary: Path, kubeconfig: Path) -> None:
        home = kubeconfig.parent
        self.kubeconfig = kubeconfig
        self._command = [str(binary), f"--kubeconfig={kubeconfig}", f"--cache-dir={home / 'cache'}"]
        self._env = {"HOME": str(home), "PATH": os.defpath}

    def program(self, folder: Path) -> None:
        """Put a `kubectl` into a folder that is on somebody's path, which is this user."""
        file = folder / "kubectl"
        file.write_text(f'#!/bin/sh\nexec {shlex.join(self._command)} "$@"\n')
        file.chmod(0o755)

    def apply(self, *files: Path) -> Output:
        """Apply files, as they are."""
        return self("apply", *(f"-f={file}" for file in files))

    def run(self, *words: str, given: Json | None = None) -> Output:
        done = subprocess.run(
            [*self._command, *words],
            input="" if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            env=self._env,
            check=False,
        )
        return Output(done.returncode, done.stdout, done.stderr)

    def __call__(self, *words: str, given: Json | None = None) -> Output:
        """Run a command that has to succeed."""
        output = self.run(*words, given=given)
        assert output.code == 0, f"kubectl {' '.join(words)}: {output.err}"
        return output

    def refused(self, *words: str, given: Json | None = None) -> str:
        """Run a command that has to fail; what it said on its standard error."""
        output = self.run(*words, given=given)
        assert output.code != 0, f"kubectl {' '.join(words)} was not refused: {output.out}{output.err}"
        return output.err

    def until(self, wanted: Callable[[Output], bool], *words: str, given: Json | None = None) -> None:
        """Run a command again and again until its output is the wanted one."""
        output = None

        def probe() -> bool:
            nonlocal output
            output = self.run(*words, given=given)
            return wanted(output)

        try:
            wait_for(f"kubectl {' '.join(words)}", probe)
        except TimeoutError as error:
            raise AssertionError(f"{error}: {output}") from None

    def create(self, given: Json, *words: str) -> Output:
        return self("create", "--validate=false", "-f", "-", *words, given=given)

    def create_refused(self, given: Json, *words: str) -> str:
        return self.refused("create", "--validate=false", "-f", "-", *words, given=given)

    def get(self, *words: str) -> Json:
        return self("get", "-o", "json", *words).json()

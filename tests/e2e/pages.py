"""Runs the commands of pages of the documentation, unchanged and in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

from .cluster import ROOT
from .kubectl import COMMAND_SECONDS, Kubectl


class Page:
    """A page, and a folder to run its commands in.

    Args:
        name: the name of the page.
        folder: the working directory of commands, also for a wrapper of ``kubectl``.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._text = (ROOT / "docs" / f"{name}.md").read_text()
        self._folder = folder
        self._programs = folder / "programs"
        self._programs.mkdir(parents=True)

    def blocks(self, language: str) -> list[str]:
        """Return all code blocks in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```", self._text, re.MULTILINE | re.DOTALL)

    def run(self, commands: str, user: Kubectl | None = None) -> str:
        """Run commands as a user of a cluster; fail if one of them fails. Return their output."""
        if user is not None:
            user.write_wrapper(self._programs)
        path = [self._programs, Path(sys.executable).parent, os.environ["PATH"]]
        done = subprocess.run(
            ["sh", "-euxc", commands],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            env={"HOME": str(self._folder), "PATH": os.pathsep.join(map(str, path))},
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

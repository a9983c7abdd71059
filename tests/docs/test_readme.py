"""The quick start of the README works as it is written."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ..generate import terminal
from ..support.servers import SECONDS, serving

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def block(language: str, start: str) -> str:
    """Return the block of code in a language that starts with a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    [found] = [text for text in blocks if text.startswith(start)]
    return found


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on PATH")
def test_the_pod_of_the_quick_start_is_denied(tmp_path: Path) -> None:
    names = re.findall(r"--policies (library:\w+)", block("sh", "python3 -m venv .venv && .venv/bin/pip install -q . "))
    assert len(names) == 4
    options = [part for name in names for part in ("--policies", name)]
    with serving(tmp_path, *options, policies="") as server:
        command = block("sh", "curl").replace(":8443", f":{server.port}").replace("curl ", "curl --silent ", 1)
        done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert json.loads(done.stdout) == json.loads(block("json", ""))


def test_the_picture_is_current() -> None:
    assert terminal.PICTURE.read_text() == terminal.draw()

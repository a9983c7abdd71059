"""Confinement: what a process can do no more; each case in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.servers import SECONDS, await_true

BEGIN = """
import os, signal, subprocess, threading, time
from webhooks.engine import sandbox
sandbox.confine()
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True, timeout=SECONDS)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("os.fork()", "PermissionError"),
        ("os.posix_spawn('/bin/true', ['true'], {})", "PermissionError"),
        ("subprocess.run(['true'])", "PermissionError"),
        ("os.system('true') and 1 / 0", "ZeroDivisionError"),
        ("bytearray(sandbox.MEMORY)", "MemoryError"),
    ],
)
def test_what_is_refused(code: str, error: str) -> None:
    ended = run(code)
    assert ended.returncode == 1
    assert error in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "thread = threading.Thread(target=print, args=('well',)); thread.start(); thread.join()",
        "bytearray(sandbox.MEMORY // 2); print('well')",
        "os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGINT); print('well')",
        "os.execv('/bin/echo', ['echo', 'well'])",
    ],
)
def test_what_is_let_be(code: str) -> None:
    ended = run(code)
    assert (ended.returncode, ended.stdout) == (0, "well\n")


def test_what_it_starts_is_confined_as_well() -> None:
    ended = run("os.execv('/bin/sh', ['sh', '-c', 'true | true || echo refused'])")
    assert "well" not in ended.stdout
    assert ended.returncode != 0


def test_computing_ends_when_it_was_allowed_no_more() -> None:
    ended = run("sandbox.allow_computing(-1.5)\nwhile True: pass")
    assert ended.returncode == -signal.SIGXCPU


def test_computing_for_long_is_allowed_again_and_again() -> None:
    ended = run("""
for _ in range(4):
    sandbox.allow_computing(0)
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
print("well")
""")
    assert ended.stdout == "well\n"


def test_it_dies_with_its_parent() -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys, time\n"
            f"child = [sys.executable, '-c', {BEGIN + 'print(os.getpid(), flush=True); time.sleep(60)'!r}]\n"
            f"subprocess.Popen(child)\ntime.sleep(60)",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait(SECONDS)
        assert parent.stdout.read() == ""  # nobody holds it open any more
    await_true(lambda: not Path(f"/proc/{child}").exists(), "it has ended")

"""The restrictions of a process; each test starts a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ..support.servers import SECONDS, await_true

BEGIN = """
import os, signal, subprocess, threading, time
from webhooks.engine import sandbox
sandbox.apply()
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
def test_forbidden_operations_fail(code: str, error: str) -> None:
    result = run(code)
    assert result.returncode == 1
    assert error in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "thread = threading.Thread(target=print, args=('ok',)); thread.start(); thread.join()",
        "bytearray(sandbox.MEMORY // 2); print('ok')",
        "os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGINT); print('ok')",
        "os.execv('/bin/echo', ['echo', 'ok'])",
    ],
)
def test_other_operations_work(code: str) -> None:
    result = run(code)
    assert (result.returncode, result.stdout) == (0, "ok\n")


def test_the_restrictions_are_inherited() -> None:
    result = run("os.execv('/bin/sh', ['sh', '-c', 'true | true || echo refused'])")
    assert "ok" not in result.stdout
    assert result.returncode != 0


def test_the_cpu_limit_kills_the_process() -> None:
    result = run("sandbox.set_cpu_limit(-1.5)\nwhile True: pass")
    assert result.returncode == -signal.SIGXCPU


def test_the_cpu_limit_can_be_extended() -> None:
    result = run("""
for _ in range(4):
    sandbox.set_cpu_limit(0)
    end = time.process_time() + 0.4
    while time.process_time() < end: pass
print("ok")
""")
    assert result.stdout == "ok\n"


def test_the_process_dies_with_its_parent() -> None:
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
        assert parent.stdout.read() == ""  # no process has it open any more
    await_true(lambda: not Path(f"/proc/{child}").exists(), "it has exited")

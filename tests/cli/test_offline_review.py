"""The work of ``webhooks review``: exit codes, errors, and the output on a terminal."""

import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from webhooks.cli.offline_review import FORMATS, Job, run
from webhooks.errors import ConfigurationError

from ..support.servers import SECONDS

POLICIES = """
from webhooks import AdmissionReview, Decision, Allow, Deny, Mutation, Replace, mutating, validating

@validating("pods")
def owner(review: AdmissionReview) -> Decision:
    return Allow() if "owner" in review.labels else Deny("no \\x1b[31mowner")

@mutating("configmaps")
def team(review: AdmissionReview) -> Mutation:
    review.object["metadata"]["labels"] = {"team": "a"}
    return Replace(review.object)
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
OWNED = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {owner: jane}}\n"
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies.py").write_text(POLICIES)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "owned.yaml").write_text(OWNED)
    (tmp_path / "all.yaml").write_text("---\n".join((POD, CONFIG_MAP, "a: b: c\n", OWNED)))
    return tmp_path


def job(*sources: str) -> Job:
    return Job(
        sources=sources,
        config=None,
        policies=["policies.py"],
        operation=None,
        user="reviewer",
        groups=[],
        old=[],
        output="table",
    )


@pytest.mark.parametrize(
    ("review", "code"),
    [
        (job("owned.yaml"), 0),
        (job("pod.yaml"), 1),
        (job("all.yaml"), 2),
        (replace(job("owned.yaml"), old=["missing.yaml"]), 2),
        (replace(job("pod.yaml"), old=["owned.yaml"], operation="UPDATE"), 1),
    ],
)
def test_exit_codes(review: Job, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(review) == code
    assert bool(capsys.readouterr().err) == (code == 2)


@pytest.mark.parametrize(
    ("review", "message"),
    [
        (replace(job("pod.yaml"), operation="UPDATE"), "--operation UPDATE requires the stored objects: give --old"),
        (
            replace(job("pod.yaml"), operation="CREATE", old=["pod.yaml"]),
            "--operation CREATE and --old contradict each other",
        ),
        (replace(job("pod.yaml"), policies=["missing.py"]), "missing.py: no such file or folder"),
    ],
)
def test_invalid_jobs(review: Job, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        run(review)


def test_problems_and_denials_are_printed_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    run(replace(job("all.yaml"), output="patched"))
    assert capsys.readouterr().err.splitlines() == [
        "webhooks: all.yaml:1: Pod default/web is denied: owner: no \\x1b[31mowner",
        "webhooks: all.yaml:9: not YAML: mapping values are not allowed in this context",
    ]


@pytest.mark.parametrize("output", FORMATS)
def test_all_formats(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(replace(job("owned.yaml"), output=output)) == 0
    assert capsys.readouterr().out


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run the command on a terminal, and return the output of both streams."""
    outer, inner = pty.openpty()
    executable = Path(sys.executable).with_name("webhooks")
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TERM": "xterm", **environment}
    process = subprocess.Popen(
        [executable, "review", "--policies", "policies.py", *arguments], stdout=inner, stderr=inner, env=environment
    )
    os.close(inner)
    output = b""
    try:
        while part := os.read(outer, 65536):
            output += part
    except OSError:  # the terminal was closed
        pass
    os.close(outer)
    process.wait(SECONDS)
    return output.decode()


def test_colors() -> None:
    output = on_a_terminal("all.yaml")
    assert "\x1b[31mdenied" in output
    assert "\x1b[32m+  labels:" in output
    assert "\x1b[" not in on_a_terminal("all.yaml", NO_COLOR="1")


def test_a_progress_bar_for_large_files(folder: Path) -> None:
    (folder / "large.yaml").write_text(f"{OWNED}data: {'x' * 400_000}\n---\n" * 4)
    assert re.search(r"Reviewing .*100%", on_a_terminal("large.yaml", "-o", "sarif"))
    assert "Reviewing" not in on_a_terminal("owned.yaml")


def test_a_policy_that_never_returns(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\nfrom webhooks import *\n"
        "@validating('pods', timeout=0.1)\ndef slow(review: AdmissionReview) -> Decision:\n    time.sleep(600)\n"
    )
    output = on_a_terminal("owned.yaml", "--policies", "slow.py", NO_COLOR="1")
    assert "denied   slow    failed: policy 'slow' " in output


def test_many_manifests_are_reviewed_quickly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "many.yaml").write_text("---\n".join([CONFIG_MAP] * 500))
    started = time.perf_counter()
    run(job("many.yaml"))
    assert capsys.readouterr().out.splitlines()[-1] == "500 reviewed: 0 allowed, 500 changed, 0 denied"
    assert time.perf_counter() - started < 5  # ten times the usual time

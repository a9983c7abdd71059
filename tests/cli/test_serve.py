"""Tests of ``webhooks serve``: its options, and which value wins."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from webhooks.settings import Limits, Settings, options

from ..support.servers import SECONDS
from .test_main import run, run_installed

HEAD = "apiVersion: webhooks.svc.io/v1alpha1\nkind: WebhookConfiguration\n"
NAMES = [field.name for settings in (Settings, Limits) for field, _ in options(settings)]


def test_help() -> None:
    result = run("serve", "--help")
    for name in NAMES:
        assert f"\n  --{name.replace('_', '-')}" in result.stdout
    assert "[default: 8443;" in result.stdout
    assert "webhooks serve --policies library:required_labels" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "No policies: give --config, --policies or --admission-config."),
        (("--policies", "x.py", "--port", "https"), "--port"),
        (("--policies", "x.py", "--port", "65536"), "--port"),
        (("--policies", "x.py", "--port", "-1"), "--port"),
        (("--policies", "x.py", "--ops-port", "65536"), "--ops-port"),
        (("--policies", "x.py", "--workers", "0"), "--workers"),
        (("--policies", "x.py", "--workers", "65"), "--workers"),
        (("--policies", "x.py", "--max-connections", "0"), "--max-connections"),
        (("--policies", "x.py", "--max-queue", "-1"), "--max-queue"),
        (("--policies", "x.py", "--max-body", "7MiB"), "--max-body"),
        (("--policies", "x.py", "--max-header-bytes", "1000"), "--max-header-bytes"),
        (("--policies", "x.py", "--tls-cert", "/"), "--tls-cert"),
        (("--admission-config",), "--admission-config"),
        (("--admission-config", "/"), "--admission-config"),
        (("--policies", "x.py", "--certs-dir", sys.executable), "--certs-dir"),
    ],
)
def test_usage_errors(options: tuple[str, ...], message: str) -> None:
    result = run("serve", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("name", "value"), [("PORT", "x"), ("GRACE", "soon")])
def test_errors_name_the_environment_variable(name: str, value: str) -> None:
    result = run_installed("serve", "--policies", "x.py", **{f"WEBHOOKS_SERVE_{name}": value})
    assert f"'--{name.lower()}' (from WEBHOOKS_SERVE_{name}): '{value}' is not a " in result.stderr


def test_errors_name_a_plain_type() -> None:
    result = run("serve", "--policies", "x.py", "--port", "x")
    assert "Invalid value for '--port': 'x' is not a valid integer." in result.stderr


def settings(folder: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """Some settings that the command passes to the server."""
    code = """\
import json, sys
from webhooks.cli.main import main
from webhooks.server import process, supervisor

def report(settings, configuration):
    names = "port", "ops_port", "grace", "allow_client", "log_level", "tracing", "workers"
    values = {name: getattr(settings, name) for name in names}
    print(json.dumps({**values, "max_queue": settings.limits.max_queue}))

process.run = supervisor.run = report
main(["serve", *sys.argv[1:]])
"""
    command = [sys.executable, "-c", code, *arguments]
    env = {"PATH": "/usr/bin:/bin", **{f"WEBHOOKS_SERVE_{name}": value for name, value in environment.items()}}
    result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS)
    assert result.returncode == 0, result.stderr
    values: dict[str, Any] = json.loads(result.stdout)
    return values


def test_options_win_over_variables_and_those_over_the_file(tmp_path: Path) -> None:
    server = (
        "port: 1, opsPort: 0, grace: 3s, allowClient: [file], logLevel: debug, tracing: true, limits: {maxQueue: 7}"
    )
    (tmp_path / "webhooks.yaml").write_text(f"{HEAD}server: {{{server}}}")
    file = {"port": 1, "ops_port": None, "grace": 3.0, "allow_client": ["file"], "log_level": "debug", "tracing": True}
    file |= {"workers": 1, "max_queue": 7}
    config = ("--config", "webhooks.yaml")
    assert settings(tmp_path, *config) == file
    environment = {"PORT": "2", "GRACE": "4s", "ALLOW_CLIENT": "one two", "MAX_QUEUE": "8", "WORKERS": "2"}
    variables = {"port": 2, "grace": 4.0, "allow_client": ["one", "two"], "max_queue": 8, "workers": 2}
    assert settings(tmp_path, *config, **environment) == file | variables
    assert settings(tmp_path, **environment, CONFIG="webhooks.yaml") == file | variables
    flags = ("--port", "5", "--allow-client", "flag", "--ops-port", "9", "--grace", "1m", "--log-level", "info")
    values = {"port": 5, "allow_client": ["flag"], "ops_port": 9, "grace": 60.0, "log_level": "info"}
    assert settings(tmp_path, *flags, *config, **environment) == file | variables | values


def test_an_invalid_file_is_reported_before_invalid_options(tmp_path: Path) -> None:
    file = tmp_path / "webhooks.yaml"
    file.write_text(HEAD + "server: {prot: 1}\n")
    result = run("serve", "--port", "none", "--config", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"webhooks: {file}:3:10: server.prot: Forbidden: unknown field; did you mean port?\n"

"""The command line, as somebody meets it who types."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from webhooks import __version__
from webhooks.cli.main import main

from ..support.servers import SECONDS

OPTIONS = (
    "--config",
    "--policies",
    "--admission-config",
    "--host",
    "--port",
    "--ops-port",
    "--certs-dir",
    "--tls-cert",
    "--tls-key",
    "--client-ca",
    "--allow-client",
    "--token-file",
    "--oidc-issuer",
    "--oidc-audience",
    "--oidc-subject",
    "--oidc-ca",
    "--workers",
    "--shutdown-delay",
    "--grace",
    "--max-connections",
    "--max-connections-per-peer",
    "--max-in-flight",
    "--max-queue",
    "--max-body",
    "--max-headers",
    "--max-header-bytes",
    "--tls-timeout",
    "--header-timeout",
    "--body-timeout",
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="webhooks")


def run_installed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as it is installed, in a process of its own."""
    command = Path(sys.executable).with_name("webhooks")
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment}
    return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=SECONDS, env=env)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(option: str) -> None:
    ended = run(option)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.startswith("Usage: ")
    assert re.search(r"^  serve +Answer reviews", ended.stdout, re.MULTILINE)


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_of_serve(option: str) -> None:
    ended = run("serve", option)
    assert (ended.exit_code, ended.stderr) == (0, "")
    for name in OPTIONS:
        described = re.search(rf"^  {name}\b.*(\n {{10,}}.*)*", ended.stdout, re.MULTILINE)
        assert described, name
        assert len(described[0].split()) > 4, f"{name} is not described"
    assert "8443" in ended.stdout
    assert "webhooks serve --policies library:required_labels" in ended.stdout


def test_no_command_shows_the_commands() -> None:
    ended = run()
    assert "serve" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_version() -> None:
    ended = run_installed("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"webhooks, version {__version__}\n", "")


def test_help_loads_no_server() -> None:
    """Help and completion are there at once; the server takes a while to import."""
    code = "import sys, webhooks.cli.main; print(sorted({'fastapi', 'uvicorn', 'pydantic'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--nothing",), "--nothing"),
        (("nothing",), "nothing"),
        (("serve",), "Nothing to serve: give --config, --policies or --admission-config."),
        (("serve", "--polices", "x"), "--policies"),
        (("serve", "--policies"), "--policies"),
        (("serve", "--policies", "x.py", "more"), "more"),
        (("serve", "--policies", "x.py", "--port", "https"), "--port"),
        (("serve", "--policies", "x.py", "--port", "65536"), "--port"),
        (("serve", "--policies", "x.py", "--port", "-1"), "--port"),
        (("serve", "--policies", "x.py", "--ops-port", "65536"), "--ops-port"),
        (("serve", "--policies", "x.py", "--workers", "0"), "--workers"),
        (("serve", "--policies", "x.py", "--workers", "65"), "--workers"),
        (("serve", "--policies", "x.py", "--shutdown-delay", "soon"), "'soon' is no duration, such as 10s or 1m30s"),
        (("serve", "--policies", "x.py", "--shutdown-delay", "-1s"), "--shutdown-delay"),
        (("serve", "--policies", "x.py", "--grace", ""), "--grace"),
        (("serve", "--policies", "x.py", "--grace", "inf"), "--grace"),
        (("serve", "--policies", "x.py", "--max-connections", "0"), "--max-connections"),
        (("serve", "--policies", "x.py", "--max-queue", "-1"), "--max-queue"),
        (("serve", "--policies", "x.py", "--max-body", "7MiB"), "--max-body"),
        (("serve", "--policies", "x.py", "--max-header-bytes", "1000"), "--max-header-bytes"),
        (("serve", "--policies", "x.py", "--header-timeout", "0"), "'0' is not between 0.1s and 60s"),
        (("serve", "--policies", "x.py", "--tls-timeout", "2m"), "'2m' is not between 0.1s and 60s"),
        (("serve", "--policies", "x.py", "--tls-cert", "/"), "--tls-cert"),
        (("serve", "--admission-config"), "--admission-config"),
        (("serve", "--admission-config", "/"), "--admission-config"),
        (("serve", "--policies", "x.py", "--certs-dir", sys.executable), "--certs-dir"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], says: str) -> None:
    ended = run(*arguments)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert says in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    ended = run_installed(_WEBHOOKS_COMPLETE=f"{shell}_source")
    assert ended.returncode == 0, ended.stderr
    assert "_WEBHOOKS_COMPLETE" in ended.stdout


def test_completion() -> None:
    ended = run_installed(_WEBHOOKS_COMPLETE="bash_complete", COMP_WORDS="webhooks serve --po", COMP_CWORD="2")
    assert ended.stdout.splitlines() == ["plain,--policies", "plain,--port"]

"""Tests of the command line as a whole: help texts, usage errors, completion, and how errors are printed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from webhooks import __version__
from webhooks.cli.main import main

from ..support.servers import SECONDS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="webhooks")


def run_installed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own."""
    command = Path(sys.executable).with_name("webhooks")
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment}
    return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=SECONDS, env=env)


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    """All commands by name, also groups and the commands in them."""
    for name, command in group.commands.items():
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


COMMANDS = dict(commands(main))
IDIOMS = re.compile(r"\b(tells?|told|whom|whoever|nobody|somebody|everybody|beside|callers?|ready policies)\b")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(option: str) -> None:
    result = run(option)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage: webhooks ")
    assert re.search(r"^  serve +Run the server\.$", result.stdout, re.MULTILINE)


@pytest.mark.parametrize("arguments", [(), ("certs",)], ids=["webhooks", "webhooks certs"])
def test_summaries_fit_into_the_list_of_commands(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*arguments, "--help"], prog_name="webhooks", terminal_width=80)
    _, _, listed = result.stdout.partition("\nCommands:\n")
    lines = listed.splitlines()
    assert all(re.fullmatch(r"  [a-z]+ +[A-Z].*[^.]\.", line) for line in lines), result.stdout
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_commands(name: str) -> None:
    command, result = COMMANDS[name], run(*name.split(), "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert not IDIOMS.findall(result.stdout)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert re.fullmatch(r"[A-Z][^\n]{8,118}\.", parameter.help), parameter.help
            assert f"  {parameter.opts[0]}" in result.stdout or f", {parameter.opts[-1]}" in result.stdout


def test_examples_in_the_help_are_valid() -> None:
    """The options in the examples exist."""
    for name, command in COMMANDS.items():
        options = {option for parameter in command.params for option in parameter.opts}
        for example in re.findall(rf"webhooks {name} (.*)", command.epilog or ""):
            assert set(re.findall(r"(?<!\S)--[a-z-]+", example.partition("&&")[0].partition(". ")[0])) <= options, name


def test_no_command_shows_the_commands() -> None:
    result = run()
    assert "serve" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_version() -> None:
    result = run_installed("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"webhooks, version {__version__}\n", "")


def test_help_is_fast() -> None:
    """Help and completion import neither the server nor libraries that are slow to import."""
    slow = {"cryptography.x509", "fastapi", "httpx2", "msgspec", "pydantic", "uvicorn", "yaml"}
    code = f"import sys, webhooks.cli.main; print(sorted({slow!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nothing",), "--nothing"),
        (("nothing",), "nothing"),
        (("serve", "--polices", "x"), "--policies"),
        (("serve", "--policies"), "--policies"),
        (("serve", "--policies", "x.py", "more"), "more"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


def test_errors_are_safe_for_terminals(tmp_path: Path) -> None:
    result = run("check", str(tmp_path / "\x1b[31mred"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("webhooks: ")
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = run_installed(_WEBHOOKS_COMPLETE=f"{shell}_source")
    assert result.returncode == 0, result.stderr
    assert "_WEBHOOKS_COMPLETE" in result.stdout


def test_completion() -> None:
    result = run_installed(_WEBHOOKS_COMPLETE="bash_complete", COMP_WORDS="webhooks serve --po", COMP_CWORD="2")
    assert result.stdout.splitlines() == ["plain,--policies", "plain,--port"]

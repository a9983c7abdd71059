"""Tests of ``webhooks new``: the files pass as they are, and no file is overwritten."""

import inspect
import subprocess
import sys
import typing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from webhooks.cli.main import main
from webhooks.cli.new import new as command
from webhooks.config import file as configured
from webhooks.policy import loader
from webhooks.reviews.kinds import Kind

from ..support.servers import SECONDS

KINDS = typing.get_args(Kind)


def new(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["new", *map(str, arguments)], prog_name="webhooks")


def test_every_kind_is_offered() -> None:
    [option] = [parameter for parameter in command.params if parameter.name == "kind"]
    assert isinstance(option.type, click.Choice)
    assert sorted(option.type.choices) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_pass(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "more" / "policies"
    result = new("first_try", "--kind", kind, "--dir", folder)
    names = ("first_try.py", "first_try_cases.yaml", "test_first_try.py", "webhooks.yaml")
    files = [folder / name for name in names]
    assert (result.exit_code, result.stdout, result.stderr) == (0, "".join(f"{file}\n" for file in files), "")
    assert sorted(folder.iterdir()) == sorted(files)
    [policy] = loader.load([str(folder)])
    assert (policy.name, policy.kind) == ("first_try", kind)
    command = [sys.executable, "-m", "pytest", "-v", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, ran.stdout
    for file in files[1:3]:
        assert f"{file.name}::" in ran.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_configuration_is_valid(kind: str, tmp_path: Path) -> None:
    new("first_try", "--kind", kind, "--dir", tmp_path)
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "webhooks.yaml")])
    assert (checked.exit_code, checked.stdout.split(), checked.stderr) == (0, [kind, "first_try"], "")
    [policy] = configured.read(tmp_path / "webhooks.yaml").load()
    keywords = inspect.signature(policy.function).parameters
    for name, value in policy.parameters.items():
        assert value == policy.convert_parameter(name, keywords[name].default), "the configuration shows the default"


@pytest.mark.parametrize("kind", KINDS)
def test_an_existing_configuration_is_not_changed(kind: str, tmp_path: Path) -> None:
    new("first", "--dir", tmp_path)
    file = tmp_path / "webhooks.yaml"
    before = file.read_text()
    result = new("second", "--kind", kind, "--dir", tmp_path)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        str(tmp_path / f) for f in ("second.py", "second_cases.yaml", "test_second.py")
    ]
    message, *entry = result.stderr.splitlines(keepends=True)
    assert message == f"webhooks: {file} exists already: add this to its policies:\n"
    assert file.read_text() == before
    file.write_text(before + "".join(entry))
    assert [policy.name for policy in configured.read(file).load()] == ["first", "second"]


def test_the_files_are_formatted(tmp_path: Path) -> None:
    for kind in KINDS:
        new(f"a_{kind}", "--kind", kind, "--dir", tmp_path)
    for file in tmp_path.iterdir():
        text = file.read_text()
        assert "$" not in text
        assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("existing", ["first.py", "first_cases.yaml", "test_first.py"])
def test_no_file_is_overwritten(existing: str, tmp_path: Path) -> None:
    file = tmp_path / existing
    file.write_text("mine")
    result = new("first", "--dir", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"webhooks: {file}: exists already and is not overwritten: choose another name\n"
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["", "a-b", "A", "1a", "_a", "a.b", "../a", "é", "class", "test_a", "conftest", "a\n"])
def test_invalid_names(name: str, tmp_path: Path) -> None:
    result = new("--dir", tmp_path, "--", name)
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert result.stderr.startswith(f"webhooks: {name!r} is not a valid name for a policy: ")


@pytest.mark.parametrize("name", ["json", "yaml", "webhooks"])
def test_names_of_modules(name: str, tmp_path: Path) -> None:
    result = new(name, "--dir", tmp_path)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert result.stderr.startswith(f"webhooks: {name!r} is the name of a module, ")


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = new("first", "--dir", tmp_path / "file" / "folder")
    assert result.exit_code == 2
    assert result.stderr == f"webhooks: {tmp_path}/file/folder: cannot be written: Not a directory\n"

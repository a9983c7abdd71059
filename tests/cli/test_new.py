"""New policies: what is written holds as it is, and nothing is written over."""

import inspect
import subprocess
import sys
import typing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from webhooks.cli.main import main
from webhooks.cli.main import new as command
from webhooks.config import file as configured
from webhooks.policy import loader
from webhooks.reviews.kinds import Kind

from ..support.servers import SECONDS

KINDS = typing.get_args(Kind)


def new(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["new", *map(str, arguments)], prog_name="webhooks")


def test_every_kind_is_offered() -> None:
    [option] = [each for each in command.params if each.name == "kind"]
    assert isinstance(option.type, click.Choice)
    assert sorted(option.type.choices) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_it_passes_its_own_tests(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "more" / "policies"
    ended = new("first_try", "--kind", kind, "--dir", folder)
    names = ("first_try.py", "first_try_cases.yaml", "test_first_try.py", "webhooks.yaml")
    files = [folder / name for name in names]
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "".join(f"{file}\n" for file in files), "")
    assert sorted(folder.iterdir()) == sorted(files)
    [policy] = loader.load([str(folder)])
    assert (policy.name, policy.kind) == ("first_try", kind)
    pytest_ = [sys.executable, "-m", "pytest", "-v", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run(pytest_, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert ran.returncode == 0, ran.stdout
    for file in files[1:3]:
        assert f"{file.name}::" in ran.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_its_configuration_holds(kind: str, tmp_path: Path) -> None:
    new("first_try", "--kind", kind, "--dir", tmp_path)
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "webhooks.yaml")])
    assert (checked.exit_code, checked.stdout.split(), checked.stderr) == (0, [kind, "first_try"], "")
    [policy] = configured.read(tmp_path / "webhooks.yaml").load()
    keywords = inspect.signature(policy.function).parameters
    for name, value in policy.parameters.items():
        assert value == policy.convert_parameter(name, keywords[name].default), "it says what holds without it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_that_is_there_is_left_as_it_is(kind: str, tmp_path: Path) -> None:
    new("first", "--dir", tmp_path)
    file = tmp_path / "webhooks.yaml"
    before = file.read_text()
    ended = new("second", "--kind", kind, "--dir", tmp_path)
    assert ended.exit_code == 0
    assert ended.stdout.splitlines() == [
        str(tmp_path / f) for f in ("second.py", "second_cases.yaml", "test_second.py")
    ]
    told, *entry = ended.stderr.splitlines(keepends=True)
    assert told == f"webhooks: {file} was there already; add to its policies:\n"
    assert file.read_text() == before
    file.write_text(before + "".join(entry))
    assert [policy.name for policy in configured.read(file).load()] == ["first", "second"]


def test_it_is_written_as_our_own_code_is(tmp_path: Path) -> None:
    for kind in KINDS:
        new(f"a_{kind}", "--kind", kind, "--dir", tmp_path)
    for file in tmp_path.iterdir():
        text = file.read_text()
        assert "NAME" not in text
        assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("there", ["first.py", "first_cases.yaml", "test_first.py"])
def test_nothing_is_written_over(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("mine")
    ended = new("first", "--dir", tmp_path)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == (f"webhooks: nothing is overwritten, and these are there already: {tmp_path / there}\n")
    assert [file.name for file in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize("name", ["", "a-b", "A", "1a", "_a", "a.b", "../a", "é", "class", "test_a", "conftest", "a\n"])
def test_names_that_are_none(name: str, tmp_path: Path) -> None:
    ended = new("--dir", tmp_path, "--", name)
    assert (ended.exit_code, ended.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert ended.stderr.startswith(f"webhooks: {name!r} is no name for a new policy: ")


@pytest.mark.parametrize("name", ["json", "yaml", "webhooks"])
def test_names_of_modules(name: str, tmp_path: Path) -> None:
    ended = new(name, "--dir", tmp_path)
    assert (ended.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert ended.stderr.startswith(f"webhooks: there is a module named {name!r}, ")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = new("first", "--dir", tmp_path / "file" / "folder")
    assert ended.exit_code == 2
    assert ended.stderr == f"webhooks: {tmp_path}/file/folder: cannot be written: Not a directory\n"

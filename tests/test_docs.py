"""The code in the documentation works."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from webhooks import loading

from .exposed import metrics
from .servers import SECONDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> list[pytest.param]:
    """Every block of code in a language, named by its page and place there."""
    fenced = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, text in enumerate(fenced.findall(page.read_text()))
    ]


@pytest.mark.parametrize("code", [each for each in blocks("python") if not each.values[0].startswith("# test_")])
def test_policies_in_the_docs_load(code: str, tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text(code)
    assert len(loading.load([str(file)])) > 0


def test_what_the_docs_say_of_testing_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    files = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name, text in files:
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert ended.returncode == 0, ended.stdout
    tests = [name for name, _ in files if name.startswith("test_") or name.endswith("_cases.yaml")]
    assert len(tests) == 4
    assert [name for name in tests if f"{name}::" not in ended.stdout] == []


@pytest.mark.parametrize("text", blocks("yaml"))
def test_manifests_in_the_docs_are_objects(text: str) -> None:
    for document in yaml.safe_load_all(text):
        assert document["apiVersion"]
        assert document["kind"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_option_is_documented() -> None:
    from webhooks.cli import main

    documented = "".join(page.read_text() for page in PAGES)
    options = [option for command in commands(main) for parameter in command.params for option in parameter.opts]
    assert options
    assert [option for option in options if option.startswith("-") and f"`{option}" not in documented] == []


def commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from commands(command) if isinstance(command, click.Group) else [command]


def test_every_metric_is_documented() -> None:
    documented = set(re.findall(r"`(webhooks_[a-z_]+)", "".join(page.read_text() for page in PAGES)))
    documented.remove("webhooks_cases")  # an option of pytest's
    assert documented == {re.sub(r"_(bucket|sum|count)$", "", name) for name in metrics()}

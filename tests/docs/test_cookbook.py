"""Every recipe of the cookbook denies or changes one example, and allows another."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from webhooks.policy import loader

from ..support.pages import DOCS, sections
from ..support.servers import SECONDS
from ..support.walks import parse_files

PAGE = DOCS / "guides" / "cookbook.md"


def test_every_recipe_passes_its_cases(tmp_path: Path) -> None:
    files = {file.name: file.text for file in parse_files(PAGE)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=4 * SECONDS)
    assert result.returncode == 0, result.stdout
    recipes = [name.removesuffix(".py") for name in files if name.endswith(".py")]
    assert len(recipes) == 15
    for recipe in recipes:
        cases = yaml.safe_load(files[f"{recipe}_cases.yaml"])["cases"]
        expected = [case["expect"] if isinstance(case["expect"], str) else case["expect"]["outcome"] for case in cases]
        assert {"denied", "patched"} & set(expected), recipe
        assert {"allowed", "no opinion"} & set(expected), recipe
        assert result.stdout.count(f"{recipe}_cases.yaml::") == len(cases), recipe


def test_recipes_are_not_bundled() -> None:
    recipes = {file.name.removesuffix(".py") for file in parse_files(PAGE)}
    assert recipes & loader.bundled_files().keys() == set()


def test_the_table_lists_every_recipe() -> None:
    recipes = [file.name.removesuffix(".py") for file in parse_files(PAGE) if file.name.endswith(".py")]
    assert re.findall(r"^\| \[\d+\]\(.*?\) \| `(\w+)` \|", sections(PAGE)["Cookbook"], re.MULTILINE) == recipes

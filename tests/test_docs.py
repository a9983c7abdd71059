"""The code in the documentation works."""

import re
from pathlib import Path

import pytest
import yaml

from webhooks import loading

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


@pytest.mark.parametrize("code", blocks("python"))
def test_policies_in_the_docs_load(code: str, tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text(code)
    assert len(loading.load([str(file)])) > 0


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
    from webhooks.cli import serve

    page = (ROOT / "docs" / "serving.md").read_text()
    options = [option for parameter in serve.params for option in parameter.opts]
    assert options
    assert [option for option in options if f"`{option}" not in page] == []


def test_every_metric_is_documented() -> None:
    from webhooks.metrics import Tally
    from webhooks.metrics import page as written

    page = (ROOT / "docs" / "serving.md").read_text()
    names = re.findall(r"^# TYPE (\S+)", written(Tally()).decode(), re.MULTILINE)
    assert names
    assert [name for name in names if f"`{name}" not in page] == []

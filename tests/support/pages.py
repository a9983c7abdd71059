"""The pages of the documentation, and their parts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))


def page_id(page: Path) -> str:
    """Name a page in the ids of tests, such as ``guides/install``."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).with_suffix("").as_posix()


def blocks(language: str) -> list[pytest.param]:
    """Return the code blocks of a language on all pages, with the page and their number as the id."""
    fenced = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [
        pytest.param(text, id=f"{page_id(page)}-{number}")
        for page in PAGES
        for number, text in enumerate(fenced.findall(page.read_text()))
    ]


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def sections(page: Path) -> dict[str, str]:
    """Return the sections of a page at any depth by their headings, each without its subsections."""
    parts = re.split(r"^#+ (.*)\n", prose(page), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in sections(page)}


def links(page: Path) -> list[tuple[str, str]]:
    """Return the paths and fragments of the links within the repository."""
    return re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", prose(page))

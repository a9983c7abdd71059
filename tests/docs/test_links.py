"""Links lead to pages and headings that exist, and the index leads to every page."""

import re
from pathlib import Path

import pytest

from ..support.pages import DOCS, PAGES, ROOT, anchors, links, page_id, prose

LINKED = (*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "certs/README.md")))


@pytest.mark.parametrize("page", LINKED, ids=page_id)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for path, fragment in links(page):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not fragment or fragment in anchors(target), f"{path}#{fragment}"


def test_the_index_links_to_every_page() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / path).resolve() for path, _ in links(index)}
    assert {page for page in DOCS.rglob("*.md") if page != index} - linked == set()


def test_headings_of_a_page_differ() -> None:
    for page in PAGES:
        headings = [
            line for line in page.read_text().split("```")[::2] for line in line.splitlines() if line[:1] == "#"
        ]
        assert len(headings) == len(anchors(page)), page_id(page)


WRITTEN = [page for page in DOCS.rglob("*.md") if page.name != "bundled-policies.md"]


@pytest.mark.parametrize("page", WRITTEN, ids=page_id)
def test_lines_of_prose_are_short(page: Path) -> None:
    """Tables, generated text and lines that are one long link are exempt."""
    text = re.sub(r"<!-- generated: (\S+) -->.*?<!-- /generated: \1 -->", "", prose(page), flags=re.DOTALL)
    lines = [line for line in text.splitlines() if len(line) > 120 and not line.startswith(("|", "!"))]
    assert [line for line in lines if " " in re.sub(r"\[.*?\]\(.*?\)", "", line).strip()] == []

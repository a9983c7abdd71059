"""Pages whose files and commands are followed in order, as a reader does."""

import shutil
from pathlib import Path

import pytest

from ..support.pages import DOCS, ROOT, page_id
from ..support.walks import Walk, parse_steps

WALKED = (
    ROOT / "README.md",
    DOCS / "troubleshooting.md",
    *(
        DOCS / f"{page}.md"
        for page in (
            "guides/certificates",
            "guides/ci",
            "guides/configuration",
            "guides/from-gatekeeper",
            "guides/from-kopf",
            "guides/from-kyverno",
            "guides/manifests",
            "guides/offline-review",
            "guides/rate-limits",
            "tutorial",
        )
    ),
)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on PATH")
@pytest.mark.parametrize("page", WALKED, ids=page_id)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    with Walk(tmp_path) as walk:
        for step in parse_steps(page):
            walk.perform(step)

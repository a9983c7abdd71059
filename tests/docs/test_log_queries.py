"""The jq queries on the pages find what they say in the log."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ..support.pages import DOCS

PAGES = [DOCS / "guides" / "operations.md", DOCS / "troubleshooting.md"]
DECISION = {"logger": "webhooks.decisions", "message": "no owner", "verdict": "deny", "name": "web", "user": "jane"}
FAILURE = {
    "logger": "webhooks.policies",
    "message": "policy owner_label failed",
    "policy": "owner_label",
    "error": "Tr",
}
LOG = f"ready https://0.0.0.0:8443\n{json.dumps(DECISION)}\n{json.dumps(FAILURE)}\n"


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on PATH")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_queries_find_decisions_and_failures(page: Path) -> None:
    queries = re.findall(r"\| jq (-\w+) '([^']+)'", page.read_text())
    assert len(queries) == 2
    outputs = [subprocess.run(["jq", *query], input=LOG, capture_output=True, text=True).stdout for query in queries]
    assert any('"no owner"' in output and "failed" not in output for output in outputs)
    assert "policy owner_label failed\nTr\n" in outputs

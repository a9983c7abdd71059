"""The messages of the server that pages quote are those that it sends."""

from pathlib import Path

import pytest

from webhooks.testing import Server, admission, pod

from ..support.pages import DOCS, ROOT

PAGE = " ".join((DOCS / "troubleshooting.md").read_text().split())
POLICIES = """\
import time
from webhooks import *


@validating("pods", names=["failing", "slow"], timeout=0.05)
def owner_label(review: AdmissionReview) -> Decision:
    if review.name == "slow":
        time.sleep(1)
    raise KeyError("labels")
"""


@pytest.mark.parametrize("name", ["failing", "slow"])
def test_troubleshooting_quotes_the_messages_of_failures(name: str, tmp_path: Path) -> None:
    (tmp_path / "policies.py").write_text(POLICIES)
    with Server("policies.py", folder=tmp_path) as server:
        message = server.review(admission("CREATE", pod(name=name))).message
    assert message.startswith("policy 'owner_label'")
    assert message in PAGE


@pytest.mark.parametrize(
    ("quote", "module"),
    [
        ("a valid bearer token is required", "auth/authenticator.py"),
        ("malformed review: ", "app/endpoints.py"),
        ("the body is larger than ", "http/headers.py"),
        ("rejected a client", "auth/authenticator.py"),
    ],
)
def test_troubleshooting_quotes_the_messages_of_rejections(quote: str, module: str) -> None:
    assert quote in PAGE
    assert quote in (ROOT / "webhooks" / module).read_text()

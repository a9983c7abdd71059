"""The documentation pages."""

import subprocess
import sys
from typing import Any

from starlette.testclient import TestClient

from webhooks import Allow, create_app, validating
from webhooks.app.documentation import Documentation

from ..support.servers import SECONDS


@validating("pods")
def allows(review: Any) -> Allow:
    return Allow()


def test_the_document_follows_the_paths() -> None:
    paths = {"/authorize": None}
    client = TestClient(Documentation(paths, 1024))
    assert "/authorize" in client.get("/openapi.json").json()["paths"]
    document = client.get("/openapi.json").content
    assert client.get("/openapi.json").content == document
    paths["/images"] = None
    assert "/images" in client.get("/openapi.json").json()["paths"]


def test_the_document_states_the_body_limit() -> None:
    responses = TestClient(Documentation(["/authorize"], 1024)).get("/openapi.json").json()
    assert "1024" in responses["paths"]["/authorize"]["post"]["responses"]["413"]["description"]


def test_it_is_loaded_once() -> None:
    app = create_app([allows])
    client = TestClient(app)
    assert app._documentation is None
    assert client.get("/docs").status_code == 200
    documentation = app._documentation
    assert documentation is not None
    assert client.get("/openapi.json").status_code == 200
    assert app._documentation is documentation


def test_fastapi_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, webhooks.server.process, webhooks.server.supervisor; sys.exit('fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=SECONDS).returncode == 0

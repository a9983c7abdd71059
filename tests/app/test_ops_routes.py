"""The routes for health and metrics, by themselves."""

from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from webhooks.app import ops_routes
from webhooks.app.review_metrics import MetricsSnapshot


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    ready = {"policies": lambda: True, "shutdown": lambda: True}
    with TestClient(Starlette(routes=ops_routes.routes({"loop": lambda: True}, ready, MetricsSnapshot))) as client:
        yield client


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health(path: str, client: TestClient) -> None:
    reply = client.get(path)
    assert (reply.status_code, reply.text) == (200, "ok")
    assert reply.headers["content-type"].startswith("text/plain")
    assert client.head(path).status_code == 200


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("/livez", ["[+]ping ok", "[+]loop ok", "livez check passed"]),
        ("/readyz", ["[+]ping ok", "[+]loop ok", "[+]policies ok", "[+]shutdown ok", "readyz check passed"]),
        ("/healthz", ["[+]ping ok", "[+]loop ok", "[+]policies ok", "[+]shutdown ok", "healthz check passed"]),
    ],
)
@pytest.mark.parametrize("query", ["verbose", "verbose=", "verbose=1", "a=b&verbose"])
def test_verbose_health(path: str, lines: list[str], query: str, client: TestClient) -> None:
    assert client.get(f"{path}?{query}").text == "".join(f"{line}\n" for line in lines)

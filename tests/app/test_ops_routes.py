"""Health and metrics over HTTP."""

import pytest
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.testclient import TestClient

from webhooks.app.ops_routes import RELOAD_FAILING, Checks, OpsRoutes
from webhooks.app.review_metrics import MetricsSnapshot
from webhooks.observability.metrics import Gauge

PASSING: Checks = {"policies": lambda: True, "shutdown": lambda: True}


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(OpsRoutes({"loop": lambda: True}, PASSING, MetricsSnapshot))


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


def test_failed_checks() -> None:
    client = TestClient(OpsRoutes({"loop": lambda: False}, {"policies": lambda: True}, MetricsSnapshot))
    for path in ("/livez", "/readyz", "/healthz"):
        reply = client.get(path)
        assert reply.status_code == 503
        assert "[-]loop failed" in reply.text.splitlines()
        assert reply.text.endswith(f"{path[1:]} check failed\n")


def test_a_failed_reload_is_a_warning() -> None:
    snapshot = MetricsSnapshot(registered={RELOAD_FAILING: Gauge("", (), {(): 1.0})})
    client = TestClient(OpsRoutes({}, PASSING, lambda: snapshot))
    assert client.get("/readyz").text == "ok"
    assert "[!]the policies are older than their files" in client.get("/readyz?verbose").text
    assert "[!]" not in client.get("/livez?verbose").text


def test_metrics(client: TestClient) -> None:
    reply = client.get("/metrics")
    assert (reply.status_code, reply.headers["content-type"]) == (200, CONTENT_TYPE_LATEST)
    assert "webhooks_certificate_reload_failures_total 0.0" in reply.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/livez", "/metrics"])
def test_other_methods(method: str, path: str, client: TestClient) -> None:
    reply = client.request(method, path)
    assert (reply.status_code, reply.headers["allow"], reply.json()["kind"]) == (405, "GET, HEAD", "Status")


@pytest.mark.parametrize("path", ["/", "/livez/", "/livez/ping", "/authorize", "/docs"])
def test_other_paths(path: str, client: TestClient) -> None:
    assert client.get(path).status_code == 404

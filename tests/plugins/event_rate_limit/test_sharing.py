import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ...support.builders import admission_body, written
from ...support.servers import Server, serving
from .events import core_event
from .redis_server import RedisServer, needs_redis

pytestmark = needs_redis

BURST = 200
EVENT = written(admission_body("CREATE", core_event(), resource="v1/events")).strip()


@contextmanager
def sharing(store: RedisServer, folder: Path, count: int, *options: object) -> Iterator[list[Server]]:
    """Servers of one configuration."""
    limits = [{"type": "Server", "qps": 1, "burst": BURST}]
    settings = {"limits": limits, "backend": "redis", "redis": {"url": store.url, "timeout": "1s"}}
    kind = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    plugin = {"name": "EventRateLimit", "configuration": kind | settings}
    named = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [plugin]}
    (folder / "admission.yaml").write_text(json.dumps(named))
    with ExitStack() as stack:
        given = ("--admission-config", folder / "admission.yaml", *options)
        yield [stack.enter_context(serving(folder, *given, policies="")) for _ in range(count)]


def allowed(server: Server, events: int) -> int:
    """How many of so many events are allowed, on a connection of their own; the others are told to come again."""
    found = 0
    with server.connect() as connection:
        for _ in range(events):
            response = connection.post("/admission/validate", EVENT).json()["response"]
            assert response["allowed"] or response["status"]["code"] == 429
            found += response["allowed"]
    return found


def accepted(servers: list[Server], events: int, connections: int = 4) -> tuple[int, float]:
    """How many of so many events on each of some connections to each server are allowed, and the seconds it took."""
    started = time.perf_counter()
    with ThreadPoolExecutor(len(servers) * connections) as threads:
        found = sum(threads.map(allowed, servers * connections, [events] * len(servers) * connections))
    return found, time.perf_counter() - started


@pytest.mark.parametrize(("servers", "workers"), [(2, 1), (1, 2)])
def test_processes_share_one_budget(tmp_path: Path, servers: int, workers: int) -> None:
    with RedisServer() as store, sharing(store, tmp_path, servers, "--workers", workers) as running:
        found, seconds = accepted(running, BURST // 4)
        assert BURST <= found <= BURST + seconds
        page = running[0].get("/metrics", ops=True).body.decode()
        assert "webhooks_event_rate_limit_store_up" in page


def test_a_server_goes_on_without_its_store(tmp_path: Path) -> None:
    with RedisServer() as store, sharing(store, tmp_path, 1) as [server]:
        assert allowed(server, BURST) == BURST
        store.kill()
        assert allowed(server, BURST) == BURST  # its own, which nobody has taken from
        away = server.errors.await_line("is away")
        assert json.loads(away)["level"] == "warning"
        store.start()
        server.errors.await_line("is back")
        assert [line["logger"] for line in server.logs()] == ["webhooks.plugins.event_rate_limit"] * 2
        assert server.stop() == 0

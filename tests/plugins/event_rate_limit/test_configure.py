"""Tests of EventRateLimit as a plugin: its policy, and servers with it."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhooks.config.strict_yaml import parse
from webhooks.errors import ConfigurationError
from webhooks.plugins import PluginContext
from webhooks.plugins.event_rate_limit import configure
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget

from ...support.builders import AnyPolicy, admission_body, encode_body
from ...support.events import core_event
from ...support.redis_server import RedisServer, needs_redis
from ...support.servers import Server, serving

FILE = Path("/etc/webhooks/limits.yaml")
KIND = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
MEMORY = {**KIND, "limits": [{"type": "Server", "qps": 5, "burst": 10}]}
REDIS = {**MEMORY, "backend": "redis", "redis": {"url": "redis://limits.example.com"}}
BURST = 200
EVENT = encode_body(admission_body("CREATE", core_event(), resource="v1/events")).strip()


def create_policy(tree: Any, context: PluginContext) -> AnyPolicy:
    [policy] = configure(parse(yaml.safe_dump(tree).encode(), FILE), context)
    return policy


@pytest.mark.parametrize(("tree", "is_async"), [(MEMORY, False), (REDIS, True)])
def test_the_policy(tree: Any, is_async: bool) -> None:
    policy = create_policy(tree, PluginContext())
    assert (policy.name, policy.kind, policy.is_async) == ("event_rate_limit", "validating", is_async)


def test_errors_have_their_places() -> None:
    text = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n"
    text += "- type: Server\n  qps: 5\n  burst: 0\n"
    with pytest.raises(ConfigurationError) as raised:
        configure(parse(text.encode(), FILE), PluginContext())
    assert str(raised.value) == f"{FILE}:6:10: limits[0].burst: Invalid value: 0: must be positive"


@pytest.mark.parametrize("fields", [{}, {"acceptLimitsPerWorker": False}])
def test_limits_in_memory_are_rejected_for_several_workers(fields: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        create_policy({**MEMORY, **fields}, PluginContext(4))
    message = str(raised.value)
    assert "acceptLimitsPerWorker: Required value: each of the 4 workers counts separately" in message
    assert message.endswith("share the limits with backend: redis, or accept this with acceptLimitsPerWorker: true")


def test_several_workers() -> None:
    assert create_policy({**MEMORY, "acceptLimitsPerWorker": True}, PluginContext(4))
    assert create_policy(REDIS, PluginContext(4))


def test_metrics_exist_from_the_start() -> None:
    context = PluginContext()
    create_policy(MEMORY, context)
    names = {name.removeprefix("webhooks_event_rate_limit_") for name in context.metrics.by_name}
    assert names == {"decisions", "keys", "evictions"}


def test_the_connection_is_closed_at_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[RedisBudget] = []

    async def close(budget: RedisBudget) -> None:
        closed.append(budget)

    monkeypatch.setattr(RedisBudget, "close", close)
    context = PluginContext()
    create_policy(REDIS, context)
    asyncio.run(context.close())
    assert len(closed) == 1


@contextmanager
def serving_limits(redis: RedisServer, folder: Path, count: int, *options: object) -> Iterator[list[Server]]:
    """Servers with the same configuration."""
    limits = [{"type": "Server", "qps": 1, "burst": BURST}]
    settings = {"limits": limits, "backend": "redis", "redis": {"url": redis.url, "timeout": "1s"}}
    plugin = {"name": "EventRateLimit", "configuration": KIND | settings}
    content = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [plugin]}
    (folder / "admission.yaml").write_text(json.dumps(content))
    with ExitStack() as stack:
        arguments = ("--admission-config", folder / "admission.yaml", *options)
        yield [stack.enter_context(serving(folder, *arguments, policies="")) for _ in range(count)]


def count_allowed(server: Server, events: int) -> int:
    """Send events on one connection. Return how many are allowed; the others must be denied with 429."""
    count = 0
    with server.connect() as connection:
        for _ in range(events):
            response = connection.post("/admission/validate", EVENT).json()["response"]
            assert response["allowed"] or response["status"]["code"] == 429
            count += response["allowed"]
    return count


@needs_redis
@pytest.mark.slow
@pytest.mark.parametrize(("servers", "workers"), [(2, 1), (1, 2)])
def test_processes_share_one_budget(tmp_path: Path, servers: int, workers: int) -> None:
    with RedisServer() as redis, serving_limits(redis, tmp_path, servers, "--workers", workers) as running:
        started = time.perf_counter()
        clients = running * 4
        with ThreadPoolExecutor(len(clients)) as threads:
            allowed = sum(threads.map(count_allowed, clients, [BURST // 4] * len(clients)))
        assert BURST <= allowed <= BURST + time.perf_counter() - started
        metrics = running[0].get("/metrics", ops=True).body.decode()
        assert "webhooks_event_rate_limit_store_up" in metrics


@needs_redis
def test_a_server_continues_without_redis(tmp_path: Path) -> None:
    with RedisServer() as redis, serving_limits(redis, tmp_path, 1) as [server]:
        assert count_allowed(server, BURST) == BURST
        redis.kill()
        assert count_allowed(server, BURST) == BURST  # by the local budget, which is full
        unavailable = server.errors.await_line("is unavailable")
        assert json.loads(unavailable)["level"] == "warning"
        redis.start()
        server.errors.await_line("is available again")
        assert [line["logger"] for line in server.logs()] == ["webhooks.plugins.event_rate_limit"] * 2
        assert server.stop() == 0

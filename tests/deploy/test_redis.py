"""Tests of the Redis in deploy/kustomize and of its limits."""

from pathlib import Path

from ..support.builders import admission_body, encode_body
from ..support.events import core_event
from ..support.kustomize import KUSTOMIZE, find_object, render
from ..support.redis_server import RedisServer, needs_redis
from ..support.servers import serving

pytestmark = needs_redis

URL = "redis://webhooks-redis.webhooks.svc:6379"
PASSWORD = "a-password"
EVENT = encode_body(admission_body("CREATE", core_event(), resource="v1/events")).strip()


def test_limits_are_stored_in_redis(tmp_path: Path) -> None:
    objects = render(KUSTOMIZE / "overlays" / "redis")
    [container] = find_object(objects, "Deployment", "webhooks-redis")["spec"]["template"]["spec"]["containers"]
    options = [argument.replace("$(PASSWORD)", PASSWORD) for argument in container["args"]]
    assert find_object(objects, "Service", "webhooks-redis")["spec"]["ports"][0]["port"] == 6379
    with RedisServer(*options) as store:
        for name, text in find_object(objects, "ConfigMap", "webhooks-configuration")["data"].items():
            (tmp_path / name).write_text(text.replace(URL, store.url))
        (tmp_path / "redis").mkdir()
        (tmp_path / "redis" / "password").write_text(PASSWORD)
        with serving(tmp_path, "--admission-config", tmp_path / "admission.yaml", policies="") as server:
            assert server.post("/admission/validate", EVENT).json()["response"]["allowed"]
            page = server.get("/metrics", ops=True).body.decode()
            assert "webhooks_event_rate_limit_store_up 1" in page
            assert "webhooks_event_rate_limit_local_decisions_total 0" in page
        assert store.request("DBSIZE", password=PASSWORD) >= 4  # at least one key per limit

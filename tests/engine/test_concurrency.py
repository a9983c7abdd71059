"""Slots and the queue; and the responses of an overloaded server."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.errors import Overloaded
from webhooks.observability.metrics import Gauge, MetricRegistry
from webhooks.settings import Limits

from ..support.servers import Gate, review, serving

SOON = 0.01


class Lab:
    """A limiter and its gauges."""

    def __init__(self, in_flight: int, queue: int) -> None:
        metrics = MetricRegistry()
        self.limiter = ConcurrencyLimiter(Limits(max_in_flight=in_flight, max_queue=queue), metrics)
        self._metrics = metrics

    def gauges(self) -> tuple[float, float]:
        gauges = [self._metrics.by_name[f"webhooks_reviews_{name}"] for name in ("in_flight", "queued")]
        in_flight, queued = (meter.values[()] for meter in gauges if isinstance(meter, Gauge))
        return in_flight, queued


def on_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(asyncio.wait_for(test(), 5))


def test_free_slots_are_acquired_immediately() -> None:
    lab = Lab(2, 0)
    assert lab.gauges() == (0, 0)
    assert lab.limiter.acquire() is None
    assert not lab.limiter.is_saturated
    assert lab.limiter.acquire() is None
    assert lab.limiter.is_saturated
    assert lab.gauges() == (2, 0)
    with pytest.raises(Overloaded):
        lab.limiter.acquire()
    lab.limiter.release()
    assert not lab.limiter.is_saturated
    assert lab.gauges() == (1, 0)
    assert lab.limiter.acquire() is None


@on_loop
async def test_slots_are_passed_on_in_order() -> None:
    lab = Lab(1, 2)
    limiter, order = lab.limiter, []
    assert limiter.acquire() is None

    async def wait(name: str, slot: asyncio.Future[None] | None) -> None:
        assert slot is not None
        await limiter.wait(slot, perf_counter() + 5)
        order.append(name)

    tasks = [asyncio.create_task(wait(name, limiter.acquire())) for name in "ab"]
    assert limiter.is_saturated
    assert lab.gauges() == (1, 2)
    with pytest.raises(Overloaded):
        limiter.acquire()
    for number in (1, 2):
        limiter.release()
        await tasks[number - 1]
        assert order == ["a", "b"][:number]
        assert lab.gauges() == (1, 2 - number)
        assert not limiter.is_saturated
    limiter.release()
    assert lab.gauges() == (0, 0)


@on_loop
async def test_a_slot_that_is_not_released_in_time() -> None:
    lab = Lab(1, 2)
    limiter = lab.limiter
    assert limiter.acquire() is None
    late, next_ = limiter.acquire(), limiter.acquire()
    assert late is not None
    assert next_ is not None
    for deadline in (perf_counter() + SOON, perf_counter() - 1):
        if late.cancelled():
            late = limiter.acquire()
            assert late is not None
        with pytest.raises(Overloaded):
            await limiter.wait(late, deadline)
    assert lab.gauges() == (1, 1)
    limiter.release()
    await limiter.wait(next_, perf_counter() + 5)
    assert lab.gauges() == (1, 0)


@on_loop
async def test_a_cancelled_review_leaves_the_queue() -> None:
    lab = Lab(1, 1)
    slot = lab.limiter.acquire() or lab.limiter.acquire()
    assert slot is not None
    task = asyncio.create_task(lab.limiter.wait(slot, perf_counter() + 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lab.gauges() == (1, 0)
    lab.limiter.release()
    assert lab.gauges() == (0, 0)


def test_an_overloaded_server(tmp_path: Path) -> None:
    path = "/admission/validate"
    with (
        serving(tmp_path, "--max-in-flight", 1, "--max-queue", 1) as server,
        Gate() as gate,
        server.connect() as running,
        server.connect() as queued,
        server.connect() as other,
    ):
        running.request("POST", path, gate.review("waits"))
        gate.await_policy()
        queued.request("POST", f"{path}?timeout=1s", review())
        assert queued.is_silent()
        rejected = other.post(path, review())
        assert (rejected.status, rejected.headers["retry-after"], rejected.closes) == (429, "1", False)
        assert other.post("/audit", b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[]}').status == 200
        late = queued.reply()
        response = late.json()["response"]
        assert (late.status, response["allowed"], response["status"]["code"]) == (200, False, 503)
        gate.open()
        assert running.reply().json()["response"]["allowed"] is True
        assert other.post(path, review()).json()["response"]["allowed"] is True

"""Whose turn it is; and what callers see of it, at a real server."""

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


class Counted:
    """Turns, and what their gauges say."""

    def __init__(self, in_flight: int, queue: int) -> None:
        meters = MetricRegistry()
        self.turns = ConcurrencyLimiter(Limits(max_in_flight=in_flight, max_queue=queue), meters)
        self._meters = meters

    def gauges(self) -> tuple[float, float]:
        found = [self._meters.by_name[f"webhooks_reviews_{name}"] for name in ("in_flight", "queued")]
        flying, queued = (meter.values[()] for meter in found if isinstance(meter, Gauge))
        return flying, queued


def on_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(asyncio.wait_for(test(), 5))


def test_turns_come_at_once_while_there_are_any() -> None:
    counted = Counted(2, 0)
    assert counted.gauges() == (0, 0)
    assert counted.turns.take() is None
    assert not counted.turns.full
    assert counted.turns.take() is None
    assert counted.turns.full
    assert counted.gauges() == (2, 0)
    with pytest.raises(Overloaded):
        counted.turns.take()
    counted.turns.give_back()
    assert not counted.turns.full
    assert counted.gauges() == (1, 0)
    assert counted.turns.take() is None


@on_loop
async def test_others_wait_in_order() -> None:
    counted = Counted(1, 2)
    turns, came = counted.turns, []
    assert turns.take() is None

    async def wait(name: str, turn: asyncio.Future[None] | None) -> None:
        assert turn is not None
        await turns.wait(turn, perf_counter() + 5)
        came.append(name)

    tasks = [asyncio.create_task(wait(name, turns.take())) for name in "ab"]
    assert turns.full
    assert counted.gauges() == (1, 2)
    with pytest.raises(Overloaded):
        turns.take()
    for number in (1, 2):
        turns.give_back()
        await tasks[number - 1]
        assert came == ["a", "b"][:number]
        assert counted.gauges() == (1, 2 - number)
        assert not turns.full
    turns.give_back()
    assert counted.gauges() == (0, 0)


@on_loop
async def test_a_turn_that_does_not_come_in_time() -> None:
    counted = Counted(1, 2)
    turns = counted.turns
    assert turns.take() is None
    late, next_ = turns.take(), turns.take()
    assert late is not None
    assert next_ is not None
    for deadline in (perf_counter() + SOON, perf_counter() - 1):
        if late.cancelled():
            late = turns.take()
            assert late is not None
        with pytest.raises(Overloaded):
            await turns.wait(late, deadline)
    assert counted.gauges() == (1, 1)
    turns.give_back()
    await turns.wait(next_, perf_counter() + 5)
    assert counted.gauges() == (1, 0)


@on_loop
async def test_whoever_goes_while_waiting_leaves_the_queue() -> None:
    counted = Counted(1, 1)
    turn = counted.turns.take() or counted.turns.take()
    assert turn is not None
    task = asyncio.create_task(counted.turns.wait(turn, perf_counter() + 5))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counted.gauges() == (1, 0)
    counted.turns.give_back()
    assert counted.gauges() == (0, 0)


def test_overload_at_a_server(tmp_path: Path) -> None:
    path = "/admission/validate"
    with (
        serving(tmp_path, "--max-in-flight", 1, "--max-queue", 1) as server,
        Gate() as gate,
        server.connect() as flying,
        server.connect() as queued,
        server.connect() as other,
    ):
        flying.request("POST", path, gate.review("waits"))
        gate.await_policy()
        queued.request("POST", f"{path}?timeout=1s", review())
        assert queued.is_silent()
        reply = other.post(path, review())
        assert (reply.status, reply.headers["retry-after"], reply.closes) == (429, "1", False)
        assert other.post("/audit", b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[]}').status == 200
        late = queued.reply()
        response = late.json()["response"]
        assert (late.status, response["allowed"], response["status"]["code"]) == (200, False, 503)
        gate.open()
        assert flying.reply().json()["response"]["allowed"] is True
        assert other.post(path, review()).json()["response"]["allowed"] is True

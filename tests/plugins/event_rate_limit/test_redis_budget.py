"""Tests of budgets that are shared in Redis, and of failures of Redis."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from webhooks.observability.metrics import MetricRegistry
from webhooks.plugins.event_rate_limit import redis_budget
from webhooks.plugins.event_rate_limit.redis_budget import RedisBudget
from webhooks.plugins.event_rate_limit.token_bucket import Limit

from ...support.redis_server import RedisServer, needs_redis, redis_settings, run

MOST = 2**31 - 1
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
TIMEOUT = 0.05  # seconds; tests that do not depend on it use more, for busy machines
SLACK = 0.25  # seconds that a busy machine may take longer
TAKEN, LOCAL = [0], [-1]
SECRET = "hunter2"

UNAVAILABLE = "Redis is unavailable, each process applies event rate limits by itself: "
AVAILABLE = "Redis is available again, event rate limits are shared"

STORE_UP = "webhooks_event_rate_limit_store_up"
STORE_SECONDS = "webhooks_event_rate_limit_store_seconds"
LOCAL_DECISIONS = "webhooks_event_rate_limit_local_decisions"


class Local:
    """A local budget whose decisions differ from those of Redis."""

    def take(self, keys: Sequence[str]) -> list[int]:
        return LOCAL * len(keys)


class Lab:
    """A budget, and figures of its decisions."""

    def __init__(
        self, url: str, *limits: Limit, folder: Path | None = None, timeout: str = "1s", **fields: str
    ) -> None:
        self.metrics = MetricRegistry()
        self.limits = limits or (limit(MOST, MOST),)
        settings = redis_settings(url, folder, timeout=timeout, **fields)
        self.budget = RedisBudget(self.limits, settings, Local(), self.metrics)
        self.decisions = 0
        self.slowest = 0.0

    async def take(self) -> list[int]:
        started = time.perf_counter()
        waits = await self.budget.take(["a"] * len(self.limits))
        self.slowest = max(self.slowest, time.perf_counter() - started)
        self.decisions += 1
        return waits

    async def shared(self) -> bool:
        """Decide. Whether Redis did it."""
        return await self.take() != LOCAL * len(self.limits)

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Decide repeatedly until a condition holds."""
        deadline = time.perf_counter() + seconds
        while not condition():
            assert time.perf_counter() < deadline, f"not within {seconds} s"
            await self.take()
            await asyncio.sleep(0.005)

    @property
    def up(self) -> float | None:
        return self.metrics.by_name[STORE_UP].values.get(())

    @property
    def local_decisions(self) -> float:
        return self.metrics.by_name[LOCAL_DECISIONS].values.get((), 0)

    @property
    def timed(self) -> int:
        return sum(sum(buckets.counts) for buckets in self.metrics.by_name[STORE_SECONDS].values.values())


@asynccontextmanager
async def lab(url: str, *limits: Limit, folder: Path | None = None, **fields: str) -> Any:
    own = Lab(url, *limits, folder=folder, **fields)
    try:
        yield own
    finally:
        await own.budget.close()


def limit(qps: int, burst: int) -> Limit:
    return Limit("Namespace", qps, burst, 4096)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {record.levelno for record in caplog.records} <= {logging.WARNING}
    return [record.getMessage() for record in caplog.records]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@needs_redis
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_redis_decides(server: RedisServer, caplog: pytest.LogCaptureFixture, loop: Any) -> None:
    async def scenario() -> None:
        async with lab(server.url, limit(1, 2), limit(1, 1)) as own:
            assert own.up is None
            assert await own.take() == [0, 0]
            [none, wait] = await own.take()
            assert none == 0
            assert 0.5e9 < wait <= 1e9
            assert all(wait > 0 for wait in await own.take())
            assert (own.up, own.local_decisions, own.timed) == (1, 0, 3)
            [seconds] = own.metrics.by_name[STORE_SECONDS].values.values()
            assert 0 < seconds.sum < 3

    run(scenario, loop)
    assert not lines(caplog)


@needs_redis
def test_two_budgets_share_the_limits(server: RedisServer) -> None:
    async def scenario() -> None:
        async with lab(server.url, limit(1, 500)) as one, lab(f"unix://{server.path}", limit(1, 500)) as other:
            started = time.perf_counter()
            waits = await asyncio.gather(*(each.take() for _ in range(500) for each in (one, other)))
            passed = time.perf_counter() - started
            accepted = waits.count(TAKEN)
            assert accepted == 500 if passed < 1 else 500 <= accepted <= 500 + passed
            assert one.local_decisions == other.local_decisions == 0
            assert one.timed == other.timed == 500

    run(scenario)


@needs_redis
def test_prefixes_separate_budgets(server: RedisServer) -> None:
    async def scenario() -> None:
        async with lab(server.url, limit(1, 1)) as one, lab(server.url, limit(1, 1), prefix="other") as other:
            assert await one.take() == await other.take() == TAKEN
            assert await one.take() != TAKEN

    run(scenario)


Words = tuple[str | int, ...]


def command(*arguments: str | int, **options: str) -> Callable[[RedisServer], object]:
    return lambda server: server.request(*arguments, **options)


def keep_busy(server: RedisServer) -> None:
    server.request("CONFIG", "SET", "busy-reply-threshold", 1)
    server.send("EVAL", "while true do end", 0)


def lock(server: RedisServer) -> None:
    server.request("CONFIG", "SET", "requirepass", SECRET)
    server.request("CLIENT", "KILL", "TYPE", "normal", password=SECRET)


DISTURBANCES: dict[str, tuple[Callable[[RedisServer], object], Callable[[RedisServer], object], str]] = {
    "killed": (RedisServer.kill, RedisServer.start, "the server closed the connection"),
    "paused": (RedisServer.pause, RedisServer.resume, "no reply in time"),
    "slow": (command("CLIENT", "PAUSE", 600_000, "WRITE"), command("CLIENT", "UNPAUSE"), "no reply in time"),
    "busy": (keep_busy, command("SCRIPT", "KILL"), ""),
    "full": (
        command("CONFIG", "SET", "maxmemory", 1),
        command("CONFIG", "SET", "maxmemory", 0),
        "OOM command not allowed",
    ),
    "read-only": (command("REPLICAOF", "127.0.0.1", 1), command("REPLICAOF", "NO", "ONE"), "READONLY"),
    "locked": (lock, command("CONFIG", "SET", "requirepass", "", password=SECRET), "the server closed the connection"),
}


@needs_redis
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize(("disturb", "repair", "reason"), DISTURBANCES.values(), ids=DISTURBANCES)
def test_local_limits_apply_while_redis_is_unavailable(
    server: RedisServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    disturb: Any,
    repair: Any,
    reason: str,
    loop: Any,
) -> None:
    monkeypatch.setattr(redis_budget, "_RETRY_INTERVAL", 0.25)  # to save time

    async def scenario() -> None:
        async with lab(server.url, timeout="50ms") as own:
            assert await own.shared()
            disturb(server)
            await own.until(lambda: own.up == 0, seconds=1.0)
            started = time.perf_counter()
            assert [await own.take() for _ in range(1000)] == [LOCAL] * 1000
            assert time.perf_counter() - started < 20 * TIMEOUT  # not a timeout for each decision
            assert own.local_decisions >= 1000
            repair(server)
            await own.until(lambda: own.up == 1, seconds=5.0)
            assert await own.shared()
            assert own.slowest < TIMEOUT + SLACK
            assert own.timed + own.local_decisions == own.decisions

    run(scenario, loop)
    unavailable, available = lines(caplog)
    assert unavailable.startswith(UNAVAILABLE)
    assert reason in unavailable
    assert available == AVAILABLE


@needs_redis
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_local_limits_apply_if_redis_is_down_at_the_start(
    server: RedisServer, caplog: pytest.LogCaptureFixture, loop: Any
) -> None:
    server.kill()

    async def scenario() -> None:
        async with lab(server.url, timeout="50ms") as own:
            assert await asyncio.gather(*(own.take() for _ in range(100))) == [LOCAL] * 100
            assert own.up == 0
            server.start()
            await own.until(lambda: own.up == 1, seconds=5.0)
            assert await own.shared()
            assert own.slowest < TIMEOUT + SLACK

    run(scenario, loop)
    unavailable, available = lines(caplog)
    assert unavailable.startswith(f"{UNAVAILABLE}Connect")
    assert available == AVAILABLE


@needs_redis
def test_a_server_that_never_replies_is_unavailable(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    server.pause()

    async def scenario() -> None:
        async with lab(server.url, timeout="50ms") as own:
            assert await asyncio.gather(*(own.take() for _ in range(100))) == [LOCAL] * 100
            assert own.slowest < TIMEOUT + SLACK
            server.resume()
            await own.until(lambda: own.up == 1, seconds=5.0)

    run(scenario)
    assert len(lines(caplog)) == 2


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_server_that_is_not_reachable_in_time_is_unavailable(caplog: pytest.LogCaptureFixture, loop: Any) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as peer:
            port = peer.sockets[0].getsockname()[1]
            async with lab(f"rediss://127.0.0.1:{port}", timeout="50ms") as own:
                assert await asyncio.gather(*(own.take() for _ in range(100))) == [LOCAL] * 100
                assert own.slowest < TIMEOUT + SLACK
                assert own.up == 0

    run(scenario, loop)
    assert lines(caplog) == [f"{UNAVAILABLE}not reachable in time"]


@needs_redis
@pytest.mark.parametrize("flush", [("FLUSHALL",), ("SCRIPT", "FLUSH")])
def test_a_server_that_is_flushed_stays_in_use(
    server: RedisServer, caplog: pytest.LogCaptureFixture, flush: Words
) -> None:
    async def scenario() -> None:
        async with lab(server.url, limit(1, 3)) as own:
            assert await own.take() == TAKEN
            server.request(*flush)
            waits = await asyncio.gather(*(own.take() for _ in range(10)))
            assert waits.count(TAKEN) == (3 if flush == ("FLUSHALL",) else 2)
            assert own.local_decisions == 0

    run(scenario)
    assert not lines(caplog)


@needs_redis
def test_a_fast_restart_is_not_reported(
    server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_budget, "_RETRY_INTERVAL", 0.0)  # every lost connection is replaced without a warning

    async def scenario() -> None:
        async with lab(server.url) as own:
            assert await own.shared()
            server.kill()
            server.start()
            await own.until(lambda: own.timed > 1)
            assert own.local_decisions <= 1

    run(scenario)
    assert not lines(caplog)


@needs_redis
def test_a_closed_idle_connection_is_replaced(
    server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_budget, "_RETRY_INTERVAL", 0.0)

    async def scenario() -> None:
        async with lab(server.url) as own:
            assert await own.shared()
            for _ in range(5):
                server.request("CLIENT", "KILL", "TYPE", "normal")
                server.pause()
                await asyncio.sleep(0.01)  # the end of the connection is noticed
                waiting = asyncio.create_task(own.shared())
                await asyncio.sleep(0)
                server.resume()
                assert await waiting
            assert own.local_decisions == 0

    run(scenario)
    assert not lines(caplog)


@needs_redis
def test_a_server_that_closes_connections_is_unavailable(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with lab(server.url) as own:
            assert await own.shared()
            server.request("CLIENT", "KILL", "TYPE", "normal")
            await own.until(lambda: own.up == 0)
            await own.until(lambda: own.up == 1)
            received = server.request("INFO", "stats").partition("total_connections_received:")[2].split()[0]
            assert int(received) < 10

    run(scenario)
    assert len(lines(caplog)) == 2


async def check_decisions(budget: RedisBudget) -> None:
    """Check that each of many concurrent decisions belongs to its key, for limits of one token."""
    await budget.take(["empty"])
    keys = [f"full-{number}" if number % 3 else "empty" for number in range(200)]
    waits = await asyncio.gather(*(budget.take([key]) for key in keys))
    assert [wait > 0 for [wait] in waits] == [key == "empty" for key in keys]


@needs_redis
@pytest.mark.parametrize("iterations", range(4))
def test_cancelled_decisions_do_not_affect_others(server: RedisServer, iterations: int) -> None:
    async def scenario() -> None:
        async with lab(server.url, limit(1, 1)) as own:
            assert await own.take() == TAKEN
            tasks = [asyncio.create_task(own.take()) for _ in range(100)]
            for _ in range(iterations):
                await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await check_decisions(own.budget)
            assert all(wait > 0 for [wait] in await asyncio.gather(*tasks[1::2]))

    run(scenario)


@needs_redis
def test_late_replies_are_ignored(server: RedisServer) -> None:
    async def scenario() -> None:
        async with lab(server.url, limit(1, 1), timeout="50ms") as own:
            assert await own.take() == TAKEN
            server.pause()
            assert await asyncio.gather(*(own.take() for _ in range(100))) == [LOCAL] * 100
            server.resume()
            await own.until(lambda: own.up == 1)
            await check_decisions(own.budget)

    run(scenario)


@needs_redis
def test_a_closed_budget_is_local(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        for asked in (False, True):
            own = Lab(server.url, timeout="50ms")
            if asked:
                assert await own.shared()
            server.pause()
            waiting = asyncio.create_task(own.take())
            await asyncio.sleep(0.01)
            await own.budget.close()
            assert await waiting == await own.take() == LOCAL
            assert own.slowest < TIMEOUT + SLACK
            server.resume()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            await own.budget.close()

    run(scenario)
    assert not lines(caplog)


@needs_redis
def test_secrets_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    password = tmp_path / "password"
    password.write_text(SECRET)
    # Without a command AUTH, the reply of the server contains the password.
    with RedisServer("--rename-command", "AUTH", "") as server:
        own = Lab(server.url, folder=tmp_path, passwordFile="password")

        async def scenario() -> None:
            assert not await own.shared()
            await own.budget.close()

        run(scenario)
    assert lines(caplog) == [f"{UNAVAILABLE}authentication failed: ERR"]
    assert SECRET not in caplog.text


@needs_redis
def test_the_password_is_read_for_each_attempt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_budget, "_RETRY_INTERVAL", 0.02)
    password = tmp_path / "password"
    password.write_text("old")

    async def scenario(server: RedisServer) -> None:
        async with lab(server.url, folder=tmp_path, passwordFile="password") as own:
            assert not await own.shared()
            password.unlink()
            await asyncio.sleep(0.1)  # some attempts without the file
            password.write_text(SECRET)
            await own.until(lambda: own.up == 1)

    with RedisServer("--requirepass", SECRET) as server:
        run(lambda: scenario(server))
    assert lines(caplog) == [f"{UNAVAILABLE}authentication failed: WRONGPASS", AVAILABLE]

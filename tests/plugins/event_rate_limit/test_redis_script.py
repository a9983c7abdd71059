"""Tests of the script that decides in Redis, against exact arithmetic in fractions."""

import asyncio
import math
import random
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hiredis import Reader

from webhooks.plugins.event_rate_limit.redis_connection import ErrorReply, RedisConnection, encode_command
from webhooks.plugins.event_rate_limit.redis_script import TAKE, Script
from webhooks.plugins.event_rate_limit.token_bucket import Limit

from ...support.redis_server import RedisServer, needs_redis, run

pytestmark = needs_redis

SECOND = 10**6  # microseconds
NO_DEADLINE = math.inf
MOST = 2**31 - 1
TODAY = 1_800_000_000 * SECOND

# The script with the time as the last argument, instead of the clock.
WITH_TIME = "local now = tonumber(ARGV[#ARGV])\n" + TAKE


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


class Reference:
    """The rule in fractions: levels and their times."""

    def __init__(self, qps: int, burst: int) -> None:
        self.qps, self.burst = qps, burst
        self.levels: dict[str, tuple[Fraction, int]] = {}

    def take(self, key: str, now: int) -> int:
        level, before = self.levels.get(key, (Fraction(self.burst), now))
        level = min(Fraction(self.burst), level + Fraction((now - before) * self.qps, SECOND))
        if level < 1:
            return math.ceil((1 - level) * SECOND / self.qps)
        self.levels[key] = (level - 1, now)
        return 0


async def connect(server: RedisServer) -> RedisConnection:
    connection = RedisConnection(Reader(replyError=ErrorReply))
    await asyncio.get_running_loop().create_unix_connection(lambda: connection, server.path)
    return connection


async def request(server: RedisServer, commands: Sequence[bytes]) -> list[Any]:
    """The replies to commands that are sent together."""
    connection = await connect(server)
    try:
        return await asyncio.gather(*(connection.request(command, NO_DEADLINE) for command in commands))
    finally:
        connection.close("")
        await connection.closed


def limit(qps: int, burst: int) -> Limit:
    return Limit("Namespace", qps, burst, 4096)


LIMITS = {
    "slow": (3, 10),
    "one by one": (1, 1),
    "quick": (5000, 10_000),
    "odd": (7, 13),
    "a third of a microsecond": (3_000_000, 5),
    "huge": (MOST, MOST),
    "huge burst": (1, MOST),
    "huge rate": (MOST, 1),
}


def readings(dice: random.Random, count: int) -> list[int]:
    """The readings of a clock that stops, advances, leaps and goes back."""
    now, found = TODAY, []
    for _ in range(count):
        step = dice.random()
        if step < 0.4:
            now += dice.randrange(4)
        elif step < 0.7:
            now += dice.randrange(SECOND // 3)
        elif step < 0.75:
            now += dice.choice([SECOND, 60 * SECOND, 86_400 * SECOND])
        elif step < 0.85:
            now -= dice.randrange(SECOND)
        found.append(now)
    return found


@pytest.mark.parametrize("number", range(25))
def test_decisions_and_waits_are_exact(server: RedisServer, number: int) -> None:
    dice = random.Random(number)
    chosen = [dice.choice(list(LIMITS.values())) for _ in range(dice.randint(1, 4))]
    numbers = [each for pair in chosen for each in pair]
    references = [Reference(*pair) for pair in chosen]
    times = readings(dice, 1000)
    names = [[f"key-{number}-{index}-{dice.randrange(3)}" for index in range(len(chosen))] for _ in times]
    commands = [
        encode_command("EVAL", WITH_TIME, len(chosen), *keys, *numbers, now)
        for keys, now in zip(names, times, strict=True)
    ]
    replies = run(lambda: request(server, commands))
    expected = [
        [reference.take(key, now) for reference, key in zip(references, keys, strict=True)]
        for keys, now in zip(names, times, strict=True)
    ]
    assert replies == expected


@pytest.mark.parametrize(("qps", "burst"), LIMITS.values(), ids=LIMITS)
def test_a_clock_that_goes_back_yields_no_tokens(server: RedisServer, qps: int, burst: int) -> None:
    key = f"back-{qps}-{burst}"

    def take(*times: int) -> list[int]:
        commands = [encode_command("EVAL", WITH_TIME, 1, key, qps, burst, time_) for time_ in times]
        return [wait for [wait] in run(lambda: request(server, commands))]

    burst_and_none = [0] * min(burst, 20)
    assert take(*[TODAY] * len(burst_and_none)) == burst_and_none
    if burst <= 20:
        again = [TODAY - 1, TODAY, TODAY - SECOND, TODAY, TODAY - 86_400 * SECOND, 0, TODAY]
        assert all(take(*again))
        assert take(TODAY + math.ceil(SECOND / qps)) == [0]


def test_changed_settings_apply_to_existing_buckets(server: RedisServer) -> None:
    def take(qps: int, burst: int, *times: int) -> list[int]:
        commands = [encode_command("EVAL", WITH_TIME, 1, "changed", qps, burst, time_) for time_ in times]
        return [wait for [wait] in run(lambda: request(server, commands))]

    assert take(1, 100, TODAY) == [0]
    assert take(1, 2, TODAY, TODAY, TODAY) == [0, 0, SECOND]  # cut to a smaller burst
    assert take(1, 100, TODAY, TODAY + SECOND) == [SECOND, 0]  # a larger one yields no tokens at once
    assert take(100, 100, TODAY + SECOND) == [SECOND // 100]
    assert take(100, 100, *[TODAY + 2 * SECOND] * 101) == [0] * 100 + [SECOND // 100]


def test_commands_take_a_token_for_each_limit(server: RedisServer) -> None:
    script = Script([limit(1, 2), limit(1, 3), Limit("User", 1, 1, 4096)], "both")
    keys = ["team-a", "team-a", "j\u00e4ne"]
    replies = run(lambda: request(server, [script.take_with_source(keys), *[script.take(keys)] * 3]))
    assert [[wait == 0 for wait in waits] for waits in replies] == [
        [True, True, True],
        [True, True, False],
        [False, True, False],
        [False, False, False],
    ]
    assert all(0 <= wait <= SECOND for waits in replies for wait in waits)
    names = ["{both}:0/Namespace:team-a", "{both}:1/Namespace:team-a", "{both}:2/User:j\u00e4ne"]
    assert sorted(server.request("KEYS", "{both}:*")) == names


def test_a_server_without_the_script(server: RedisServer) -> None:
    script = Script([limit(1, 1)], "without-script")
    server.request("SCRIPT", "FLUSH")
    [first, second] = run(lambda: request(server, [script.take(["a"]), script.take_with_source(["a"])]))
    assert isinstance(first, ErrorReply)
    assert str(first).startswith("NOSCRIPT")
    assert second == [0]


@pytest.mark.parametrize(
    ("qps", "burst", "takes", "milliseconds"),
    [
        (1, 1, 1, 1000),
        (10, 100, 1, 100),
        (10, 100, 50, 5000),
        (1000, 10, 1, 1),
        (1, MOST, 3, 3000),
        (MOST, MOST, 3, 1),
    ],
)
def test_a_key_expires_a_second_after_its_bucket_is_full(
    server: RedisServer, qps: int, burst: int, takes: int, milliseconds: int
) -> None:
    script = Script([limit(qps, burst)], f"life-{qps}-{burst}-{takes}")
    started = time.monotonic()
    run(lambda: request(server, [script.take_with_source(["a"])] * takes))
    left = server.request("PTTL", f"{{life-{qps}-{burst}-{takes}}}:0/Namespace:a")
    passed = (time.monotonic() - started) * 1000
    assert milliseconds + 1000 - passed - 2 <= left <= milliseconds + 1000


def test_a_denial_does_not_postpone_the_expiry(server: RedisServer) -> None:
    script = Script([limit(1, 1)], "denied")
    run(lambda: request(server, [script.take_with_source(["a"])]))
    end = server.request("PEXPIRETIME", "{denied}:0/Namespace:a")
    [[wait]] = run(lambda: request(server, [script.take(["a"])]))
    assert 0 < wait <= SECOND
    assert server.request("PEXPIRETIME", "{denied}:0/Namespace:a") == end


def test_waits_are_exact(server: RedisServer) -> None:
    script = Script([limit(20, 1)], "waits")

    async def scenario() -> None:
        connection = await connect(server)
        assert await connection.request(script.take_with_source(["a"]), NO_DEADLINE) == [0]
        started = time.perf_counter()
        [wait] = await connection.request(script.take(["a"]), NO_DEADLINE)
        assert 0 < wait <= SECOND // 20
        while await connection.request(script.take(["a"]), NO_DEADLINE) != [0]:
            pass
        assert time.perf_counter() - started >= wait / SECOND
        connection.close("")
        await connection.closed

    run(scenario)

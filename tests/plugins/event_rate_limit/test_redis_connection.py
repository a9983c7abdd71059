import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop
from hiredis import Reader

from webhooks.plugins.event_rate_limit.redis_connection import Connection, Refusal, StoreError, command, described

from .redis_server import RedisServer, needs_redis, run

NEVER = math.inf
SOON = 0.05  # seconds, of the deadlines that are to be missed
LATER = 0.25  # seconds, of those that are to be kept, on a busy machine too
SLACK = 0.2  # seconds that a busy machine may take longer

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
on_every_loop = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def within(seconds: float) -> float:
    return time.perf_counter() + seconds


def connection() -> Connection:
    return Connection(Reader(protocolError=StoreError, replyError=Refusal, encoding="utf-8"))


async def connected(server: RedisServer) -> Connection:
    found = connection()
    await asyncio.get_running_loop().create_unix_connection(lambda: found, server.path)
    return found


async def ended(connection: Connection) -> None:
    connection.end("the test is over")
    await connection.closed


async def with_peer(handle: Handler, scenario: Callable[[Connection], Awaitable[None]]) -> None:
    """Something else than a Redis server."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    peer = await asyncio.start_server(handled, "127.0.0.1", 0)
    async with peer:
        found = connection()
        await asyncio.get_running_loop().create_connection(lambda: found, *peer.sockets[0].getsockname())
        await scenario(found)
        await ended(found)


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("PING",), b"*1\r\n$4\r\nPING\r\n"),
        (("SET", "a b", 17), b"*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$2\r\n17\r\n"),
        (("ECHO", "j\u00e4ne"), "*2\r\n$4\r\nECHO\r\n$5\r\nj\u00e4ne\r\n".encode()),
        (("ECHO", ""), b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"),
        (("ECHO", "\r\n*1"), b"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n*1\r\n"),
    ],
)
def test_commands_are_counted_and_never_escaped(words: tuple[str | int, ...], sent: bytes) -> None:
    assert command(*words) == sent


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError("Multiple exceptions: ..."), "Multiple exceptions: ..."),
        (ValueError("no port"), "no port"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_every_error_has_a_line(error: Exception, line: str) -> None:
    assert described(error) == line


@needs_redis
@on_every_loop
def test_each_gets_the_answer_to_its_own_question(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        for _ in range(5):
            questions = [str(number) for number in range(200)]
            answers = await asyncio.gather(*(asked.ask(command("ECHO", each), within(5)) for each in questions))
            assert answers == questions
        await ended(asked)

    run(scenario, loop)


@needs_redis
@on_every_loop
def test_who_no_longer_waits_leaves_the_answers_of_others_alone(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        futures = [asked.ask(command("ECHO", number), within(5)) for number in range(100)]
        for future in futures[::3]:
            future.cancel()
        await asyncio.sleep(0)  # they are sent
        for future in futures[1::3]:
            future.cancel()
        assert await asyncio.gather(*futures[2::3]) == [str(number) for number in range(2, 100, 3)]
        await ended(asked)

    run(scenario, loop)


@needs_redis
def test_what_is_asked_in_one_turn_goes_out_together() -> None:
    writes: list[bytes] = []

    class Transport(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            writes.append(bytes(data))

        def abort(self) -> None:
            pass

    async def scenario() -> None:
        asked = connection()
        asked.connection_made(Transport())
        for each in ("a", "b"):
            asked.ask(command(each), NEVER).cancel()
        await asyncio.sleep(0)
        asked.ask(command("c"), NEVER).cancel()
        await asyncio.sleep(0)
        asked.end("")

    run(scenario)
    assert writes == [command("a") + command("b"), command("c")]


@needs_redis
def test_an_error_is_an_answer(server: RedisServer) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        refusal = await asked.ask(command("NONSENSE"), within(5))
        assert isinstance(refusal, Refusal)
        assert str(refusal).startswith("ERR unknown command")
        assert await asked.ask(command("ECHO", "on"), within(5)) == "on"
        await ended(asked)

    run(scenario)


@needs_redis
@on_every_loop
def test_with_one_late_answer_all_are_given_up(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        assert await asked.ask(command("ECHO", "a"), within(5)) == "a"
        server.pause()
        try:
            started = time.perf_counter()
            questions = [
                asked.ask(command("ECHO", number), within(seconds)) for number, seconds in enumerate((5, SOON, 5))
            ]
            answers = await asyncio.gather(*questions, return_exceptions=True)
            assert SOON * 0.9 <= time.perf_counter() - started <= SOON + SLACK
        finally:
            server.resume()
        assert list(map(str, answers)) == ["it did not answer in time"] * 3
        assert {type(answer) for answer in answers} == {StoreError}
        with pytest.raises(StoreError, match="did not answer in time"):
            asked.ask(command("ECHO", "b"), within(5))
        assert asked.lost.result() == "it did not answer in time"
        await asked.closed

    run(scenario, loop)


@needs_redis
@on_every_loop
def test_an_answer_is_not_late_that_the_loop_has_not_read(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        for _ in range(3):
            answer = asked.ask(command("ECHO", "here"), within(SOON))
            await asyncio.sleep(0.005)  # it goes out, and somebody then keeps the loop
            again = asked.ask(command("ECHO", "again"), within(SOON))
            await asyncio.sleep(0)
            time.sleep(SOON * 1.5)  # noqa: ASYNC251
            assert (await answer, await again) == ("here", "again")
        await ended(asked)

    run(scenario, loop)


@needs_redis
@on_every_loop
def test_a_connection_in_use_outlives_the_deadlines_of_what_was_answered(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        until = within(2 * LATER)
        while time.perf_counter() < until:
            assert await asked.ask(command("ECHO", "a"), within(LATER)) == "a"
            await asyncio.sleep(0.001)
        await asyncio.sleep(1.2 * LATER)
        assert await asked.ask(command("ECHO", "b"), within(LATER)) == "b"
        await ended(asked)

    run(scenario, loop)


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def speaks_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()
    await reader.read()


async def speaks_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"+one\r\n-ERR two\r\n")
    await writer.drain()
    await reader.read()


@pytest.mark.parametrize(
    ("peer", "first", "reason"),
    [
        (hangs_up, "it closed the connection", "it closed the connection"),
        (speaks_http, "it does not speak the Redis protocol", "it does not speak the Redis protocol"),
        (speaks_twice, "one", "it says, unasked: ERR two"),
    ],
)
def test_a_peer_that_is_no_store_is_lost(peer: Handler, first: str, reason: str) -> None:
    async def scenario(asked: Connection) -> None:
        [answer] = await asyncio.gather(asked.ask(command("PING"), within(5)), return_exceptions=True)
        assert str(answer) == first
        assert await asked.lost == reason

    run(lambda: with_peer(peer, scenario))


@needs_redis
def test_a_connection_ends_once(server: RedisServer) -> None:
    async def scenario() -> None:
        asked = await connected(server)
        answer = asked.ask(command("PING"), within(5))
        asked.end("first")
        asked.end("second")
        with pytest.raises(StoreError, match="first"):
            await answer
        await asked.closed
        assert asked.lost.result() == "first"

    run(scenario)

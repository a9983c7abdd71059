"""Tests of connections to Redis."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import uvloop
from hiredis import Reader

from webhooks.plugins.event_rate_limit.redis_connection import (
    ErrorReply,
    RedisConnection,
    RedisError,
    encode_command,
)

from ...support.redis_server import RedisServer, needs_redis, run

NO_DEADLINE = math.inf
SOON = 0.05  # seconds: deadlines that are missed
LATER = 0.25  # seconds: deadlines that are met, also on a busy machine
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


def create_connection() -> RedisConnection:
    return RedisConnection(Reader(protocolError=RedisError, replyError=ErrorReply, encoding="utf-8"))


async def connect(server: RedisServer) -> RedisConnection:
    connection = create_connection()
    await asyncio.get_running_loop().create_unix_connection(lambda: connection, server.path)
    return connection


async def close(connection: RedisConnection) -> None:
    connection.close("the test is over")
    await connection.closed


async def with_peer(handle: Handler, scenario: Callable[[RedisConnection], Awaitable[None]]) -> None:
    """Run a scenario with a connection to another kind of server."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        finally:
            writer.close()

    peer = await asyncio.start_server(handled, "127.0.0.1", 0)
    async with peer:
        connection = create_connection()
        address = peer.sockets[0].getsockname()
        await asyncio.get_running_loop().create_connection(lambda: connection, *address)
        await scenario(connection)
        await close(connection)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        (("PING",), b"*1\r\n$4\r\nPING\r\n"),
        (("SET", "a b", 17), b"*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$2\r\n17\r\n"),
        (("ECHO", "j\u00e4ne"), "*2\r\n$4\r\nECHO\r\n$5\r\nj\u00e4ne\r\n".encode()),
        (("ECHO", ""), b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"),
        (("ECHO", "\r\n*1"), b"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n*1\r\n"),
    ],
)
def test_commands(arguments: tuple[str | int, ...], sent: bytes) -> None:
    assert encode_command(*arguments) == sent


@needs_redis
@on_every_loop
def test_replies_belong_to_their_requests(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        for _ in range(5):
            texts = [str(number) for number in range(200)]
            replies = await asyncio.gather(
                *(connection.request(encode_command("ECHO", text), within(5)) for text in texts)
            )
            assert replies == texts
        await close(connection)

    run(scenario, loop)


@needs_redis
@on_every_loop
def test_cancelled_requests_do_not_affect_others(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        futures = [connection.request(encode_command("ECHO", number), within(5)) for number in range(100)]
        for future in futures[::3]:
            future.cancel()
        await asyncio.sleep(0)  # the commands are sent
        for future in futures[1::3]:
            future.cancel()
        assert await asyncio.gather(*futures[2::3]) == [str(number) for number in range(2, 100, 3)]
        await close(connection)

    run(scenario, loop)


@needs_redis
def test_commands_of_one_iteration_are_sent_together() -> None:
    writes: list[bytes] = []

    class Transport(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            writes.append(bytes(data))

        def abort(self) -> None:
            pass

    async def scenario() -> None:
        connection = create_connection()
        connection.connection_made(Transport())
        for each in ("a", "b"):
            connection.request(encode_command(each), NO_DEADLINE).cancel()
        await asyncio.sleep(0)
        connection.request(encode_command("c"), NO_DEADLINE).cancel()
        await asyncio.sleep(0)
        connection.close("")

    run(scenario)
    assert writes == [encode_command("a") + encode_command("b"), encode_command("c")]


@needs_redis
def test_an_error_is_a_reply(server: RedisServer) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        error = await connection.request(encode_command("NONSENSE"), within(5))
        assert isinstance(error, ErrorReply)
        assert str(error).startswith("ERR unknown command")
        assert await connection.request(encode_command("ECHO", "on"), within(5)) == "on"
        await close(connection)

    run(scenario)


@needs_redis
@on_every_loop
def test_a_late_reply_fails_all_requests(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        assert await connection.request(encode_command("ECHO", "a"), within(5)) == "a"
        server.pause()
        try:
            started = time.perf_counter()
            requests = [
                connection.request(encode_command("ECHO", number), within(seconds))
                for number, seconds in enumerate((5, SOON, 5))
            ]
            replies = await asyncio.gather(*requests, return_exceptions=True)
            assert SOON * 0.9 <= time.perf_counter() - started <= SOON + SLACK
        finally:
            server.resume()
        assert list(map(str, replies)) == ["no reply in time"] * 3
        assert {type(reply) for reply in replies} == {RedisError}
        with pytest.raises(RedisError, match="no reply in time"):
            connection.request(encode_command("ECHO", "b"), within(5))
        assert connection.lost.result() == "no reply in time"
        await connection.closed

    run(scenario, loop)


@needs_redis
@on_every_loop
def test_a_reply_is_not_late_while_the_loop_is_blocked(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        for _ in range(3):
            reply = connection.request(encode_command("ECHO", "here"), within(SOON))
            await asyncio.sleep(0.005)  # the command is sent; then the loop is blocked
            again = connection.request(encode_command("ECHO", "again"), within(SOON))
            await asyncio.sleep(0)
            time.sleep(SOON * 1.5)  # noqa: ASYNC251
            assert (await reply, await again) == ("here", "again")
        await close(connection)

    run(scenario, loop)


@needs_redis
@on_every_loop
def test_deadlines_of_answered_requests_have_no_effect(server: RedisServer, loop: Any) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        until = within(2 * LATER)
        while time.perf_counter() < until:
            assert await connection.request(encode_command("ECHO", "a"), within(LATER)) == "a"
            await asyncio.sleep(0.001)
        await asyncio.sleep(1.2 * LATER)
        assert await connection.request(encode_command("ECHO", "b"), within(LATER)) == "b"
        await close(connection)

    run(scenario, loop)


async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        (closes, "the server closed the connection", "the server closed the connection"),
        (speaks_http, "not the Redis protocol", "not the Redis protocol"),
        (speaks_twice, "one", "a reply without a request: ERR two"),
    ],
)
def test_other_servers(peer: Handler, first: str, reason: str) -> None:
    async def scenario(connection: RedisConnection) -> None:
        [reply] = await asyncio.gather(connection.request(encode_command("PING"), within(5)), return_exceptions=True)
        assert str(reply) == first
        assert await connection.lost == reason

    run(lambda: with_peer(peer, scenario))


@needs_redis
def test_a_connection_is_closed_once(server: RedisServer) -> None:
    async def scenario() -> None:
        connection = await connect(server)
        reply = connection.request(encode_command("PING"), within(5))
        connection.close("first")
        connection.close("second")
        with pytest.raises(RedisError, match="first"):
            await reply
        await connection.closed
        assert connection.lost.result() == "first"

    run(scenario)

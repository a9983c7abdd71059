"""Answers that are sent together: which ones, in which order, and when at the latest."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from webhooks import AdmissionReview, Allow, create_app, validating
from webhooks.http.outbox import WriteBatcher
from webhooks.server.review_protocol import ReviewProtocol

from ..support.builders import admission_body, written
from ..support.servers import request
from ..support.transports import Line, Recorder, connected

Log = list[tuple[str, bytes]]
Scene = Callable[[WriteBatcher, Recorder, Recorder, Log], Awaitable[None]]


def play(scene: Scene) -> Log:
    """What is written in a scene, up to its end."""
    log: Log = []

    async def run() -> None:
        await scene(WriteBatcher(asyncio.get_running_loop()), Recorder("a", log), Recorder("b", log), log)

    asyncio.run(run())
    return log


def test_answers_leave_when_the_turn_ends() -> None:
    async def scene(outbox: WriteBatcher, a: Recorder, b: Recorder, log: Log) -> None:
        outbox.put(a, b"1")
        outbox.put(b, b"2")
        outbox.put(a, b"3")
        assert log == []
        await asyncio.sleep(0)
        assert log == [("a", b"1"), ("b", b"2"), ("a", b"3")]
        outbox.put(b, b"4")  # and so do those of the next one
        await asyncio.sleep(0)

    assert play(scene)[3:] == [("b", b"4")]


def test_what_is_done_soon_comes_behind_answers() -> None:
    async def scene(outbox: WriteBatcher, a: Recorder, b: Recorder, log: Log) -> None:
        outbox.put(a, b"answer")
        await asyncio.create_task(write(a))

    async def write(transport: Recorder) -> None:
        transport.write(b"of another kind")

    assert play(scene) == [("a", b"answer"), ("a", b"of another kind")]


def test_answers_leave_when_told() -> None:
    async def scene(outbox: WriteBatcher, a: Recorder, b: Recorder, log: Log) -> None:
        outbox.put(a, b"1")
        outbox.flush()
        assert log == [("a", b"1")]
        outbox.put(b, b"2")
        await asyncio.sleep(0)
        outbox.flush()

    assert play(scene) == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize("count", [15, 16, 17, 40])
def test_no_answer_waits_for_more_than_sixteen(count: int) -> None:
    async def scene(outbox: WriteBatcher, a: Recorder, b: Recorder, log: Log) -> None:
        for number in range(count):
            outbox.put(a, b"%d" % number)
        assert len(log) == count // 16 * 16

    async def all_of_it(outbox: WriteBatcher, a: Recorder, b: Recorder, log: Log) -> None:
        await scene(outbox, a, b, log)
        await asyncio.sleep(0)

    assert play(all_of_it) == [("a", b"%d" % number) for number in range(count)]


def test_a_connection_that_ends_gets_no_more() -> None:
    async def scene(outbox: WriteBatcher, a: Recorder, b: Recorder, log: Log) -> None:
        outbox.put(a, b"1")
        outbox.put(b, b"2")
        a.close()
        await asyncio.sleep(0)

    assert play(scene) == [("b", b"2")]


POSTED = request("POST", "/admission/validate", written(admission_body()))


def test_an_answer_that_was_waited_for_does_not_wait_for_others() -> None:
    """The next turn may be that of a policy that keeps the loop."""

    @validating("pods")
    async def slow(review: AdmissionReview) -> Allow:
        await asyncio.sleep(0)
        return Allow()

    async def turn(line: Line) -> None:
        line.protocol.data_received(POSTED)
        while not line.protocol.cycle.response_complete:
            assert line.log == []
            await asyncio.sleep(0)
        assert len(line.log) == 1

    with connected(create_app([slow])) as line:
        line.runner.run(turn(line))


@pytest.mark.parametrize("end", [ReviewProtocol.abort, ReviewProtocol.leave])
def test_an_answer_is_not_taken_back(end: Callable[[ReviewProtocol], None]) -> None:
    with connected(create_app([])) as line:
        line.protocol.data_received(POSTED)
        assert line.log == []
        end(line.protocol)
        assert [b'"allowed":true' in answer for _, answer in line.log] == [True]

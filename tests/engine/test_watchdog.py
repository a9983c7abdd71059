"""The pulse of a loop: it beats while the loop turns, and an alarm comes when it does not."""

import asyncio
import re
import signal
import time
from collections.abc import Callable

import pytest

from webhooks.engine.watchdog import BEAT, PATIENCE, BlockedLoop, LoopWatchdog

LONG = 30.0  # seconds, of what is to be cut short
BACKTRACKING = re.compile(r"(a+)+$")


class Cut(BaseException):
    """What the alarm raises."""


def wait() -> None:
    time.sleep(LONG)


def compute() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


def backtrack() -> None:
    BACKTRACKING.match("a" * 40 + "b")


@pytest.mark.parametrize(("keep", "waits"), [(wait, True), (compute, False), (backtrack, False)])
def test_an_alarm_comes_in_the_midst_of_what_keeps_the_loop(keep: Callable[[], None], waits: bool) -> None:
    stalls: list[BlockedLoop] = []

    def alarmed(stall: BlockedLoop) -> None:
        stalls.append(stall)
        raise Cut

    async def run() -> float:
        with LoopWatchdog(alarmed).beating():
            await asyncio.sleep(0)
            began = time.monotonic()
            with pytest.raises(Cut):
                keep()
            return time.monotonic() - began

    seconds = asyncio.run(run())
    [stall] = stalls
    assert PATIENCE - BEAT <= seconds < 5
    assert PATIENCE <= stall.seconds < 5
    assert (stall.busy < stall.seconds / 2) is waits
    assert stall.frame is not None
    assert stall.frame.f_code is keep.__code__


def test_it_comes_again_for_as_long_as_that_lasts() -> None:
    stalls: list[BlockedLoop] = []

    async def run() -> None:
        with LoopWatchdog(stalls.append).beating():
            while len(stalls) < 3:
                time.sleep(BEAT)  # noqa: ASYNC251

    asyncio.run(run())
    seconds = [stall.seconds for stall in stalls]
    assert seconds == sorted(seconds)
    assert seconds[2] > 2 * PATIENCE


def test_none_comes_to_a_loop_that_turns() -> None:
    stalls: list[BlockedLoop] = []

    async def run() -> None:
        pulse = LoopWatchdog(stalls.append)
        assert pulse.silence == 0
        with pulse.beating():
            for _ in range(5):
                await asyncio.sleep(BEAT)
                assert pulse.silence < 1
        assert pulse.silence == 0

    asyncio.run(run())
    assert stalls == []


def test_nothing_is_left_of_it() -> None:
    before = signal.getsignal(signal.SIGALRM)

    async def run() -> None:
        with LoopWatchdog(lambda _: None).beating():
            assert signal.getsignal(signal.SIGALRM) != before

    asyncio.run(run())
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_silence_grows_while_the_loop_is_kept() -> None:
    async def run() -> float:
        pulse = LoopWatchdog(lambda _: None)
        with pulse.beating():
            time.sleep(2 * BEAT)  # noqa: ASYNC251
            return pulse.silence

    assert 2 * BEAT <= asyncio.run(run()) < 5

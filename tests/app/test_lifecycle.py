"""The life of a server: its phases, and what signals make of them."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from webhooks.app.lifecycle import Lifecycle, Phase

LONG = 3600.0  # seconds


def recording(life: Lifecycle) -> list[tuple[Phase, Phase]]:
    """Which phase was told, and which it was then."""
    seen: list[tuple[Phase, Phase]] = []
    for phase in list(Phase)[1:]:
        life.at(phase, lambda phase=phase: seen.append((phase, life.phase)))
    return seen


@pytest.mark.parametrize("phase", Phase)
def test_it_goes_through_all_phases_on_the_way(phase: Phase) -> None:
    life = Lifecycle()
    seen = recording(life)
    life.advance(phase)
    assert life.phase is phase
    assert seen == [(each, each) for each in Phase if Phase.SERVING < each <= phase]


def test_it_never_goes_back_and_tells_each_phase_once() -> None:
    life = Lifecycle()
    seen = recording(life)
    for phase in (Phase.DRAINING, Phase.LEAVING, Phase.SERVING, Phase.DRAINING):
        life.advance(phase)
    assert life.phase is Phase.DRAINING
    assert [phase for phase, _ in seen] == [Phase.LEAVING, Phase.DRAINING]


def test_who_asks_late_is_told_at_once() -> None:
    life = Lifecycle()
    life.advance(Phase.DRAINING)
    assert recording(life) == [(Phase.LEAVING, Phase.DRAINING), (Phase.DRAINING, Phase.DRAINING)]


def on_loop(scenario: Callable[[Lifecycle], Coroutine[Any, Any, None]], delay: float) -> None:
    async def run() -> None:
        life = Lifecycle()
        life.heed_signals(delay)
        async with asyncio.timeout(10):
            await scenario(life)

    asyncio.run(run())


async def reached(life: Lifecycle, phase: Phase) -> None:
    event = asyncio.Event()
    life.at(phase, event.set)
    await event.wait()


@pytest.mark.parametrize(
    ("number", "delay", "phase"),
    [
        (signal.SIGTERM, LONG, Phase.LEAVING),
        (signal.SIGTERM, 0.01, Phase.DRAINING),
        (signal.SIGTERM, 0.0, Phase.DRAINING),
        (signal.SIGINT, LONG, Phase.DRAINING),
    ],
)
def test_the_first_signal(number: int, delay: float, phase: Phase) -> None:
    async def scenario(life: Lifecycle) -> None:
        os.kill(os.getpid(), number)
        await reached(life, phase)
        assert life.phase is phase

    on_loop(scenario, delay)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_it_at_once(first: int, second: int) -> None:
    async def scenario(life: Lifecycle) -> None:
        os.kill(os.getpid(), first)
        await reached(life, Phase.LEAVING)
        os.kill(os.getpid(), second)
        await reached(life, Phase.ENDED)

    on_loop(scenario, LONG)

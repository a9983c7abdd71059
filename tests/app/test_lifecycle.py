"""The phases of a server, and how signals advance them."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from webhooks.app.lifecycle import Lifecycle, Phase

LONG = 3600.0  # seconds


def record(lifecycle: Lifecycle) -> list[tuple[Phase, Phase]]:
    """Record for which phase a callback was called, and in which phase."""
    calls: list[tuple[Phase, Phase]] = []
    for phase in list(Phase)[1:]:
        lifecycle.on(phase, lambda phase=phase: calls.append((phase, lifecycle.phase)))
    return calls


@pytest.mark.parametrize("phase", Phase)
def test_it_advances_through_all_phases(phase: Phase) -> None:
    lifecycle = Lifecycle()
    calls = record(lifecycle)
    lifecycle.advance(phase)
    assert lifecycle.phase is phase
    assert calls == [(passed, passed) for passed in Phase if Phase.SERVING < passed <= phase]


def test_it_never_goes_back_and_calls_each_callback_once() -> None:
    lifecycle = Lifecycle()
    calls = record(lifecycle)
    for phase in (Phase.DRAINING, Phase.TERMINATING, Phase.SERVING, Phase.DRAINING):
        lifecycle.advance(phase)
    assert lifecycle.phase is Phase.DRAINING
    assert [phase for phase, _ in calls] == [Phase.TERMINATING, Phase.DRAINING]


def test_a_late_callback_is_called_at_once() -> None:
    lifecycle = Lifecycle()
    lifecycle.advance(Phase.DRAINING)
    assert record(lifecycle) == [(Phase.TERMINATING, Phase.DRAINING), (Phase.DRAINING, Phase.DRAINING)]


def run(scenario: Callable[[Lifecycle], Coroutine[Any, Any, None]], delay: float) -> None:
    """Run a scenario on an event loop with signal handlers."""

    async def main() -> None:
        lifecycle = Lifecycle()
        lifecycle.handle_signals(delay)
        async with asyncio.timeout(10):
            await scenario(lifecycle)

    asyncio.run(main())


async def wait_for(lifecycle: Lifecycle, phase: Phase) -> None:
    event = asyncio.Event()
    lifecycle.on(phase, event.set)
    await event.wait()


@pytest.mark.parametrize(
    ("number", "delay", "phase"),
    [
        (signal.SIGTERM, LONG, Phase.TERMINATING),
        (signal.SIGTERM, 0.01, Phase.DRAINING),
        (signal.SIGTERM, 0.0, Phase.DRAINING),
        (signal.SIGINT, LONG, Phase.DRAINING),
    ],
)
def test_the_first_signal(number: int, delay: float, phase: Phase) -> None:
    async def scenario(lifecycle: Lifecycle) -> None:
        os.kill(os.getpid(), number)
        await wait_for(lifecycle, phase)
        assert lifecycle.phase is phase

    run(scenario, delay)


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_stops_the_server_at_once(first: int, second: int) -> None:
    async def scenario(lifecycle: Lifecycle) -> None:
        os.kill(os.getpid(), first)
        await wait_for(lifecycle, Phase.TERMINATING)
        os.kill(os.getpid(), second)
        await wait_for(lifecycle, Phase.STOPPED)

    run(scenario, LONG)

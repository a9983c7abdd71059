"""The phases of a server, from serving to its end. Clients are moved to other servers before connections are closed."""

import asyncio
import signal
from collections.abc import Callable
from enum import IntEnum


class Phase(IntEnum):
    """The phases, in order."""

    SERVING = 0
    TERMINATING = 1
    """The server still serves, but reports that it is not ready, so that clients are sent to other servers."""
    DRAINING = 2
    """The server accepts no connections, and closes each connection after its next response."""
    STOPPED = 3
    """The server waits no longer."""


class Lifecycle:
    """The current phase of a server. It only advances.

    Attributes:
        phase: the current phase.
    """

    def __init__(self) -> None:
        self.phase = Phase.SERVING
        self._callbacks: list[tuple[Phase, Callable[[], object]]] = []

    def on(self, phase: Phase, callback: Callable[[], object]) -> None:
        """Call a function when a phase is reached; at once if it was reached before."""
        if self.phase >= phase:
            callback()
        else:
            self._callbacks.append((phase, callback))

    def advance(self, phase: Phase) -> None:
        """Advance to a phase, through all phases before it. Do nothing if it was reached before."""
        while self.phase < phase:
            self.phase = Phase(self.phase + 1)
            for trigger, callback in self._callbacks:
                if trigger is self.phase:
                    callback()

    def handle_signals(self, delay: float) -> None:
        """Advance on SIGTERM and SIGINT. Requires a running loop.

        SIGTERM comes from an orchestrator, which needs some time to send clients elsewhere. SIGINT comes from a
        terminal, so it acts without delay. A second signal of either kind stops the server at once.

        Args:
            delay: seconds from SIGTERM to `Phase.DRAINING`.
        """
        loop = asyncio.get_running_loop()
        for number, seconds in ((signal.SIGTERM, delay), (signal.SIGINT, 0.0)):
            loop.add_signal_handler(number, self._terminate, seconds)

    def _terminate(self, delay: float) -> None:
        if self.phase > Phase.SERVING:
            self.advance(Phase.STOPPED)
            return
        self.advance(Phase.TERMINATING)
        asyncio.get_running_loop().call_later(delay, self.advance, Phase.DRAINING)

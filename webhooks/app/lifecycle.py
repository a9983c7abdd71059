"""The end of a server, phase by phase: callers learn that it ends before they notice."""

import asyncio
import signal
from collections.abc import Callable
from enum import IntEnum


class Phase(IntEnum):
    """How far the end of a server has come."""

    SERVING = 0
    LEAVING = 1
    """It serves as before, but says that it is not ready, so that callers are sent elsewhere."""
    DRAINING = 2
    """It lets nobody in, and each connection ends with its next answer."""
    ENDED = 3
    """It waits for nobody any more."""


class Lifecycle:
    """The life of a server, which only goes forward.

    Attributes:
        phase: the one it is in.
    """

    def __init__(self) -> None:
        self.phase = Phase.SERVING
        self._calls: list[tuple[Phase, Callable[[], object]]] = []

    def at(self, phase: Phase, call: Callable[[], object]) -> None:
        """Have this called when a phase is reached; at once where it has been."""
        if self.phase >= phase:
            call()
        else:
            self._calls.append((phase, call))

    def advance(self, phase: Phase) -> None:
        """Go on to a phase, through those before it; nowhere where it has been reached."""
        while self.phase < phase:
            self.phase = Phase(self.phase + 1)
            for when, call in self._calls:
                if when is self.phase:
                    call()

    def heed_signals(self, delay: float) -> None:
        """Live as the signals of this process say, on the loop that runs.

        SIGTERM comes from those who also send callers elsewhere, and leaves them some time for that. SIGINT comes from
        a terminal, where somebody waits. The second signal, whichever it is, ends everything at once.

        Args:
            delay: seconds from SIGTERM until nobody is let in any more.
        """
        loop = asyncio.get_running_loop()
        for number, seconds in ((signal.SIGTERM, delay), (signal.SIGINT, 0.0)):
            loop.add_signal_handler(number, self._asked_to_end, seconds)

    def _asked_to_end(self, delay: float) -> None:
        if self.phase > Phase.SERVING:
            self.advance(Phase.ENDED)
            return
        self.advance(Phase.LEAVING)
        asyncio.get_running_loop().call_later(delay, self.advance, Phase.DRAINING)

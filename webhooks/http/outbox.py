"""The answers that were made in one turn of an event loop, sent together when it ends.

An answer wakes whoever waits for it. A caller with several connections that is woken by the first of several answers
finds the others there as well: so much less is spent, on both sides, on going to sleep and on waking up.
"""

import asyncio

_MOST = 16  # answers in one flush


class WriteBatcher:
    """Keeps answers until the turn of the loop ends, and no longer.

    Args:
        loop: the one whose turns these are.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._answers: list[tuple[asyncio.Transport, bytes]] = []

    def put(self, transport: asyncio.Transport, answer: bytes) -> None:
        """Have an answer sent, after those that are to be sent on the same connection."""
        answers = self._answers
        if not answers:
            self._call_soon(self.flush)
        answers.append((transport, answer))
        if len(answers) == _MOST:
            self.flush()

    def flush(self) -> None:
        """Send what is there, now."""
        answers, self._answers = self._answers, []
        for transport, answer in answers:
            if not transport.is_closing():
                transport.write(answer)

"""A transport that goes nowhere."""

import asyncio
from typing import Any


class Recorder(asyncio.Transport):
    """Notes what is written to it, in a log that it may share with others."""

    def __init__(self, name: str, log: list[tuple[str, bytes]]) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._name = name
        self._log = log
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._log.append((self._name, bytes(data)))

    def close(self) -> None:
        self._closing = True

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """There is no buffer."""

"""Listening: connections are taken, or refused before TLS costs anything, while there is room for them."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Any

from webhooks.http.connections import ConnectionTable

_DESCRIPTORS = 512  # for all else
_PAUSE = 0.01  # seconds, when the system has no room for a connection


def allow(connections: int) -> int:
    """Let the process have so many connections at each of two ports; how many of them the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    wanted = 2 * connections + _DESCRIPTORS
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, max(soft - _DESCRIPTORS, soft // 2) // 2)


class Listener:
    """Takes the connections that come in at a socket.

    Args:
        listener: the socket.
        tls: the context of the connections; None for plain text.
        connections: those that there are already.
        make: makes the protocol of a connection with an address.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        connections: ConnectionTable,
        make: Callable[[str], Any],
    ) -> None:
        self._socket = listener
        self._tls = tls
        self._connections = connections
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Take no more connections."""
        self._loop.remove_reader(self._socket)

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""

    def _accept(self) -> None:
        try:
            accepted, address = self._socket.accept()  # one at a time: each costs a handshake, and others wait
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no descriptors or no memory
            self._connections.make_room()
            self.close()
            self._loop.call_later(_PAUSE, self._resume)
        else:
            self._take(accepted, address[0])

    def _resume(self) -> None:
        if self._socket.fileno() != -1:
            self._loop.add_reader(self._socket, self._accept)

    def _take(self, accepted: socket.socket, peer: str) -> None:
        if not self._connections.admit(peer):
            accepted.close()
            return
        accepted.setblocking(False)
        connection = self._make(peer)
        self._connections.add(connection)
        connection.opening = self._loop.create_task(self._open(connection, accepted))

    async def _open(self, connection: Any, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls)
        except OSError as failure:
            connection.note_failure(failure)
        except asyncio.CancelledError:
            pass  # was too slow
        finally:
            if connection.transport is None:
                connection.connection_lost(ConnectionAbortedError())

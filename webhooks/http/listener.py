"""Accepts connections, or rejects them before TLS costs anything."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Any

from webhooks.http.connections import ConnectionTable

_OTHER_DESCRIPTORS = 512  # file descriptors for all other purposes
_RETRY_DELAY = 0.01  # seconds, after the system had no resources for a connection


def raise_fd_limit(connections: int) -> int:
    """Raise the soft limit of file descriptors for so many connections at each of two ports.

    Returns:
        How many connections per port the system allows, at most the given number.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    required = 2 * connections + _OTHER_DESCRIPTORS
    if soft < required:
        soft = required if hard == resource.RLIM_INFINITY else min(required, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(connections, max(soft - _OTHER_DESCRIPTORS, soft // 2) // 2)


class Listener:
    """Accepts the connections of a listening socket.

    Args:
        listener: the socket.
        tls: the TLS context of the connections; None for plain text.
        connections: the table that admits the connections.
        create_protocol: creates the protocol for a connection from an address.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        connections: ConnectionTable,
        create_protocol: Callable[[str], Any],
    ) -> None:
        self._socket = listener
        self._tls = tls
        self._connections = connections
        self._create_protocol = create_protocol
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more connections."""
        self._loop.remove_reader(self._socket)

    def _accept(self) -> None:
        try:
            # One connection per iteration of the loop: each costs a handshake, and other connections wait.
            accepted, address = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:  # no file descriptors, or no memory
            self._connections.evict()
            self.close()
            self._loop.call_later(_RETRY_DELAY, self._resume)
        else:
            self._open(accepted, address[0])

    def _resume(self) -> None:
        if self._socket.fileno() != -1:
            self._loop.add_reader(self._socket, self._accept)

    def _open(self, accepted: socket.socket, peer: str) -> None:
        if not self._connections.admit(peer):
            accepted.close()
            return
        accepted.setblocking(False)
        connection = self._create_protocol(peer)
        self._connections.add(connection)
        connection.handshake = self._loop.create_task(self._connect(connection, accepted))

    async def _connect(self, connection: Any, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls)
        except OSError as error:
            connection.on_handshake_error(error)
        except asyncio.CancelledError:
            pass  # the handshake timed out, or the connection was evicted
        finally:
            if connection.transport is None:
                connection.connection_lost(ConnectionAbortedError())

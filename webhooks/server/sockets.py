"""The listening sockets of a server."""

import errno
import socket

from webhooks.errors import ConfigurationError, reason_for

_BACKLOG = 2048


class Sockets:
    """All listening sockets of a server. They are opened together, or not at all.

    Attributes:
        reviews: a socket for each process that answers reviews. All use one port, and each has its own queue: clients
            keep few connections, and one process could accept all of them from a shared queue.
        ops: the socket for health and metrics; None for none.
        url: the URL for reviews.
    """

    def __init__(self, host: str, port: int, ops_port: int | None = None, workers: int = 1) -> None:
        """Open the sockets.

        Args:
            host: the address to listen on.
            port: the port for reviews; 0 for any free port.
            ops_port: the port for health and metrics; 0 for any free port, None for no such socket.
            workers: the number of processes that answer reviews.

        Raises:
            ConfigurationError: an address is not available.
        """
        is_shared = workers > 1
        if is_shared:
            bind(host, port, is_shared=False).close()  # fails if another server listens, which sharing would not
        self.reviews = [bind(host, port, is_shared=is_shared)]
        port = self.reviews[0].getsockname()[1]
        self.reviews += [bind(host, port, is_shared=True) for _ in range(workers - 1)]
        try:
            self.ops = None if ops_port is None else bind(host, ops_port, is_shared=False, option="--ops-port")
        except ConfigurationError:
            for listener in self.reviews:
                listener.close()
            raise
        self.url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def bind(host: str, port: int, *, is_shared: bool, option: str = "--port") -> socket.socket:
    """Open a listening socket.

    Args:
        host: the address.
        port: the port; 0 for any free port.
        is_shared: whether other processes of this server listen on the same port.
        option: the option that sets the port, for error messages.

    Raises:
        ConfigurationError: the address is not available.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        is_port = isinstance(error, OSError) and error.errno in (errno.EADDRINUSE, errno.EACCES)
        remedy = f": give another port by {option}" if is_port else ""
        raise ConfigurationError(f"cannot listen on {host} port {port}: {reason_for(error)}{remedy}") from None
    listener.setblocking(False)
    return listener

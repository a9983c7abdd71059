"""What one process takes at once, how large it may be, and how long it is waited for: one frozen object."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How much is taken. The defaults suit callers that keep 25 idle connections each, as API servers do.

    Attributes:
        max_connections: at each port.
        max_connections_per_peer: of those, with one address.
        max_in_flight: reviews whose policies are waited for.
        max_queue: reviews that wait for their turn behind those.
        max_body: bytes of a request's body; an API server's objects end at about 3 MiB, and an update brings two.
        max_headers: headers of a request, and those behind its body.
        max_header_bytes: of a request's first line and headers.
        tls_timeout: seconds for the TLS handshake, and for the end of a connection.
        header_timeout: seconds for a request's headers, from their first byte; for the first ones, from the handshake.
        body_timeout: seconds for a request's body, from the end of its headers; and for taking an answer.
    """

    max_connections: int = 4096
    max_connections_per_peer: int = 2048
    max_in_flight: int = 64
    max_queue: int = 1024
    max_body: int = 7 * 1024 * 1024
    max_headers: int = 100
    max_header_bytes: int = 32 * 1024
    tls_timeout: float = 5.0
    header_timeout: float = 5.0
    body_timeout: float = 10.0

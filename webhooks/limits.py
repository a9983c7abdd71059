"""What one process takes at once, how large it may be, and how long it is waited for: one frozen object."""

from dataclasses import dataclass

from webhooks.options import option

_MOST = 1_000_000
_LONGEST = 60  # seconds; the event loop's own patience with TLS


@dataclass(frozen=True)
class Limits:
    """How much is taken. The defaults suit callers that keep 25 idle connections each, as API servers do.

    An API server's objects end at about 3 MiB, and an update brings two. A header's time counts from its first byte,
    for the first ones from the handshake; a body's from the end of its headers.
    """

    max_connections: int = option(
        4096, "Connections at each port. When it is full, those that wait longest make room.", least=1, most=_MOST
    )
    max_connections_per_peer: int = option(2048, "Connections with one address.", least=1, most=_MOST)
    max_in_flight: int = option(
        64,
        "Reviews whose policies are waited for at once; those that run in place do not count.",
        least=1,
        most=_MOST,
    )
    max_queue: int = option(1024, "Reviews that wait for their turn; more are answered with 429.", least=0, most=_MOST)
    max_body: int = option(7 * 1024 * 1024, "Bytes of a review.", least=1024, most=64 * 1024**2)
    max_headers: int = option(100, "Headers of a request, and those behind its body.", least=1, most=_MOST)
    max_header_bytes: int = option(32 * 1024, "Bytes of a request's headers.", least=1024, most=1024**2)
    tls_timeout: float = option(5.0, "For a TLS handshake.", least=0.1, most=_LONGEST)
    header_timeout: float = option(5.0, "For a request's headers.", least=0.1, most=_LONGEST)
    body_timeout: float = option(10.0, "For a request's body, and for taking an answer.", least=0.1, most=_LONGEST)

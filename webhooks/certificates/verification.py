"""What a caller sees of a server, found by a handshake in memory: with the standard library alone, which is quick."""

import ssl
from contextlib import suppress
from typing import Any

ANY_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL, for which the library has no name


def shown(serving: ssl.SSLContext, calling: ssl.SSLContext) -> dict[str, Any]:
    """The server's certificate as a verifying caller gets it, in the form of `ssl.SSLSocket.getpeercert`.

    Args:
        serving: the server's context.
        calling: the caller's, which knows whom it trusts.

    Raises:
        ssl.SSLError: the caller refuses the certificate, or the server cannot use its key.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = calling.wrap_bio(to_client, to_server)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert() or {}


def client_context(flags: int = 0) -> ssl.SSLContext:
    """A caller who minds no names, and trusts nobody as yet.

    Args:
        flags: for verification: of `ssl.VerifyFlags`, or `ANY_TIME`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= flags
    return context

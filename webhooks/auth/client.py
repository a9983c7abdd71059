"""The result of client authentication: a client or a rejection."""

from typing import TypeAlias

import msgspec


class Client(msgspec.Struct, frozen=True, omit_defaults=True):
    """An authenticated client. Both names are empty if the server does not authenticate clients.

    Attributes:
        certificate: a name in its client certificate; empty if none is required.
        user: the user of its bearer token; empty if none is required.
    """

    certificate: str = ""
    user: str = ""

    def __str__(self) -> str:
        """Format the client for logs: ``apiserver``, ``jane``, or ``apiserver as jane``."""
        return " as ".join(filter(None, (self.certificate, self.user)))


ANONYMOUS = Client()


class Rejection(msgspec.Struct, frozen=True):
    """Why a client is rejected.

    Attributes:
        code: the HTTP code of the response: 401, 403, or 503 if the client cannot be authenticated yet.
        reason: the value of the metric's label, from a fixed set.
        message: the details for the log. Clients do not see it.
    """

    code: int
    reason: str
    message: str


Authentication: TypeAlias = Client | Rejection

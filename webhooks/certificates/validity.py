"""From when to when a certificate is good."""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self


class Validity(NamedTuple):
    """A certificate's time.

    Attributes:
        begins: when it begins to be good.
        ends: when it ends to be.
    """

    begins: datetime
    ends: datetime

    @classmethod
    def told(cls, certificate: Mapping[str, Any]) -> Self:
        """The time of a certificate in the form of `ssl.SSLSocket.getpeercert`."""
        return cls(*(_time(certificate[name]) for name in ("notBefore", "notAfter")))

    def is_due(self, now: datetime) -> bool:
        """Whether it is to be renewed: two thirds of its time are over; the rest is for mending what fails."""
        return now >= self.begins + (self.ends - self.begins) * 2 / 3


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)

"""Collects the warnings and audit annotations of all policies, and cuts them to sizes that API servers accept."""

import re
from typing import TypeVar

import msgspec

from webhooks.policy.exemptions import Exemption
from webhooks.reviews.outcomes import Deny, Outcome

MAX_WARNING = 256  # characters of each warning, if all together exceed MAX_WARNINGS
MAX_WARNINGS = 4096  # characters
MAX_ANNOTATION = 4096  # characters of a value, to keep audit records small

_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

T = TypeVar("T", bound=Outcome)


class ResponseNotes(msgspec.Struct, eq=False):
    """The warnings and audit annotations of one response.

    Attributes:
        exemptions: the exemptions that matched, active or expired, each with the name of its policy.
    """

    _warnings: dict[str, None] = {}
    _audit: dict[str, str] = {}
    exemptions: tuple[tuple[str, Exemption], ...] = ()

    def add(self, policy: str, outcome: Outcome) -> None:
        """Add the warnings and annotations of an outcome."""
        for warning in outcome.warnings:
            clean = _CONTROL.sub(" ", warning).strip()
            if clean:
                self._warnings[clean] = None
        for key, value in outcome.audit.items():
            self._annotate(policy, key, value)

    def add_failure(self, policy: str) -> None:
        """Add the failure of a policy that is ignored."""
        self._warnings[f"policy {policy!r} failed and was ignored"] = None
        self._annotate(policy, f"{policy}.failed", "ignored")

    def add_denial(self, policy: str, denial: Deny, *, warn: bool) -> None:
        """Add a denial that is not enforced: as a warning, or else as an annotation."""
        message = _CONTROL.sub(" ", denial.message).strip()
        if warn:
            self._warnings[f"{policy}: {message}"] = None
        else:
            self._annotate(policy, f"{policy}.denied", message)

    def add_exemption(self, policy: str, exemption: Exemption) -> None:
        """Add the reason why a policy was not run."""
        self._annotate(policy, f"{policy}.exempted", exemption.reason)
        self.exemptions += ((policy, exemption),)

    def add_expired_exemption(self, policy: str, exemption: Exemption) -> None:
        """Add that a policy was run because an exemption has expired."""
        self._warnings[f"{policy}: {exemption.expiry_notice}"] = None
        self.exemptions += ((policy, exemption),)

    def apply_to(self, outcome: T) -> T:
        """Return the outcome with these warnings and annotations in place of its own."""
        if not (self._warnings or self._audit or outcome.warnings or outcome.audit):
            return outcome
        return msgspec.structs.replace(outcome, warnings=_cut(list(self._warnings)), audit=self._audit)

    def _annotate(self, policy: str, key: str, value: str) -> None:
        """Add an annotation under a valid key, which is made unique if another policy uses it."""
        key = key if _KEY.fullmatch(key) else _make_valid(key)
        value = value[:MAX_ANNOTATION]
        if self._audit.get(key, value) != value:
            key = self._make_unique(_make_valid(f"{policy}.{key}"))
        self._audit[key] = value

    def _make_unique(self, key: str) -> str:
        candidates = (f"{key[:58]}-{number}" for number in range(2, 10_000))
        return key if key not in self._audit else next(name for name in candidates if name not in self._audit)


def _make_valid(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", key)[:63].strip("._-") or "annotation"


def _cut(warnings: list[str]) -> list[str]:
    if sum(map(len, warnings)) <= MAX_WARNINGS:
        return warnings
    return [warning[:MAX_WARNING] for warning in warnings][: MAX_WARNINGS // MAX_WARNING]

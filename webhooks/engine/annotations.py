"""Warnings and audit annotations: collected from all policies, checked and cut so that the API server drops none."""

import re
from typing import TypeVar

import msgspec

from webhooks.policy.exemptions import Exemption
from webhooks.reviews.outcomes import Deny, Outcome

MAX_WARNING = 256  # characters, of each warning once all of them pass MAX_WARNINGS
MAX_WARNINGS = 4096
MAX_ANNOTATION = 4096  # characters of a value; audit records are not the place for more

_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")

T = TypeVar("T", bound=Outcome)


class ResponseNotes(msgspec.Struct, eq=False):
    """The warnings and annotations of one review.

    Attributes:
        exemptions: the noted ones, in force or ended, each with the name of its policy.
    """

    _warnings: dict[str, None] = {}
    _audit: dict[str, str] = {}
    exemptions: tuple[tuple[str, Exemption], ...] = ()

    def add(self, policy: str, outcome: Outcome) -> None:
        """Note what an outcome carries."""
        for warning in outcome.warnings:
            clean = _CONTROL.sub(" ", warning).strip()
            if clean:
                self._warnings[clean] = None
        for key, value in outcome.audit.items():
            self._annotate(policy, key, value)

    def add_failure(self, policy: str) -> None:
        """Note that a policy failed and was passed over."""
        self._warnings[f"policy {policy!r} failed and was passed over"] = None
        self._annotate(policy, f"{policy}.failed", "passed over")

    def add_denial(self, policy: str, denial: Deny, *, warn: bool) -> None:
        """Note a denial that its operator does not enforce: as a warning, or for the audit record alone."""
        message = _CONTROL.sub(" ", denial.message).strip()
        if warn:
            self._warnings[f"{policy}: {message}"] = None
        else:
            self._annotate(policy, f"{policy}.denied", message)

    def add_exemption(self, policy: str, exemption: Exemption) -> None:
        """Note that a policy was not asked, and why."""
        self._annotate(policy, f"{policy}.exempted", exemption.reason)
        self.exemptions += ((policy, exemption),)

    def add_ended(self, policy: str, exemption: Exemption) -> None:
        """Note that a policy was asked, since an exemption has ended."""
        self._warnings[f"{policy}: {exemption.expiry_notice}"] = None
        self.exemptions += ((policy, exemption),)

    def on(self, outcome: T) -> T:
        """The outcome with all that was noted, and nothing else."""
        if not (self._warnings or self._audit or outcome.warnings or outcome.audit):
            return outcome
        return msgspec.structs.replace(outcome, warnings=_cut(list(self._warnings)), audit=self._audit)

    def _annotate(self, policy: str, key: str, value: str) -> None:
        """Two policies that use one key are told apart; a key that no audit record takes is mended."""
        key = key if _KEY.fullmatch(key) else _mended(key)
        value = value[:MAX_ANNOTATION]
        if self._audit.get(key, value) != value:
            key = self._free(_mended(f"{policy}.{key}"))
        self._audit[key] = value

    def _free(self, key: str) -> str:
        numbered = (f"{key[:58]}-{number}" for number in range(2, 10_000))
        return key if key not in self._audit else next(each for each in numbered if each not in self._audit)


def _mended(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", key)[:63].strip("._-") or "annotation"


def _cut(warnings: list[str]) -> list[str]:
    if sum(map(len, warnings)) <= MAX_WARNINGS:
        return warnings
    return [warning[:MAX_WARNING] for warning in warnings][: MAX_WARNINGS // MAX_WARNING]

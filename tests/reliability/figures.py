"""What the scorecard is made of: how much of everything is tried, and what was measured."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, TypeVar

SIZE = "WEBHOOKS_RELIABILITY"  # `full` for all of it
REPORT = "WEBHOOKS_RELIABILITY_REPORT"  # names the file that figures are added to

Measure = TypeVar("Measure")
Figure = Callable[[int, str, str, str], None]  # item, claim, measured, wanted


@dataclass(frozen=True)
class Size:
    """How much of everything: all of it, or what a gate has time for."""

    full: bool

    def of(self, ci: Measure, full: Measure) -> Measure:
        """One of two."""
        return full if self.full else ci


@dataclass(frozen=True)
class Row:
    """What became of a claim.

    Attributes:
        item: its number on the scorecard.
        claim: what is tried.
        measured: what came of it.
        wanted: the condition.
        passed: whether the test held that it is met.
    """

    item: int
    claim: str
    measured: str
    wanted: str
    passed: bool

    def add(self, report: Path) -> None:
        with report.open("a") as file:
            file.write(json.dumps(asdict(self)) + "\n")

    @classmethod
    def all(cls, report: Path) -> list[Self]:
        """Those of a report, which need not be there."""
        return [cls(**json.loads(line)) for line in report.read_text().splitlines()] if report.exists() else []

"""The size of the scorecard, and its rows."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self, TypeVar

SIZE = "WEBHOOKS_RELIABILITY"  # `full` for the full size
REPORT = "WEBHOOKS_RELIABILITY_REPORT"  # the file to which figures are appended

Measure = TypeVar("Measure")
Figure = Callable[[int, str, str, str], None]  # item, claim, measured, condition


@dataclass(frozen=True)
class Size:
    """The size of the tests: full, or reduced for continuous integration."""

    full: bool

    def of(self, ci: Measure, full: Measure) -> Measure:
        """Return the value for this size."""
        return full if self.full else ci


@dataclass(frozen=True)
class Row:
    """The result of a test.

    Attributes:
        item: the number of the item on the scorecard.
        claim: what is tested.
        measured: the figure.
        condition: the condition that it must meet.
        passed: whether the test passed.
    """

    item: int
    claim: str
    measured: str
    condition: str
    passed: bool

    def add(self, report: Path) -> None:
        with report.open("a") as file:
            file.write(json.dumps(asdict(self)) + "\n")

    @classmethod
    def all(cls, report: Path) -> list[Self]:
        """Read the rows of a report, which may be missing."""
        return [cls(**json.loads(line)) for line in report.read_text().splitlines()] if report.exists() else []

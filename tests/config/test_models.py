"""Tests of the fields of a configuration file."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from webhooks.config.models import ExemptionEntry
from webhooks.config.validation import check

from ..support.configurations import errors, load_one


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("2027-01-31T12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_times(text: str, time: datetime) -> None:
    exemption = check({"names": ["a"], "reason": "b", "expires": text}, ExemptionEntry)
    assert isinstance(exemption, ExemptionEntry)
    assert exemption.expires == time.timestamp()


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+23:59", "2020W05T12", "2027-01-31T12:00:00", "31.1.2027"])
def test_texts_that_are_not_times(folder: Path, text: str) -> None:
    entry = f'{{use: "library:privileged", exemptions: [{{names: [a], reason: b, expires: "{text}"}}]}}'
    [line] = errors(folder, f"policies: [{entry}]\n")
    assert "exemptions[0].expires: Invalid value" in line


def test_a_reason_is_put_on_one_line(folder: Path) -> None:
    entry = '{names: [a], reason: "two\\nlines \\e[31m", expires: 2020-01-01}'
    policy = load_one(folder, "library:privileged", f"  exemptions: [{entry}]")
    assert policy.exemptions[0].reason == "two lines [31m"

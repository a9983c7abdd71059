"""Fixtures of the scorecard: its size, and the recording of figures."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .figures import REPORT, SIZE, Figure, Row, Size

PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    if report.skipped and (path := os.environ.get(REPORT)) and isinstance(report.longrepr, tuple):
        number = int(item.name.removeprefix("test_item_")[:2])
        Row(number, item.name, f"not run: {report.longrepr[2]}", "the test runs", passed=False).add(Path(path))
    return report


@pytest.fixture(scope="session")
def size() -> Size:
    return Size(full=os.environ.get(SIZE) == "full")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Iterator[Figure]:
    """Records a figure. Tests call it before their assertions, so that failures have figures too."""
    figures: list[tuple[int, str, str, str]] = []

    def record(item: int, claim: str, measured: str, condition: str) -> None:
        print(f"item {item}: {claim}: {measured} (condition: {condition})")
        figures.append((item, claim, measured, condition))

    yield record
    if report := os.environ.get(REPORT):
        for values in figures:
            Row(*values, passed=request.node.stash.get(PASSED, False)).add(Path(report))

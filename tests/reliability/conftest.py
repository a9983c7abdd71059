"""The frame of the scorecard: how much is tried, and where figures go."""

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
        Row(number, item.name, f"not tried: {report.longrepr[2]}", "to be tried", passed=False).add(Path(path))
    return report


@pytest.fixture(scope="session")
def size() -> Size:
    return Size(full=os.environ.get(SIZE) == "full")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Iterator[Figure]:
    """Tells what was measured; to be called before it is judged, so that failures have their figures too."""
    told: list[tuple[int, str, str, str]] = []

    def tell(item: int, claim: str, measured: str, wanted: str) -> None:
        print(f"item {item}: {claim}: {measured} (wanted {wanted})")
        told.append((item, claim, measured, wanted))

    yield tell
    if report := os.environ.get(REPORT):
        for each in told:
            Row(*each, passed=request.node.stash.get(PASSED, False)).add(Path(report))

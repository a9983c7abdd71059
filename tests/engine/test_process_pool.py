"""Whatever an isolated policy does, its review is denied in time, and the next review is answered."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from webhooks import Allow, Decision, validating
from webhooks.engine import process_pool
from webhooks.engine.executor import PolicyExecutor
from webhooks.errors import ConfigurationError, PolicyTimeout
from webhooks.observability.metrics import MetricRegistry

from ..support.builders import (
    AnyPolicy,
    ignore_change,
)
from ..support.isolation import POLICIES, Lab, review_of, running
from ..support.servers import SECONDS, await_true

SOON = 0.3  # seconds; a deadline that is missed
LATE = 0.2  # seconds; the denial must arrive by then after the deadline


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("isolation")) as lab:
        yield lab


def process(lab: Lab, name: str = "well") -> int:
    """Return the ID of the process that runs the review."""
    outcome = lab.result("misbehaves", review_of(name)).outcome
    assert isinstance(outcome, Allow)
    return int(outcome.warnings[0])


LATES = ["sleep", "loop", "backtrack", "ignore_signals", "stop"]


DEATHS = ["exit", "crash", "abort"]


FAILURES = {
    "hog": "MemoryError",
    "grow": "MemoryError",
    "grow_elsewhere": "Cannot allocate memory",
    "fork": "Operation not permitted",
    "spawn": "Operation not permitted",
    "thread_on": "can't start new thread",
    "raise_exit": "SystemExit",
    "recurse": "RecursionError",
    "lie": "its process sent an invalid reply",
    "boast": "replied with more than",
}


@pytest.mark.parametrize("name", LATES)
def test_a_process_that_misses_the_deadline_is_killed(name: str, lab: Lab) -> None:
    before, killed = process(lab), lab.exits.get(("misbehaves", "killed"), 0)
    started = time.monotonic()
    result = lab.result("misbehaves", review_of(name), SOON)
    assert SOON <= time.monotonic() - started < SOON + LATE
    assert isinstance(result.failure, PolicyTimeout)
    assert lab.exits["misbehaves", "killed"] == killed + 1
    assert process(lab) != before
    await_true(lambda: not Path(f"/proc/{before}").exists(), "the process is gone")


@pytest.mark.parametrize("name", DEATHS)
def test_a_process_that_dies_is_replaced(name: str, lab: Lab) -> None:
    before, died = process(lab), lab.exits.get(("misbehaves", "died"), 0)
    result = lab.result("misbehaves", review_of(name))
    assert str(result.failure) == "its process died"
    assert lab.exits["misbehaves", "died"] == died + 1
    assert process(lab) != before


@pytest.mark.parametrize("name", FAILURES)
def test_a_process_that_exceeds_a_limit_fails(name: str, lab: Lab) -> None:
    result = lab.result("misbehaves", review_of(name))
    assert result.outcome is None
    assert FAILURES[name] in str(result.failure)
    process(lab)


def test_a_process_that_leaks_is_recycled_and_no_review_is_lost(lab: Lab) -> None:
    def recycled() -> float:
        return lab.exits.get(("misbehaves", "recycled"), 0)

    before, processes = recycled(), []
    while recycled() < before + 2 and len(processes) < 12:  # how many depends on the number of idle processes
        processes.append(process(lab, "leak"))
    assert recycled() >= before + 2
    assert 2 <= len(set(processes)) <= 4
    assert max(Counter(processes).values()) <= 3  # reviews of one process, each of which leaks 100 MB


def test_several_processes_run_concurrently(lab: Lab) -> None:
    late = [lab.start("misbehaves", review_of("sleep"), 2 * SOON) for _ in range(2)]
    assert lab.result("misbehaves", review_of("well")).failure is None
    assert all(isinstance(future.result(SECONDS).failure, PolicyTimeout) for future in late)


def test_a_coroutine_that_misses_the_deadline_is_killed(lab: Lab) -> None:
    assert isinstance(lab.result("waits", review_of("long"), SOON).failure, PolicyTimeout)
    assert lab.result("waits", review_of("well")).failure is None


def test_a_policy_that_cannot_be_loaded_is_a_configuration_error(tmp_path: Path) -> None:
    file = tmp_path / "policies.py"
    file.write_text("import sys\nassert 'webhooks.engine.process_worker' not in sys.orig_argv\n" + POLICIES)
    lab = Lab(file)
    with pytest.raises(ConfigurationError, match=r"policies\.py:\d+: policy '\w+' cannot be isolated: .*Assertion"):
        lab.run(lab.executor.start()).result(SECONDS)
    lab.close()


def test_a_policy_that_is_not_in_a_file_is_a_configuration_error() -> None:
    @validating("pods", isolation=True)
    def here(review: Any) -> Decision:
        return Allow()

    policy: AnyPolicy = here

    async def start() -> None:
        executor = PolicyExecutor([policy], ignore_change, MetricRegistry())
        try:
            await executor.start()
        finally:
            await executor.close()

    with pytest.raises(ConfigurationError, match="policy 'here' cannot be isolated"):
        asyncio.run(start())


def test_a_process_that_does_not_start_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process_pool, "_BACKOFF", 0.01)
    file = tmp_path / "policies.py"
    file.write_text(POLICIES)
    lab = Lab(file)
    lab.run(lab.executor.start()).result(SECONDS)
    file.write_text("oops(")
    assert lab.result("misbehaves", review_of("exit")).failure is not None
    assert isinstance(lab.result("misbehaves", review_of("well"), 1.0).failure, PolicyTimeout)
    assert any("a process of policy misbehaves did not start" in message for message in caplog.messages)
    file.write_text(POLICIES)
    assert lab.result("misbehaves", review_of("well")).failure is None
    lab.close()

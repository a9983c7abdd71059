"""The phases of an API server, and dispatchers without a server."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from webhooks import Allow, validating
from webhooks.engine.dispatcher import Verdict
from webhooks.engine.standalone import build_dispatcher, run_admission
from webhooks.errors import ConfigurationError

from ..support.builders import admission_body, admission_review, pod


@dataclass(frozen=True)
class Phase:
    """The result of a phase."""

    allowed: bool | None
    patch: Sequence[Mapping[str, Any]] = ()


LABELLED = ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},)


def run_phases(body: dict[str, Any], *phases: Phase) -> tuple[list[tuple[str, Any]], list[Phase], Any]:
    """Return the calls (kind and object), the results of the phases, and the final object."""
    calls = []
    remaining = iter(phases)

    async def evaluate(kind: str, body: Mapping[str, Any]) -> Phase:
        calls.append((kind, body["request"]["object"]))
        return next(remaining)

    return calls, *asyncio.run(run_admission(body, evaluate))


def test_validating_policies_get_the_mutated_object() -> None:
    body, changed = admission_body("CREATE", pod()), pod(labels={"a": "b"})
    first, second = Phase(True, LABELLED), Phase(True)
    assert run_phases(body, first, second) == ([("mutating", pod()), ("validating", changed)], [first, second], changed)
    assert body == admission_body("CREATE", pod())


def test_an_unchanged_object() -> None:
    calls, _, final = run_phases(admission_body("CREATE", pod()), Phase(True), Phase(True))
    assert (calls, final) == ([("mutating", pod()), ("validating", pod())], pod())
    assert run_phases(admission_body("DELETE", old=pod()), Phase(True), Phase(True))[2] is None


@pytest.mark.parametrize("allowed", [False, None])
def test_a_denial_ends_the_phases(allowed: bool | None) -> None:
    body, denial = admission_body("CREATE", pod()), Phase(allowed)
    assert run_phases(body, denial) == ([("mutating", pod())], [denial], None)
    assert run_phases(body, Phase(True, LABELLED), denial)[1:] == ([Phase(True, LABELLED), denial], None)


def test_a_dispatcher_runs_policies() -> None:
    policy = validating("pods", name="some")(lambda review: Allow(warnings=["called"]))

    async def decide() -> Verdict:
        dispatcher = build_dispatcher([policy])
        await dispatcher.executor.start()
        decision = dispatcher.decide("validating", admission_review("CREATE", pod()))
        verdict = decision if isinstance(decision, Verdict) else await decision
        await dispatcher.executor.close()
        return verdict

    assert asyncio.run(decide()).outcome == Allow(warnings=["called"])
    with pytest.raises(ConfigurationError, match="two policies are named"):
        build_dispatcher([policy, policy.with_name("some")])

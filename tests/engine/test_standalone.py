"""An object's way through its stages, and what asks policies where no server does."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from webhooks import Allow, validating
from webhooks.engine.dispatcher import Verdict
from webhooks.engine.standalone import admit, dispatcher
from webhooks.errors import ConfigurationError

from ..support.builders import admission_body, admission_review, pod


@dataclass(frozen=True)
class Said:
    """What a stage is to come to."""

    allowed: bool | None
    patch: Sequence[Mapping[str, Any]] = ()


LABELLED = ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},)


def way(body: dict[str, Any], *saying: Said) -> tuple[list[tuple[str, Any]], list[Said], Any]:
    """Which stages are asked about which objects, and what comes of it."""
    asked = []
    said = iter(saying)

    async def ask(kind: str, body: Mapping[str, Any]) -> Said:
        asked.append((kind, body["request"]["object"]))
        return next(said)

    return asked, *asyncio.run(admit(body, ask))


def test_validating_policies_see_what_mutating_ones_leave() -> None:
    body, changed = admission_body("CREATE", pod()), pod(labels={"a": "b"})
    first, second = Said(True, LABELLED), Said(True)
    assert way(body, first, second) == ([("mutating", pod()), ("validating", changed)], [first, second], changed)
    assert body == admission_body("CREATE", pod())


def test_an_object_that_nobody_changes() -> None:
    asked, _, left = way(admission_body("CREATE", pod()), Said(True), Said(True))
    assert (asked, left) == ([("mutating", pod()), ("validating", pod())], pod())
    assert way(admission_body("DELETE", old=pod()), Said(True), Said(True))[2] is None


@pytest.mark.parametrize("allowed", [False, None])
def test_what_is_not_allowed_goes_no_further(allowed: bool | None) -> None:
    body, refusal = admission_body("CREATE", pod()), Said(allowed)
    assert way(body, refusal) == ([("mutating", pod())], [refusal], None)
    assert way(body, Said(True, LABELLED), refusal)[1:] == ([Said(True, LABELLED), refusal], None)


def test_a_dispatcher_asks_by_itself() -> None:
    policy = validating("pods", name="some")(lambda review: Allow(warnings=["asked"]))

    async def decided() -> Verdict:
        asked = dispatcher([policy])
        await asked.runner.start()
        found = asked.decide("validating", admission_review("CREATE", pod()))
        verdict = found if isinstance(found, Verdict) else await found
        await asked.runner.close()
        return verdict

    assert asyncio.run(decided()).outcome == Allow(warnings=["asked"])
    with pytest.raises(ConfigurationError, match="two policies are named"):
        dispatcher([policy, policy.with_name("some")])

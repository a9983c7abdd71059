"""Outcomes are frozen values."""

from typing import Any, get_args

import pytest

from webhooks.policy.model import OUTCOMES
from webhooks.reviews import outcomes
from webhooks.reviews.outcomes import (
    Allow,
    Authenticated,
    Decision,
    Deny,
    Identity,
    Mutation,
    NoOpinion,
    Opinion,
    Outcome,
    Patch,
    Replace,
    Unauthenticated,
)

EXAMPLES: list[Outcome] = [
    Allow(),
    Deny("never"),
    Replace({"kind": "Pod"}),
    Patch([{"op": "remove", "path": "/a"}]),
    NoOpinion(),
    Authenticated("jane"),
    Unauthenticated(),
]


def kinds() -> list[type[Outcome]]:
    return [type(outcome) for outcome in EXAMPLES]


def test_all_outcomes_are_tested() -> None:
    assert set(kinds()) == {value for value in vars(outcomes).values() if _is_outcome(value) and value is not Outcome}


def _is_outcome(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Outcome)


@pytest.mark.parametrize(
    ("kind", "union"),
    [
        ("mutating", Mutation),
        ("validating", Decision),
        ("authorizing", Opinion),
        ("authenticating", Identity),
        ("image_policy", Decision),
    ],
)
def test_the_unions_list_the_outcomes_of_each_kind(kind: Any, union: Any) -> None:
    assert set(OUTCOMES[kind]) == set(get_args(union))


@pytest.mark.parametrize("outcome", EXAMPLES, ids=lambda outcome: type(outcome).__name__)
def test_outcomes_are_values(outcome: Outcome) -> None:
    assert (outcome.warnings, outcome.audit) == ((), {})
    with pytest.raises(AttributeError):
        outcome.warnings = ["changed"]  # type: ignore[misc]
    assert outcome


@pytest.mark.parametrize("outcome", EXAMPLES, ids=lambda outcome: type(outcome).__name__)
def test_outcomes_carry_warnings_and_annotations(outcome: Outcome) -> None:
    fields = {name: getattr(outcome, name) for name in outcome.__struct_fields__}
    changed = type(outcome)(**{**fields, "warnings": ["look out"], "audit": {"why": "because"}})
    assert (changed.warnings, changed.audit) == (["look out"], {"why": "because"})


def test_the_default_reason_of_a_denial_is_forbidden() -> None:
    denial = Deny("never")
    assert (denial.message, denial.reason, denial.code, denial.details) == ("never", "Forbidden", 403, None)
    assert Deny("never", "Conflict", 409) == Deny("never", code=409, reason="Conflict")


def test_reasons_are_keyword_only() -> None:
    for wrong in (lambda: Allow("fine"), lambda: NoOpinion("mine"), lambda: Deny()):  # type: ignore[misc, call-arg]
        with pytest.raises(TypeError):
            wrong()

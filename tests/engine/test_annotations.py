import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.engine.annotations import MAX_ANNOTATION, MAX_WARNING, MAX_WARNINGS, ResponseNotes
from webhooks.reviews.outcomes import Allow, Deny

QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def noted(*outcomes: tuple[str, Allow]) -> Allow:
    notes = ResponseNotes()
    for policy, outcome in outcomes:
        notes.add(policy, outcome)
    return notes.on(Allow())


def warnings_of(*warnings: str) -> Sequence[str]:
    return noted(("p", Allow(warnings=warnings))).warnings


def audit_of(*pairs: tuple[str, Mapping[str, str]]) -> Mapping[str, str]:
    return noted(*((policy, Allow(audit=audit)) for policy, audit in pairs)).audit


def test_nothing_noted_changes_nothing() -> None:
    outcome = Allow()
    assert ResponseNotes().on(outcome) is outcome


def test_an_outcome_carries_what_was_noted_and_nothing_else() -> None:
    notes = ResponseNotes()
    notes.add("first", Allow(warnings=["a"], audit={"k": "1"}))
    notes.add("second", Deny("no", warnings=["b"], audit={"l": "2"}))
    denial = notes.on(Deny("no", warnings=["own"], audit={"own": "yes"}))
    assert (denial.warnings, denial.audit) == (["a", "b"], {"k": "1", "l": "2"})
    assert denial.message == "no"
    assert ResponseNotes().on(Allow(warnings=["own"], audit={"own": "yes"})) == Allow(warnings=[])


def test_a_failure_is_noted_as_warning_and_annotation() -> None:
    notes = ResponseNotes()
    notes.add_failure("broken")
    outcome = notes.on(Allow())
    assert outcome.warnings == ["policy 'broken' failed and was passed over"]
    assert outcome.audit == {"broken.failed": "passed over"}


@pytest.mark.parametrize(
    ("given_", "shown"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "b", "a"], ["a", "b"]),
        (["", " ", "\n\t"], []),
        ([" a "], ["a"]),
        (["a\nb"], ["a b"]),
        (["a\x1b[31mb\x00\x7f\x85c"], ["a [31mb c"]),
        (["a\n", "a"], ["a"]),
        (["\u00e9\u4e2d\U0001f600"], ["\u00e9\u4e2d\U0001f600"]),
    ],
)
def test_warnings_are_shown_as_the_caller_takes_them(given_: list[str], shown: list[str]) -> None:
    assert list(warnings_of(*given_)) == shown


def test_long_warnings_are_cut_only_where_they_are_too_much_together() -> None:
    long = "x" * MAX_WARNINGS
    assert warnings_of(long) == [long]
    assert warnings_of(long, "y") == ["x" * MAX_WARNING, "y"]
    assert sum(map(len, warnings_of(*(f"{number:04}" * 100 for number in range(50))))) <= MAX_WARNINGS


@pytest.mark.parametrize(
    ("key", "mended"),
    [
        ("why", "why"),
        ("a.b-c_D9", "a.b-c_D9"),
        ("x" * 63, "x" * 63),
        ("x" * 64, "x" * 63),
        ("a/b", "a-b"),
        ("a b", "a-b"),
        ("-a-", "a"),
        ("_.a", "a"),
        ("\u00e9t\u00e9", "t"),
        ("", "annotation"),
        ("///", "annotation"),
        ("a\n", "a"),
        ("x" * 62 + "--", "x" * 62),
    ],
)
def test_a_key_that_no_audit_record_takes_is_mended(key: str, mended: str) -> None:
    assert audit_of(("p", {key: "v"})) == {mended: "v"}


def test_a_long_value_is_cut() -> None:
    assert audit_of(("p", {"k": "v" * (MAX_ANNOTATION + 1)})) == {"k": "v" * MAX_ANNOTATION}
    assert audit_of(("p", {"k": "v" * MAX_ANNOTATION})) == {"k": "v" * MAX_ANNOTATION}


def test_policies_that_use_one_key_are_told_apart() -> None:
    assert audit_of(("one", {"k": "1"}), ("two", {"k": "2"})) == {"k": "1", "two.k": "2"}
    assert audit_of(("one", {"k": "1"}), ("two", {"k": "1"})) == {"k": "1"}
    assert audit_of(("one", {"a/b": "1", "a-b": "2"})) == {"a-b": "1", "one.a-b": "2"}


@pytest.mark.parametrize(
    "pairs",
    [
        [("p", {"a/b": "1", "a-b": "2", "a b": "3"})],
        [("one", {"k": "1"}), ("two", {"k": "2"}), ("two" + "-" * 60, {"k": "3"}), ("two" + "-" * 61, {"k": "4"})],
        [("one", {"x" * 60: "1"}), ("long-name", {"x" * 60: "2"}), ("long-name", {"x" * 61: "3", "x" * 62: "4"})],
    ],
)
def test_no_annotation_takes_the_place_of_another(pairs: list[tuple[str, dict[str, str]]]) -> None:
    given_ = [value for _, audit in pairs for value in audit.values()]
    assert sorted(audit_of(*pairs).values()) == sorted(given_)


TEXTS = st.text(max_size=80)


@given(st.lists(st.tuples(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), st.lists(TEXTS, max_size=3)), max_size=4))
def test_whatever_is_noted_is_acceptable(outcomes: list[tuple[str, dict[str, str], list[str]]]) -> None:
    outcome = noted(*((policy, Allow(audit=audit, warnings=warnings)) for policy, audit, warnings in outcomes))
    for key in outcome.audit:
        assert len(key) <= 63
        assert QUALIFIED_NAME.fullmatch(key)
    assert all(warning and not re.search(r"[\x00-\x1f\x7f-\x9f]", warning) for warning in outcome.warnings)
    assert len(set(outcome.warnings)) == len(outcome.warnings)

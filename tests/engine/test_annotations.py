"""Warnings and audit annotations of several policies are merged, cleaned and cut."""

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.engine.annotations import MAX_ANNOTATION, MAX_WARNING, MAX_WARNINGS, ResponseNotes
from webhooks.reviews.outcomes import Allow, Deny

QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def merge(*outcomes: tuple[str, Allow]) -> Allow:
    notes = ResponseNotes()
    for policy, outcome in outcomes:
        notes.add(policy, outcome)
    return notes.apply_to(Allow())


def warnings_of(*warnings: str) -> Sequence[str]:
    return merge(("p", Allow(warnings=warnings))).warnings


def audit_of(*pairs: tuple[str, Mapping[str, str]]) -> Mapping[str, str]:
    return merge(*((policy, Allow(audit=audit)) for policy, audit in pairs)).audit


def test_no_notes_change_nothing() -> None:
    outcome = Allow()
    assert ResponseNotes().apply_to(outcome) is outcome


def test_notes_replace_those_of_the_outcome() -> None:
    notes = ResponseNotes()
    notes.add("first", Allow(warnings=["a"], audit={"k": "1"}))
    notes.add("second", Deny("no", warnings=["b"], audit={"l": "2"}))
    denial = notes.apply_to(Deny("no", warnings=["own"], audit={"own": "yes"}))
    assert (denial.warnings, denial.audit) == (["a", "b"], {"k": "1", "l": "2"})
    assert denial.message == "no"
    assert ResponseNotes().apply_to(Allow(warnings=["own"], audit={"own": "yes"})) == Allow(warnings=[])


def test_an_ignored_failure_is_a_warning_and_an_annotation() -> None:
    notes = ResponseNotes()
    notes.add_failure("broken")
    outcome = notes.apply_to(Allow())
    assert outcome.warnings == ["policy 'broken' failed and was ignored"]
    assert outcome.audit == {"broken.failed": "ignored"}


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
def test_warnings_are_cleaned(given_: list[str], shown: list[str]) -> None:
    assert list(warnings_of(*given_)) == shown


def test_long_warnings_are_cut_if_all_together_are_too_long() -> None:
    long = "x" * MAX_WARNINGS
    assert warnings_of(long) == [long]
    assert warnings_of(long, "y") == ["x" * MAX_WARNING, "y"]
    assert sum(map(len, warnings_of(*(f"{number:04}" * 100 for number in range(50))))) <= MAX_WARNINGS


@pytest.mark.parametrize(
    ("key", "valid"),
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
def test_an_invalid_key_is_made_valid(key: str, valid: str) -> None:
    assert audit_of(("p", {key: "v"})) == {valid: "v"}


def test_a_long_value_is_cut() -> None:
    assert audit_of(("p", {"k": "v" * (MAX_ANNOTATION + 1)})) == {"k": "v" * MAX_ANNOTATION}
    assert audit_of(("p", {"k": "v" * MAX_ANNOTATION})) == {"k": "v" * MAX_ANNOTATION}


def test_the_same_key_of_two_policies_is_made_unique() -> None:
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
def test_no_annotation_replaces_another(pairs: list[tuple[str, dict[str, str]]]) -> None:
    given_ = [value for _, audit in pairs for value in audit.values()]
    assert sorted(audit_of(*pairs).values()) == sorted(given_)


TEXTS = st.text(max_size=80)


@given(st.lists(st.tuples(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), st.lists(TEXTS, max_size=3)), max_size=4))
def test_all_notes_are_valid(outcomes: list[tuple[str, dict[str, str], list[str]]]) -> None:
    outcome = merge(*((policy, Allow(audit=audit, warnings=warnings)) for policy, audit, warnings in outcomes))
    for key in outcome.audit:
        assert len(key) <= 63
        assert QUALIFIED_NAME.fullmatch(key)
    assert all(warning and not re.search(r"[\x00-\x1f\x7f-\x9f]", warning) for warning in outcome.warnings)
    assert len(set(outcome.warnings)) == len(outcome.warnings)

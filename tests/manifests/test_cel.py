"""Expressions in CEL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.kube.globs import Globs
from webhooks.manifests.cel import all_of, any_of, matches_any, matches_none, quote, quote_list

from ..support.webhook_matching import evaluate

TEXTS = ["", "a", "team-a", "team-b", "it's", 'a"b', "a\\b", "x.y", "x-y", "ä\n", "a\nb", "\t"]
texts = st.sampled_from(TEXTS)
patterns = st.one_of(texts, st.sampled_from(["team-*", "*-a", "*", "t?am-*", "?", "x.?", "*'*", "a*b", "*\\*", "(*)"]))


@pytest.mark.parametrize("text", TEXTS)
def test_string_literals(text: str) -> None:
    assert evaluate(f"value == {quote(text)}", {"value": text})
    assert not evaluate(f"value == {quote(text)}", {"value": f"{text}x"})


def test_literals_need_no_escapes_in_yaml_and_json() -> None:
    assert quote('say "hi"') == "'say \"hi\"'"
    assert quote_list(["a", "it's"]) == "['a', 'it\\'s']"


@given(st.lists(patterns, max_size=3), texts)
def test_patterns_match_as_globs_do(globs: list[str], text: str) -> None:
    expression = matches_any("value", globs)
    assert not expression or evaluate(expression, {"value": text}) is Globs(globs).match(text)


@pytest.mark.parametrize("globs", [None, ["*"], ["a", "*"], ["[at]*"], ["a", "[b]"]])
def test_expressions_are_empty_if_any_text_matches_or_cel_cannot_express_a_pattern(globs: list[str] | None) -> None:
    assert matches_any("value", globs) == ""
    assert matches_none("value", globs or []) == ""


def test_simple_patterns_have_simple_expressions() -> None:
    assert matches_any("value", ["a"]) == "(value == 'a')"
    assert matches_any("value", ["a", "b"]) == "(value in ['a', 'b'])"
    assert matches_any("value", ["a-*", "*-b"]) == "(value.startsWith('a-') || value.endsWith('-b'))"
    assert matches_any("value", []) == "false"
    assert matches_none("value", ["a"]) == "!(value == 'a')"


def test_all_of() -> None:
    assert all_of(["a", "", "b || c"]) == "a && (b || c)"
    assert all_of(["", "b || c"]) == "b || c"
    assert all_of([""]) == ""


def test_any_of() -> None:
    assert any_of(["a", "b && c"]) == "(a) || (b && c)"
    assert any_of(["a"]) == "a"
    assert any_of(["a", ""]) == ""

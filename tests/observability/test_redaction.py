"""Secrets in texts for logs."""

import json

import pytest

from webhooks.observability.redaction import redact


@pytest.mark.parametrize("secret", ["s3cr3t", "two\nlines", 'a "quote"', "Grüße", "\\"])
def test_secrets_are_removed(secret: str) -> None:
    text = f"{secret} and {[secret]} and {json.dumps(secret)}"
    assert redact(text, ["", secret]) == "*** and ['***'] and \"***\""


def test_a_base64_secret_is_removed_in_both_forms() -> None:
    assert redact("of 'a\\nb', a\nb and YQpi", ["YQpi"]) == "of '***', *** and ***"


def test_a_secret_that_contains_another_is_removed_first() -> None:
    assert redact("abc b", ["b", "abc"]) == "*** ***"


@pytest.mark.parametrize(("text", "secrets"), [("", ["a"]), ("a", []), ("a", ["b"]), ("a", [""])])
def test_other_texts_stay(text: str, secrets: list[str]) -> None:
    assert redact(text, secrets) == text


@pytest.mark.parametrize(("text", "secrets"), [("a" * 200_000, ["b"]), ("a", [f"secret-{n}" for n in range(1000)])])
def test_a_text_that_takes_long_to_search_is_omitted(text: str, secrets: list[str]) -> None:
    assert redact(text, secrets).startswith("*** omitted")

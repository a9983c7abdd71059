"""Tests of the documentation of bundled policies."""

from pathlib import Path

import pytest

from webhooks.errors import LoadError
from webhooks.policy import docstrings
from webhooks.policy.loader import bundled_files

POLICY = '''"""{docstring}"""

from webhooks import AdmissionReview, Allow, Decision, validating


@validating("pods")
def fine(review: AdmissionReview, *, count: int = 1, words: tuple[str, ...] = ("a", "b")) -> Decision:
    """Allow."""
    return Allow()
'''
DOCSTRING = """Pods are fine.

They are ``so``,
always.

And then.

Parameters:
    count: how many,
        at most.
    words: which.

Allowed, with ``count=2`` and
``words=["c"]``::

    spec: {{}}

Denied::

    spec:

      a: b

Denied, with nothing set::

    spec: {{a: c}}
"""


def load(folder: Path, docstring: str, monkeypatch: pytest.MonkeyPatch) -> docstrings.PolicyDoc:
    file = folder / "fine.py"
    file.write_text(POLICY.format(docstring=docstring.format()))
    monkeypatch.setattr("webhooks.policy.loader.bundled_files", lambda: {"fine": file})
    return docstrings.load("fine")


def test_a_docstring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load(tmp_path, DOCSTRING, monkeypatch)
    assert (policy.name, policy.kind, policy.summary) == ("fine", "validating", "Pods are fine.")
    assert policy.paragraphs == ("They are ``so``,\nalways.", "And then.")
    assert policy.parameters == (
        docstrings.Parameter("count", "how many,\n        at most.", "1"),
        docstrings.Parameter("words", "which.", '["a", "b"]'),
    )
    assert [(example.outcome, example.parameters, example.text) for example in policy.examples] == [
        ("Allowed", 'count=2, words=["c"]', "spec: {}"),
        ("Denied", 'count=2, words=["c"]', "spec:\n\n  a: b"),
        ("Denied", "", "spec: {a: c}"),
    ]
    assert policy.examples[1].heading == "Denied::"


@pytest.mark.parametrize(
    ("docstring", "message"),
    [
        ("", "a summary on one line"),
        ("Two\nlines.", "a summary on one line"),
        ("No full stop", "a summary on one line"),
        ("Fine.\n\nParameters:\n  count: how many.", "parameters must be lines"),
        ("Fine.\n\nParameters:\n    count: how many\n    at most.", "parameters must be lines"),
        ("Fine.\n\nParameters:\n    number: how many.", "unknown parameters: number"),
        ("Fine.\n\nMore.\n\n    spec: {{}}", "misplaced"),
        ("Fine.\n\nAllowed::\n\n  spec: {{}}", "misplaced"),
        ("Fine.\n\nAllowed::\n\n    spec: {{}}\n\nMore.", "misplaced"),
        ("Fine.\n\nallowed::\n\n    spec: {{}}", "an example must begin with a heading"),
    ],
)
def test_malformed_docstrings(docstring: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=rf"^fine\.py: .*{message}"):
        load(tmp_path, docstring, monkeypatch)


def test_all_bundled_policies_are_documented() -> None:
    assert [policy.name for policy in docstrings.load_all()] == list(bundled_files())


def test_an_unknown_policy() -> None:
    with pytest.raises(LoadError, match="library:nothing: "):
        docstrings.load("nothing")

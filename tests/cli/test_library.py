"""The list and the page of the bundled policies."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from webhooks.cli import library as catalogue
from webhooks.cli.main import main
from webhooks.errors import LoadError
from webhooks.policy.loader import bundled_files

from .test_main import run_installed

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "bundled-policies.md"
RENEW = "webhooks library --markdown > docs/reference/bundled-policies.md"

POLICY = '''"""{docstring}"""

from webhooks import AdmissionReview, Allow, Decision, validating


@validating("pods")
def fine(review: AdmissionReview, *, count: int = 1, words: tuple[str, ...] = ("a", "b")) -> Decision:
    """Allow."""
    return Allow()
'''
DOCSTRING = """All is fine.

It is ``so``,
at length.

And again.

Parameters:
    count: how many,
        or how few.
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


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["library", *arguments], prog_name="webhooks")


def entry_of(folder: Path, docstring: str, monkeypatch: pytest.MonkeyPatch) -> catalogue.Entry:
    file = folder / "fine.py"
    file.write_text(POLICY.format(docstring=docstring.format()))
    monkeypatch.setattr("webhooks.policy.loader.bundled_files", lambda: {"fine": file})
    return catalogue.entry("fine")


def test_a_docstring_is_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(tmp_path, DOCSTRING, monkeypatch)
    assert (entry.name, entry.kind, entry.summary) == ("fine", "validating", "All is fine.")
    assert entry.about == ("It is ``so``,\nat length.", "And again.")
    assert [(each.name, each.text, each.default) for each in entry.parameters] == [
        ("count", "how many,\n        or how few.", "1"),
        ("words", "which.", '["a", "b"]'),
    ]
    assert [(each.outcome, each.parameters, each.text) for each in entry.examples] == [
        ("Allowed", 'count=2, words=["c"]', "spec: {}"),
        ("Denied", 'count=2, words=["c"]', "spec:\n\n  a: b"),
        ("Denied", "", "spec: {a: c}"),
    ]


def test_one_as_text_and_as_markdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(tmp_path, DOCSTRING, monkeypatch)
    text = catalogue.text(entry)
    assert text.startswith(
        "fine (validating)\n\nAll is fine.\n\nIt is ``so``,\nat length.\n\nAnd again.\n\nParameters:\n"
    )
    assert "    count: how many,\n        or how few.\n        Default: 1\n    words: which.\n" in text
    assert text.endswith("\n\nDenied, with nothing set::\n\n    spec: {a: c}\n")
    page = catalogue.page([entry])
    assert page.startswith("# Bundled policies\n")
    assert "| [fine](#fine) | validating | All is fine. |\n\n## fine\n\nAll is fine.\n\nIt is `so`,\n" in page
    assert (
        '- `count` (`1`): how many,\n  or how few.\n- `words` (`["a", "b"]`): which.\n\nAllowed, with `count=2`' in page
    )
    assert page.endswith("\n\nDenied, with nothing set:\n\n    spec: {a: c}\n")


@pytest.mark.parametrize(
    ("docstring", "says"),
    [
        ("", "one line"),
        ("Two\nlines.", "one line"),
        ("No end", "one line"),
        ("Fine.\n\nParameters:\n  count: how many.", "parameters are lines"),
        ("Fine.\n\nParameters:\n    count: how many\n    or few.", "parameters are lines"),
        ("Fine.\n\nParameters:\n    number: how many.", "no parameters number"),
        ("Fine.\n\nMore.\n\n    spec: {{}}", "wrong place"),
        ("Fine.\n\nAllowed::\n\n  spec: {{}}", "wrong place"),
        ("Fine.\n\nAllowed::\n\n    spec: {{}}\n\nMore.", "wrong place"),
        ("Fine.\n\nallowed::\n\n    spec: {{}}", "an example begins"),
    ],
)
def test_a_docstring_that_is_not_as_it_must_be(
    docstring: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=rf"^fine\.py: .*{says}"):
        entry_of(tmp_path, docstring, monkeypatch)


def test_the_page_is_as_the_docstrings_are() -> None:
    assert PAGE.read_text() == catalogue.page(catalogue.entries()), f"renew it: {RENEW}"


def test_the_command_that_renews_the_page() -> None:
    ended = run("--markdown")
    assert (ended.exit_code, ended.stdout) == (0, PAGE.read_text())


def test_the_list_has_every_bundled_policy() -> None:
    ended = run()
    lines = [re.split(" {2,}", line) for line in ended.stdout.splitlines()]
    assert (ended.exit_code, [name for name, _, _ in lines]) == (0, list(bundled_files()))
    assert ["allowed_repos", "validating", catalogue.entry("allowed_repos").summary] in lines


def test_one_of_them() -> None:
    ended = run("required_labels")
    assert (ended.exit_code, ended.stdout) == (0, catalogue.text(catalogue.entry("required_labels")))
    assert 'Default: [{"key": "owner"}]' in ended.stdout


def test_none_of_that_name() -> None:
    ended = run("nothing")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == "webhooks: library:nothing: no bundled policy of that name: `webhooks library` lists them\n"
    with pytest.raises(LoadError):
        catalogue.entry("nothing")


def test_names_are_completed() -> None:
    typed = {"COMP_WORDS": "webhooks library required_l", "COMP_CWORD": "2"}
    assert run_installed(_WEBHOOKS_COMPLETE="bash_complete", **typed).stdout == "plain,required_labels\n"

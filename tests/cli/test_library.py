"""Tests of ``webhooks library``: the list, the description and the page of bundled policies."""

import re
from pathlib import Path

from webhooks.cli.library import format_markdown, format_text
from webhooks.policy import docstrings
from webhooks.policy.loader import bundled_files

from .test_main import run, run_installed

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "bundled-policies.md"
POLICY = docstrings.PolicyDoc(
    name="fine",
    kind="validating",
    summary="Pods are ``fine``.",
    paragraphs=("They are ``so``,\nalways.", "And then."),
    parameters=(
        docstrings.Parameter("count", "how many,\n        at most.", "1"),
        docstrings.Parameter("words", "which.", '["a", "b"]'),
    ),
    examples=(
        docstrings.Example("Allowed, with ``count=2``::", "Allowed", "count=2", "spec: {}"),
        docstrings.Example("Denied::", "Denied", "count=2", "spec:\n\n  a: b"),
    ),
)


def test_text() -> None:
    assert (
        format_text(POLICY)
        == """\
fine (validating)

Pods are ``fine``.

They are ``so``,
always.

And then.

Parameters:
    count: how many,
        at most.
        Default: 1
    words: which.
        Default: ["a", "b"]

Allowed, with ``count=2``::

    spec: {}

Denied::

    spec:

      a: b
"""
    )


def test_markdown() -> None:
    text = format_markdown([POLICY])
    assert text.startswith("# Bundled policies\n")
    assert text.endswith("""
| policy | kind | purpose |
|---|---|---|
| [fine](#fine) | validating | Pods are `fine`. |

## fine

Pods are `fine`.

They are `so`,
always.

And then.

- `count` (`1`): how many,
  at most.
- `words` (`["a", "b"]`): which.

Allowed, with `count=2`:

    spec: {}

Denied:

    spec:

      a: b
""")


def test_the_page_is_up_to_date() -> None:
    result = run("library", "--markdown")
    assert result.exit_code == 0
    remedy = f"run: webhooks library --markdown > {PAGE.relative_to(Path(__file__).parents[2])}"
    assert result.stdout == PAGE.read_text(), remedy


def test_all_policies_are_listed() -> None:
    result = run("library")
    lines = [re.split(" {2,}", line) for line in result.stdout.splitlines()]
    assert (result.exit_code, [name for name, _, _ in lines]) == (0, list(bundled_files()))
    assert ["allowed_repos", "validating", docstrings.load("allowed_repos").summary] in lines


def test_one_policy() -> None:
    result = run("library", "required_labels")
    assert (result.exit_code, result.stdout) == (0, format_text(docstrings.load("required_labels")))
    assert 'Default: [{"key": "owner"}]' in result.stdout


def test_an_unknown_policy() -> None:
    result = run("library", "nothing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("webhooks: library:nothing: ")


def test_names_are_completed() -> None:
    words = {"COMP_WORDS": "webhooks library required_l", "COMP_CWORD": "2"}
    assert run_installed(_WEBHOOKS_COMPLETE="bash_complete", **words).stdout == "plain,required_labels\n"

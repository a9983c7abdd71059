"""Docstrings, comments and documentation use plain technical English: few phrases that a reader must read twice."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_PER_1000_WORDS = 4

# A plain text uses some of these words, so each alone is no error; many of them make a text hard to read.
PHRASES = re.compile(
    r"\b(told|tells?|telling"
    r"|somebody|nobody|whoever|whom|everybody|anybody"
    r"|(?:what|whatever) (?:is|it|they|was|has|comes?|came|one|we|a|an|the|others?|policies|stands)"
    r"|(?:is|are|was|were|has|have) (?:none|no)"
    r"|stands?|lies|bears?|begins?|begun|ends|ended"
    r"|as yet|all the same|for want of|likewise|beside|mend|mends|mended|perhaps|at present|meanwhile|lest"
    r"|of (?:which|whom|those|these|what))\b",
    re.IGNORECASE,
)


def comments(path: Path) -> Iterator[str]:
    """List the docstrings and comments of a Python file."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def code() -> list[str]:
    """Return the prose in the code."""
    paths = [path for folder in ("webhooks", "policies") for path in (ROOT / folder).rglob("*.py")]
    return [text for path in paths for text in comments(path)]


def pages() -> list[str]:
    """Return the prose of the documentation, without blocks of code."""
    paths = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return [re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL) for path in paths]


@pytest.mark.parametrize("source", [code, pages], ids=lambda source: source.__name__)
def test_few_phrases_are_hard_to_read(source) -> None:
    text = "\n".join(source())
    words = len(re.findall(r"[A-Za-z']+", text))
    found = [match[0].lower() for match in PHRASES.finditer(text)]
    most = sorted(set(found), key=found.count, reverse=True)[:10]
    assert 1000 * len(found) / words <= MAX_PER_1000_WORDS, {phrase: found.count(phrase) for phrase in most}

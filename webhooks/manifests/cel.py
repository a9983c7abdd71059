"""Builds expressions in CEL, the language of match conditions."""

import json
import re
from collections.abc import Iterable, Sequence

from webhooks.kube.globs import is_pattern


def quote(text: str) -> str:
    """Return a string literal. It has single quotes, which need no escapes in YAML and JSON."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return f"'{escaped}'"


def quote_list(texts: Iterable[str]) -> str:
    """Return a list literal of strings."""
    return f"[{', '.join(map(quote, texts))}]"


def all_of(expressions: Sequence[str]) -> str:
    """Join expressions with "and". Empty expressions are omitted: they are always true."""
    parts = [expression for expression in expressions if expression]
    return " && ".join(f"({part})" if "||" in part and len(parts) > 1 else part for part in parts)


def any_of(expressions: Sequence[str], separator: str = " || ") -> str:
    """Join expressions with "or". The result is empty, which is always true, if one of them is."""
    if not all(expressions):
        return ""
    return separator.join(f"({part})" if len(expressions) > 1 else part for part in expressions)


def matches_any(field: str, globs: Sequence[str] | None) -> str:
    """Return the expression that a field matches one of the globs.

    It is empty if the globs match any text, and if CEL cannot express one of them.
    """
    if globs is None or "*" in globs or any("[" in glob for glob in globs):
        return ""
    literals = [glob for glob in globs if not is_pattern(glob)]
    parts = []
    if len(literals) == 1:
        parts.append(f"{field} == {quote(literals[0])}")
    elif literals:
        parts.append(f"{field} in {quote_list(literals)}")
    parts += [_matches_pattern(field, glob) for glob in globs if is_pattern(glob)]
    return f"({' || '.join(parts)})" if parts else "false"


def matches_none(field: str, globs: Sequence[str]) -> str:
    """Return the expression that a field matches none of the globs; empty if CEL cannot express one of them."""
    matches = matches_any(field, globs) if globs else ""
    return f"!{matches}" if matches else ""


def _matches_pattern(field: str, pattern: str) -> str:
    if pattern.endswith("*") and not is_pattern(pattern[:-1]):
        return f"{field}.startsWith({quote(pattern[:-1])})"
    if pattern.startswith("*") and not is_pattern(pattern[1:]):
        return f"{field}.endsWith({quote(pattern[1:])})"
    regex = "".join({"*": ".*", "?": "."}.get(character) or _escape(character) for character in pattern)
    return f"{field}.matches({quote(f'(?s)^{regex}$')})"


def _escape(character: str) -> str:
    return f"\\{character}" if re.fullmatch(r"[!-/:-@\[-`{-~]", character) else character

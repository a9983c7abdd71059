"""Objects as YAML: short, in the order of their keys, and read again as they are by readers of YAML 1.1 and 1.2."""

import json
import re
from functools import lru_cache
from typing import Any

from webhooks.kube.yaml_reader import resolved

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@+-]*(?:[ :][A-Za-z0-9_./@+-]+)*|[0-9]+[A-Za-z]+")


def written(value: Any) -> str:
    """A value as YAML."""
    return "".join(f"{line}\n" for line in lines(value))


def lines(value: Any) -> list[str]:
    """A value as lines of YAML."""
    found: list[str] = []
    if value and isinstance(value, dict | list):
        _write(value, "", "", found)
    else:
        found.append(_inline(value))
    return found


def _write(value: dict[str, Any] | list[Any], first: str, indent: str, found: list[str]) -> None:
    """Write what is not empty; its first line begins otherwise than the others."""
    for key, each in value.items() if isinstance(value, dict) else (("", each) for each in value):
        head = f"{first}{_text(key)}:" if isinstance(value, dict) else f"{first}-"
        first = indent
        inner = f"{indent}  "
        if isinstance(each, str):
            _write_text(each, head, inner, found)
        elif not each or not isinstance(each, dict | list):
            found.append(f"{head} {_inline(each)}")
        elif isinstance(value, list):
            _write(each, f"{head} ", inner, found)
        else:
            found.append(head)
            inner = indent if isinstance(each, list) else inner
            _write(each, inner, inner, found)


def _write_text(text: str, head: str, indent: str, found: list[str]) -> None:
    if "\n" not in text or not _in_block(text):
        found.append(f"{head} {_text(text)}")
        return
    found.append(f"{head} {_block_head(text)}")
    found += [f"{indent}{line}" if line else "" for line in text.removesuffix("\n").split("\n")]


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    text = json.dumps(value)
    # Readers of YAML 1.1 know an exponent by the point before it.
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text


@lru_cache(4096)  # manifests say the same again and again
def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and resolved(text) == text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(_escaped(each) for each in quoted)


def _escaped(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _in_block(text: str) -> bool:
    """Whether lines of a text can be written as they are: all printable, the first neither empty nor indented."""
    parts = text.split("\n")
    return parts[0][:1] not in ("", " ") and all(map(str.isprintable, parts))


def _block_head(text: str) -> str:
    if not text.endswith("\n"):
        return "|-"
    return "|+" if text.endswith("\n\n") else "|"

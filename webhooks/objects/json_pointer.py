"""JSON Pointer (RFC 6901): the path of a value in a JSON document."""

import re

from webhooks.errors import PatchError

MAX_DEPTH = 200  # levels of nesting in any document
ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,15}")  # RFC 6901 section 4


def pointer(*tokens: str | int) -> str:
    """Return the JSON Pointer for these member names and array indices, escaped as RFC 6901 section 3 requires.

    Without tokens it is "", the pointer to the whole document.
    """
    return "".join(f"/{escape(str(token))}" for token in tokens)


def escape(token: str) -> str:
    """Escape a member name for a JSON Pointer."""
    return token.replace("~", "~0").replace("/", "~1")


def parse_pointer(text: str, field: str = "path") -> list[str]:
    """Split a JSON Pointer into its tokens: unescaped member names, and array indices as strings.

    Args:
        text: the pointer.
        field: the name of the pointer in error messages.

    Raises:
        PatchError: the text is not a JSON Pointer, or has more than `MAX_DEPTH` tokens.
    """
    if not text:
        return []
    if text[0] != "/" or text.count("~") != text.count("~0") + text.count("~1"):
        raise PatchError(f"{field} is not a JSON Pointer")
    if text.count("/") > MAX_DEPTH:
        raise PatchError(f"{field} is more than {MAX_DEPTH} levels deep")
    tokens = text[1:].split("/")
    return [token.replace("~1", "/").replace("~0", "~") for token in tokens] if "~" in text else tokens

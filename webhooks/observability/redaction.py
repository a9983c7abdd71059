"""Removes secrets from texts for logs."""

import json
from base64 import b64decode
from collections.abc import Collection, Iterator
from contextlib import suppress

_MAX_SECRETS = 100
_MAX_TEXT = 100_000  # characters


def redact(text: str, secrets: Collection[str]) -> str:
    """Replace secrets in a text by ``***``: plain and Base64-decoded, also as Python or JSON strings.

    With more than 100 secrets or 100,000 characters the search would take long, so the whole text is replaced.
    """
    if not secrets or not text:
        return text
    if len(secrets) > _MAX_SECRETS or len(text) > _MAX_TEXT:
        return "*** omitted: too long, or too many secrets, to be searched for secrets"
    forms = {form for secret in secrets for form in _list_forms(secret)} - {""}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def _list_forms(secret: str) -> Iterator[str]:
    with suppress(ValueError):
        yield from _list_spellings(b64decode(secret, validate=True).decode())
    yield from _list_spellings(secret)


def _list_spellings(text: str) -> Iterator[str]:
    yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])

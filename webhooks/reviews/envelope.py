"""What all reviews share: a typed envelope around values that stay as they came, decoded without trust."""

import re
from typing import Any, TypeVar

import msgspec

from webhooks.errors import MalformedReview
from webhooks.objects.json_pointer import MAX_DEPTH
from webhooks.objects.strict_json import load, load_exactly

_encode = msgspec.json.Encoder().encode
_STAND_IN_SIZE = 64

# What the answer must repeat stands first in what servers send, so it can be told from a body that does not decode.
HEAD = 4096  # bytes
_HEADER = rb'"(?:kind|apiVersion)"\s*:\s*"[^"\\]{0,256}"\s*,\s*'
_UID = re.compile(rb'\s*\{\s*((?:%b){0,2})"request"\s*:\s*\{\s*"uid"\s*:\s*"([^"\\\x00-\x1f]{1,256})"' % _HEADER)
_NAMED = re.compile(rb'"(kind|apiVersion)"\s*:\s*"([^"\\]*)"')

T = TypeVar("T", bound=msgspec.Struct)


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """Decode a review's envelope, as strictly as `documents` decodes what is inside.

    Raises:
        MalformedReview: 400 for what is no such review, 422 for what is nested too deep.
    """
    try:
        if not body.isascii():
            body.decode()
        envelope = decoder.decode(body)
    except RecursionError:
        raise MalformedReview(f"nested deeper than {MAX_DEPTH} levels", code=422) from None
    except UnicodeDecodeError as error:
        raise MalformedReview(f"not UTF-8 at byte {error.start}") from None
    except msgspec.MsgspecError as error:
        raise MalformedReview(str(error)) from None
    written = _encode(envelope)
    if not (body.startswith(written) and body[len(written) :] in (b"", b"\n")):
        load_exactly(_without_documents(envelope, body), MAX_DEPTH)
    return envelope


def decode_whole(type_: type[T], body: bytes) -> T:
    """Decode a review that is small enough to be decoded at once.

    Raises:
        MalformedReview: as `documents.load` raises it, and 400 for what has not the shape of the type.
    """
    tree = load(body.strip(b" \t\r\n"), MAX_DEPTH)
    try:
        return msgspec.convert(tree, type_)
    except msgspec.ValidationError as error:
        raise MalformedReview(str(error)) from None


def unknown(api_version: str, kind: str, wanted: str) -> MalformedReview:
    """The error of a review of another kind or version than is wanted."""
    return MalformedReview(f"{api_version[:64]} {kind[:64]} is no known version of {wanted}")


def _without_documents(envelope: Any, body: bytes) -> bytes:
    """The body with a stand-in for each large document in it: those are checked when they are read."""
    for value in _raw_values(envelope):
        if len(value) > _STAND_IN_SIZE and value.startswith(b"{"):
            body = body.replace(value, b"0")
    return body


def _raw_values(struct: msgspec.Struct) -> list[bytes]:
    values = []
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, msgspec.Raw):
            values.append(bytes(value))
        elif isinstance(value, msgspec.Struct):
            values += _raw_values(value)
    return values


class Address(msgspec.Struct):
    """What an answer must repeat, so that the caller takes it for one."""

    kind: str
    apiVersion: str  # noqa: N815
    uid: str


class _Uid(msgspec.Struct):
    uid: str


class _Addressed(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    request: _Uid


_addressed = msgspec.json.Decoder(_Addressed)


def find_address(body: bytes) -> Address | None:
    """Whom to answer, out of a body that is no acceptable review; None where that cannot be told."""
    try:
        found = _addressed.decode(body)
        return Address(found.kind, found.apiVersion, found.request.uid) if found.request.uid else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _search_address(body[:HEAD])


def _search_address(head: bytes) -> Address | None:
    found = _UID.match(head)
    if found is None:
        return None
    try:
        named = {key.decode(): value.decode() for key, value in _NAMED.findall(found[1])}
        return Address(uid=found[2].decode(), **{"kind": "", "apiVersion": "", **named})
    except UnicodeDecodeError:
        return None

"""Strict decoding of untrusted reviews: a typed envelope, around raw documents that are checked when they are read."""

import re
from typing import Any, TypeVar

import msgspec

from webhooks.errors import MalformedReview
from webhooks.objects.json_pointer import MAX_DEPTH
from webhooks.objects.strict_json import load, load_exactly

_encode = msgspec.json.Encoder().encode
_PLACEHOLDER_SIZE = 64  # bytes; smaller documents are checked together with the envelope

# API servers write the fields that identify a request first, so a prefix of a body that does not decode has them.
ID_PREFIX_SIZE = 4096  # bytes
_HEADER = rb'"(?:kind|apiVersion)"\s*:\s*"[^"\\]{0,256}"\s*,\s*'
_UID = re.compile(rb'\s*\{\s*((?:%b){0,2})"request"\s*:\s*\{\s*"uid"\s*:\s*"([^"\\\x00-\x1f]{1,256})"' % _HEADER)
_HEADER_FIELD = re.compile(rb'"(kind|apiVersion)"\s*:\s*"([^"\\]*)"')

T = TypeVar("T", bound=msgspec.Struct)


def decode_partially(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """Decode a review's envelope as strictly as `strict_json`; large raw documents in it are not checked.

    Raises:
        MalformedReview: 400 if the body is not such a review, 422 if it is nested too deeply.
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
    encoded = _encode(envelope)
    if not (body.startswith(encoded) and body[len(encoded) :] in (b"", b"\n")):
        load_exactly(_mask_documents(envelope, body), MAX_DEPTH)
    return envelope


def decode_fully(type_: type[T], body: bytes) -> T:
    """Decode a review that is small enough to be decoded and checked as a whole.

    Raises:
        MalformedReview: as `strict_json.load` raises it, and 400 if a field has the wrong type or is missing.
    """
    tree = load(body.strip(b" \t\r\n"), MAX_DEPTH)
    try:
        return msgspec.convert(tree, type_)
    except msgspec.ValidationError as error:
        raise MalformedReview(str(error)) from None


def unsupported(kind: str, api_version: str, expected_kind: str) -> MalformedReview:
    """Return the error for a request of another kind, or of a version that is not supported."""
    return MalformedReview(f"{api_version[:64]} {kind[:64]} is not a supported version of {expected_kind}")


def _mask_documents(envelope: Any, body: bytes) -> bytes:
    """Replace each large document in a body by a placeholder: documents are checked when they are read."""
    for value in _find_raw_values(envelope):
        if len(value) > _PLACEHOLDER_SIZE and value.startswith(b"{"):
            body = body.replace(value, b"0")
    return body


def _find_raw_values(struct: msgspec.Struct) -> list[bytes]:
    values = []
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, msgspec.Raw):
            values.append(bytes(value))
        elif isinstance(value, msgspec.Struct):
            values += _find_raw_values(value)
    return values


class RequestId(msgspec.Struct):
    """The fields of a request that its response must repeat; API servers reject a response without them."""

    kind: str
    api_version: str
    uid: str


class _Request(msgspec.Struct):
    uid: str


class _Envelope(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    request: _Request


_decoder = msgspec.json.Decoder(_Envelope)


def find_request_id(body: bytes) -> RequestId | None:
    """Find the fields that identify a request, in a body that is not an acceptable review.

    Returns:
        None if the body has none, or is malformed before or in them.
    """
    try:
        envelope = _decoder.decode(body)
        uid = envelope.request.uid
        return RequestId(envelope.kind, envelope.api_version, uid) if uid else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _search_request_id(body[:ID_PREFIX_SIZE])


def _search_request_id(prefix: bytes) -> RequestId | None:
    match = _UID.match(prefix)
    if match is None:
        return None
    try:
        fields = {key: value.decode() for key, value in _HEADER_FIELD.findall(match[1])}
        return RequestId(fields.get(b"kind", ""), fields.get(b"apiVersion", ""), match[2].decode())
    except UnicodeDecodeError:
        return None

"""The codec of AdmissionReview, v1 and v1beta1.

Objects stay raw until they are read. But if policies have read objects of a kind before, the next object of that kind
is decoded together with the envelope, which costs hardly more than finding its end.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from webhooks.errors import REASONS, MalformedReview
from webhooks.kube.api_groups import ADMISSION
from webhooks.objects.lazy_object import NULL, LazyObject
from webhooks.objects.strict_json import LARGE
from webhooks.objects.typed_decoding import TYPES, seen_kinds
from webhooks.reviews.admission import AdmissionEnvelope, AdmissionRequest, AdmissionReview
from webhooks.reviews.codec import Codec, ReviewSummary, encode_json, format_resource
from webhooks.reviews.envelope import ID_PREFIX_SIZE, decode_partially, find_request_id, unsupported
from webhooks.reviews.outcomes import Allow, Decision, Deny

_OBJECT, _NULL = b"{n"  # the first byte of each
_KIND = re.compile(rb'"request":\{"uid":"[^"]*","kind":\{[^{}]*?"kind":"(\w+)"')


class AdmissionStatus(msgspec.Struct, omit_defaults=True):
    """The reason of a denial."""

    message: str
    reason: str
    code: int
    details: Mapping[str, Any] | None = None


class AdmissionResponse(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The decision on an AdmissionRequest. The patch is a JSON Patch document, encoded in base64."""

    uid: str
    allowed: bool
    status: AdmissionStatus | None = None
    patch: bytes | None = None
    patch_type: str | None = None
    audit_annotations: Mapping[str, str] = {}
    warnings: Sequence[str] = ()


class _ResponseEnvelope(msgspec.Struct, rename="camel"):
    kind: str
    api_version: str
    response: AdmissionResponse


class _UserInfo(msgspec.Struct):
    username: str = ""


def _decoder_with_object(type_: Any) -> "msgspec.json.Decoder[AdmissionEnvelope]":
    """Return a decoder of envelopes that decodes the object too, as this type."""
    field = ("object", type_ | msgspec.UnsetType | None, msgspec.UNSET)
    request = msgspec.defstruct("Request", [field], bases=(AdmissionRequest,), kw_only=True)
    return msgspec.json.Decoder(msgspec.defstruct("Envelope", [("request", request)], bases=(AdmissionEnvelope,)))


_decoder = msgspec.json.Decoder(AdmissionEnvelope)
_user_decoder = msgspec.json.Decoder(_UserInfo)
_decoders = {kind: _decoder_with_object(type_) for kind, type_ in TYPES.items()}


class AdmissionCodec(Codec[AdmissionReview, Decision]):
    """The codec of admission reviews."""

    kind = "AdmissionReview"
    api_versions = ADMISSION

    def decode(self, body: bytes) -> AdmissionReview:
        """Decode a request."""
        envelope, read_raw = _decode(body)
        request = envelope.request
        if envelope.kind != self.kind or envelope.api_version not in ADMISSION:
            raise unsupported(envelope.kind, envelope.api_version, self.kind)
        kind = request.kind.kind
        if read_raw is None:
            object_ = _object(request.object, kind, "object")
        else:
            object_ = LazyObject(read_raw, kind=kind, typed=request.object) if request.object else NULL
        old_object = _object(request.old_object, kind, "oldObject")
        target = old_object if request.operation == "DELETE" else object_
        return AdmissionReview(envelope, object_, old_object, target)

    def encode(self, review: AdmissionReview, outcome: Decision, patch: bytes | None = None, /) -> bytes:
        """Encode the response to a review."""
        response = AdmissionResponse(
            uid=review.uid,
            allowed=type(outcome) is Allow,
            status=_status(outcome) if type(outcome) is Deny else None,
            patch=patch,
            patch_type="JSONPatch" if patch else None,
            audit_annotations=outcome.audit,
            warnings=outcome.warnings,
        )
        envelope = review._envelope
        return encode_json(_ResponseEnvelope(envelope.kind, envelope.api_version, response))

    def encode_denial(self, body: bytes, message: str, code: int) -> bytes | None:
        """Encode a denial of a body that is not an acceptable review; None if it does not identify the request."""
        request_id = find_request_id(body)
        if request_id is None:
            return None
        status = _status(Deny(message, reason=REASONS[code], code=code))
        response = AdmissionResponse(uid=request_id.uid, allowed=False, status=status)
        api_version = request_id.api_version or "admission.k8s.io/v1"
        return encode_json(_ResponseEnvelope(request_id.kind or self.kind, api_version, response))

    def request_uid(self, body: bytes) -> str:
        """Return the uid of a body that is not an acceptable review; empty if it has none."""
        request_id = find_request_id(body)
        return "" if request_id is None else request_id.uid

    def encode_request(self, review: AdmissionReview) -> bytes:
        """Encode a review as a request that decodes to the same review, with the changes that policies made so far."""
        envelope = review._envelope
        request = msgspec.structs.replace(envelope.request, object=msgspec.Raw(review._object.to_json()))
        return encode_json(msgspec.structs.replace(envelope, request=request))

    def summarize(self, review: AdmissionReview, summary: ReviewSummary) -> None:
        """Fill in the summary of a review, as far as the review can be read."""
        request, resource = review._envelope.request, review._envelope.request.resource
        summary.uid = request.uid
        summary.operation = request.operation
        summary.resource = format_resource(
            resource.group, resource.version, resource.resource, request.sub_resource or ""
        )
        summary.namespace = request.namespace or ""
        summary.dry_run = bool(request.dry_run)
        try:
            summary.name = request.name or review.name
            if request.user_info is not msgspec.UNSET:
                summary.user = _user_decoder.decode(request.user_info).username
        except (MalformedReview, msgspec.MsgspecError):
            pass  # no policy has read it

    def sensitive_values(self, review: AdmissionReview) -> list[str]:
        """Return the values in a Secret; none for other kinds."""
        if review.kind.kind != "Secret":
            return []
        try:
            trees = review._object.tree, review._old_object.tree
        except MalformedReview:
            return []  # no policy could read it either
        maps = [tree.get(field) for tree in trees if isinstance(tree, dict) for field in ("data", "stringData")]
        return [value for map_ in maps if isinstance(map_, dict) for value in map_.values() if isinstance(value, str)]


def _decode(body: bytes) -> tuple[AdmissionEnvelope, Callable[[], Any] | None]:
    """Decode an envelope.

    Returns:
        The envelope, and a function that returns the raw object if the object was decoded together with the envelope.
        The encoded length proves that nothing was lost, as in `typed_decoding`. A body without this proof is decoded
        again by the strict decoder, which reports why it is malformed.
    """
    decoder = _decoder_for(body) if seen_kinds and len(body) < LARGE else None
    if decoder is not None:
        try:
            if not body.isascii():
                body.decode()
            envelope = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return decode_partially(_decoder, body), None
        encoded = encode_json(envelope)
        if len(encoded) == len(body) - body.endswith(b"\n"):
            if body.startswith(encoded):
                return envelope, lambda: encode_json(envelope.request.object)
            return envelope, lambda: _decoder.decode(body).request.object
    return decode_partially(_decoder, body), None


def _decoder_for(body: bytes) -> "msgspec.json.Decoder[AdmissionEnvelope] | None":
    """Return the decoder that decodes the object too, if an outline of its kind has been used before."""
    match = _KIND.search(body, 0, ID_PREFIX_SIZE)
    kind = match[1].decode() if match is not None else ""
    return _decoders[kind] if kind in seen_kinds else None


def _object(raw: msgspec.Raw | msgspec.UnsetType, kind: str, field: str) -> LazyObject:
    if raw is msgspec.UNSET:
        return NULL
    first = memoryview(raw)[0]
    if first == _OBJECT:
        return LazyObject(raw, kind=kind)
    if first == _NULL:
        return NULL
    raise MalformedReview(f"request.{field} is not an object")


def _status(denial: Deny) -> AdmissionStatus:
    return AdmissionStatus(denial.message, denial.reason, denial.code, details=denial.details)


CODEC = AdmissionCodec()

"""The OpenAPI document of the review paths, generated from the structs that requests are decoded to."""

from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import msgspec

from webhooks.kube.api_groups import AUDIT
from webhooks.reviews import admission_codec, audit, authentication, authorization, images
from webhooks.reviews.admission import AdmissionRequest
from webhooks.reviews.codec import Codec
from webhooks.reviews.user import User

_REFERENCE = "#/components/schemas/{name}"


class _Protocol(NamedTuple):
    """A review protocol: the types of the field with the request, and of the field with the response."""

    tag: str
    summary: str
    kind: str
    api_versions: Collection[str]
    request: tuple[str, Any]
    response: tuple[str, Any] | None

    @classmethod
    def from_codec(
        cls, tag: str, summary: str, codec: Codec[Any, Any], request: tuple[str, Any], response: tuple[str, Any]
    ) -> "_Protocol":
        return cls(tag, summary, codec.kind, codec.api_versions, request, response)


_PROTOCOLS: Mapping[str, _Protocol] = {
    "admission": _Protocol.from_codec(
        "Admission",
        "May this object be stored, and how must it be changed first?",
        admission_codec.CODEC,
        ("request", AdmissionRequest),
        ("response", admission_codec.AdmissionResponse),
    ),
    "authorize": _Protocol.from_codec(
        "Authorization",
        "May this user do that?",
        authorization.CODEC,
        ("spec", authorization.SubjectAccessReviewSpec),
        ("status", authorization.SubjectAccessReviewStatus),
    ),
    "authenticate": _Protocol.from_codec(
        "Authentication",
        "Who holds this token?",
        authentication.CODEC,
        ("spec", authentication.TokenReviewSpec),
        ("status", authentication.TokenReviewStatus),
    ),
    "images": _Protocol.from_codec(
        "Images",
        "May a pod run these images?",
        images.CODEC,
        ("spec", images.ImageReviewSpec),
        ("status", images.ImageReviewStatus),
    ),
    "audit": _Protocol(
        "Audit",
        "Count audit events.",
        audit.KIND,
        AUDIT,
        ("items", tuple[audit.AuditEvent, ...]),
        None,
    ),
}
_OPS_PATHS = {
    "/livez": "Whether the server is alive.",
    "/readyz": "Whether the server is ready to answer reviews.",
    "/healthz": "As /readyz, under its older name.",
    "/metrics": "Metrics, for Prometheus.",
}
_TIMEOUT = {
    "name": "timeout",
    "in": "query",
    "description": "The client's timeout: a duration such as 10s.",
    "schema": {"type": "string"},
}


def describe(title: str, paths: Iterable[str], max_body: int) -> dict[str, Any]:
    """Return the OpenAPI document of a server.

    Args:
        title: its title.
        paths: the review paths.
        max_body: the maximum size of a body in bytes.
    """
    operations: dict[str, Any] = {path: {"post": _review_operation(path, max_body)} for path in paths}
    operations |= {path: {"get": _ops_operation(summary)} for path, summary in _OPS_PATHS.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("cluster-webhooks")},
        "paths": operations,
        "components": {"schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    fields = [field for protocol in _PROTOCOLS.values() for field in (protocol.request, protocol.response) if field]
    types = [type_ for _, type_ in fields]
    references, schemas = msgspec.json.schema_components([*types, User], ref_template=_REFERENCE)
    reference_of = dict(zip(types, references, strict=False))
    schemas["AdmissionRequest"]["properties"]["userInfo"] = {"anyOf": [references[-1], {"type": "null"}]}
    for schema in schemas.values():
        schema["description"] = schema["description"].partition("\n")[0]  # without the attributes
    for protocol in _PROTOCOLS.values():
        versions = {"enum": sorted(protocol.api_versions)}
        schemas[protocol.kind] = _envelope(protocol, versions, protocol.request, reference_of)
        response_version = {"type": "string"}  # repeats that of the request
        schemas[f"{protocol.kind}Response"] = (
            {"type": "object"}
            if protocol.response is None
            else _envelope(protocol, response_version, protocol.response, reference_of)
        )
    return schemas


def _envelope(
    protocol: _Protocol, api_version: Mapping[str, Any], field: tuple[str, Any], reference_of: Mapping[Any, Any]
) -> dict[str, Any]:
    name, type_ = field
    return {
        "type": "object",
        "properties": {"kind": {"const": protocol.kind}, "apiVersion": api_version, name: reference_of[type_]},
        "required": ["kind", "apiVersion", name],
    }


def _review_operation(path: str, max_body: int) -> dict[str, Any]:
    protocol = _PROTOCOLS[path.split("/")[1]]
    return {
        "tags": [protocol.tag],
        "operationId": path.strip("/").replace("/", "_"),
        "summary": protocol.summary,
        "parameters": [_TIMEOUT],
        "requestBody": {"required": True, "content": _json(protocol.kind)},
        "responses": {
            "200": {"description": "The response.", "content": _json(f"{protocol.kind}Response")},
            "400": {"description": "The body is not such a review."},
            "413": {"description": f"The body is larger than {max_body} bytes."},
            "415": {"description": "The body is not JSON, or has a content encoding."},
            "422": {"description": "The body exceeds a limit of depth, integers or size."},
            "500": {"description": "A policy failed, and the protocol leaves the review undecided."},
        },
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=name)}}}


def _ops_operation(summary: str) -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    return {
        "tags": ["Operations"],
        "summary": summary,
        "responses": {"200": {"description": "Success.", "content": content}},
    }

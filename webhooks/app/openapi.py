"""What the review paths take and give, for people and their tools: the models are documentation and decode nothing."""

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class GroupVersionKind(_Model):
    """The type of an object."""

    group: str
    version: str
    kind: str


class GroupVersionResource(_Model):
    """A resource of the API."""

    group: str
    version: str
    resource: str


class UserInfo(_Model):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class AdmissionRequest(_Model):
    """A request to store, change, delete or connect to an object."""

    uid: str = Field(min_length=1)
    kind: GroupVersionKind
    resource: GroupVersionResource
    sub_resource: str | None = None
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    user_info: UserInfo | None = None
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None
    options: dict[str, Any] | None = None


class Status(_Model):
    """Why a request is denied."""

    message: str
    reason: str
    code: int
    details: dict[str, Any] | None = None


class AdmissionResponse(_Model):
    """The answer to an AdmissionRequest."""

    uid: str
    allowed: bool
    status: Status | None = None
    patch: str | None = Field(None, description="A JSON Patch document, in base64.")
    patch_type: Literal["JSONPatch"] | None = None
    audit_annotations: dict[str, str] = {}
    warnings: list[str] = []


class AdmissionReview(_Model):
    """May this object be stored, and how should it be changed first?"""

    api_version: Literal[
        "admission.k8s.io/v1", "admission.k8s.io/v1beta1", "admission.svc.io/v1", "admission.svc.io/v1beta1"
    ]
    kind: Literal["AdmissionReview"]
    request: AdmissionRequest


class AdmissionReviewAnswer(_Model):
    """The answer to an AdmissionReview."""

    api_version: str
    kind: Literal["AdmissionReview"]
    response: AdmissionResponse


class Requirement(_Model):
    """One term of a selector."""

    key: str
    operator: str
    values: list[str] = []


class Selector(_Model):
    """The selector of a request to a collection."""

    requirements: list[Requirement] = []
    raw_selector: str = ""


class ResourceAttributes(_Model):
    """A request to a resource."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: Selector | None = None
    label_selector: Selector | None = None


class NonResourceAttributes(_Model):
    """A request to a path."""

    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(_Model):
    """Who wants to do what; v1beta1 spells groups as group."""

    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: list[str] = []
    group: list[str] = []
    uid: str = ""
    extra: dict[str, list[str]] = {}


class SubjectAccessReview(_Model):
    """May this user do that?"""

    api_version: Literal[
        "authorization.k8s.io/v1",
        "authorization.k8s.io/v1beta1",
        "authorization.svc.io/v1",
        "authorization.svc.io/v1beta1",
    ]
    kind: Literal["SubjectAccessReview"]
    spec: SubjectAccessReviewSpec


class SubjectAccessReviewStatus(_Model):
    """Allowed, denied, or neither, which leaves it to the next authorizer."""

    allowed: bool
    denied: bool = False
    reason: str = ""


class SubjectAccessReviewAnswer(_Model):
    """The answer to a SubjectAccessReview."""

    api_version: str
    kind: Literal["SubjectAccessReview"]
    status: SubjectAccessReviewStatus


class TokenReviewSpec(_Model):
    """The token, and whom it must be good for."""

    token: str = Field(min_length=1)
    audiences: list[str] = []


class TokenReview(_Model):
    """Who holds this token?"""

    api_version: Literal[
        "authentication.k8s.io/v1",
        "authentication.k8s.io/v1beta1",
        "authentication.svc.io/v1",
        "authentication.svc.io/v1beta1",
    ]
    kind: Literal["TokenReview"]
    spec: TokenReviewSpec


class TokenReviewStatus(_Model):
    """The holder of the token, where there is one."""

    authenticated: bool
    user: UserInfo | None = None
    audiences: list[str] | None = None
    error: str = ""


class TokenReviewAnswer(_Model):
    """The answer to a TokenReview."""

    api_version: str
    kind: Literal["TokenReview"]
    status: TokenReviewStatus


class ContainerImage(_Model):
    """One image."""

    image: str = ""


class ImageReviewSpec(_Model):
    """The images of a pod."""

    containers: list[ContainerImage] = []
    annotations: dict[str, str] = {}
    namespace: str = ""


class ImageReview(_Model):
    """May a pod run these images?"""

    api_version: Literal["imagepolicy.k8s.io/v1alpha1", "imagepolicy.svc.io/v1alpha1"]
    kind: Literal["ImageReview"]
    spec: ImageReviewSpec


class ImageReviewStatus(_Model):
    """Whether all of them may run."""

    allowed: bool
    reason: str = ""
    audit_annotations: dict[str, str] = {}


class ImageReviewAnswer(_Model):
    """The answer to an ImageReview."""

    api_version: str
    kind: Literal["ImageReview"]
    status: ImageReviewStatus


class AuditEventList(_Model):
    """Audit events; they are counted, and nothing is decided."""

    api_version: Literal["audit.k8s.io/v1", "audit.svc.io/v1"]
    kind: Literal["EventList"]
    items: list[dict[str, Any]]


class AuditAnswer(_Model):
    """The answer to audit events, which nobody reads."""


_BODIES: Mapping[str, tuple[str, type[_Model], type[_Model]]] = {
    "admission": ("Admission", AdmissionReview, AdmissionReviewAnswer),
    "authorize": ("Authorization", SubjectAccessReview, SubjectAccessReviewAnswer),
    "authenticate": ("Authentication", TokenReview, TokenReviewAnswer),
    "images": ("Images", ImageReview, ImageReviewAnswer),
    "audit": ("Audit", AuditEventList, AuditAnswer),
}
_PLAIN = {
    "/livez": "Whether the server lives.",
    "/readyz": "Whether the server can answer reviews.",
    "/healthz": "As /readyz, under its older name.",
    "/metrics": "Metrics, for Prometheus.",
}


def describe(title: str, paths: Iterable[str]) -> dict[str, Any]:
    """The OpenAPI document of a server with these review paths."""
    models = [model for _, *pair in _BODIES.values() for model in pair]
    schemas, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    references = {model: schemas[model, "validation"] for model in models}
    described: dict[str, Any] = {path: {"post": _operation(path, references)} for path in paths}
    described |= {path: {"get": _plain_operation(summary)} for path, summary in _PLAIN.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("cluster-webhooks")},
        "paths": described,
        "components": {"schemas": definitions.get("$defs", {})},
    }


def _operation(path: str, references: Mapping[type[_Model], Any]) -> dict[str, Any]:
    tag, request, answer = _BODIES[path.split("/")[1]]
    return {
        "tags": [tag],
        "operationId": path.strip("/").replace("/", "_"),
        "summary": (request.__doc__ or "").splitlines()[0],
        "parameters": [
            {
                "name": "timeout",
                "in": "query",
                "description": "How long the caller waits: a duration such as 10s.",
                "schema": {"type": "string"},
            }
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": references[request]}}},
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": references[answer]}},
            },
            **{code: {"description": text} for code, text in _ERRORS.items()},
        },
    }


_ERRORS = {
    "400": "The body is no such review.",
    "413": "The body is larger than 7 MiB.",
    "415": "The body is not JSON, or is encoded.",
    "422": "The body is beyond the limits of depth, integers or size.",
    "500": "A policy failed, and the protocol leaves the question open.",
}


def _plain_operation(summary: str) -> dict[str, Any]:
    return {
        "tags": ["Operations"],
        "summary": summary,
        "responses": {"200": {"description": "Good.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
    }

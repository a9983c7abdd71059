"""The OpenAPI document is valid, and real bodies match its schemas."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fastapi.openapi.models import OpenAPI
from starlette.testclient import TestClient

from webhooks import (
    Allow,
    Authenticated,
    Deny,
    authenticating,
    authorizing,
    create_app,
    image_policy,
    mutating,
    validating,
)
from webhooks.settings import Limits

from ..support.builders import (
    GROUPS,
    Json,
    access_body,
    admission_body,
    image_body,
    pod,
    recorded_bodies,
    token_body,
    with_api_version,
)

REVIEWS = {
    "/admission/mutate": admission_body("CREATE", pod()),
    "/admission/mutate/mutates": admission_body("CREATE", pod()),
    "/admission/validate": admission_body("DELETE", None, old=pod()),
    "/admission/validate/denies": admission_body("CREATE", pod()),
    "/authorize": access_body(verb="get", resource="pods"),
    "/authenticate": token_body(),
    "/images": image_body("a"),
    "/audit": {
        "kind": "EventList",
        "apiVersion": "audit.k8s.io/v1",
        "items": [{"level": "Metadata", "stage": "Panic"}],
    },
}
OPERATIONS = {"/livez", "/readyz", "/healthz", "/metrics"}
VERSIONS = {"/images": ["v1alpha1"], "/audit": ["v1"]}


@mutating("pods")
def mutates(review: Any) -> Allow:
    return Allow(warnings=["so and so"], audit={"key": "value"})


@validating("pods")
def denies(review: Any) -> Deny:
    return Deny("no", details={"causes": []})


@authorizing("pods")
def authorizes(access: Any) -> Allow:
    return Allow(reason="because")


@authenticating
def authenticates(token: Any) -> Authenticated:
    return Authenticated("jane", groups=["a"], extra={"b": ["c"]}, audiences=["d"])


@image_policy
def images(review: Any) -> Deny:
    return Deny("no")


POLICIES = [mutates, denies, authorizes, authenticates, images]
CLIENT = TestClient(create_app(POLICIES, limits=Limits(max_body=12345)))
DOCUMENT: Json = CLIENT.get("/openapi.json").json()


# The keywords that `errors` implements; any other keyword in a schema fails the test.
_KEYWORDS = {
    "type",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "anyOf",
    "enum",
    "const",
    "minLength",
    "maxLength",
    "contentEncoding",
    "$ref",
    "default",
    "title",
    "description",
}
_TYPES: Mapping[str, Any] = {
    "string": str,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def errors(schema: Json, value: Any, at: str = "") -> list[str]:
    """Return the reasons why a value does not match a schema."""
    assert set(schema) <= _KEYWORDS, set(schema) - _KEYWORDS
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return errors(DOCUMENT["components"]["schemas"][name], value, at)
    if "anyOf" in schema:
        choices = [errors(choice, value, at) for choice in schema["anyOf"]]
        return [] if [] in choices else [error for choice in choices for error in choice]
    found = [] if _has_type(schema, value) else [f"{at}: {value!r} is not a {schema['type']}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        found.append(f"{at}: {value!r} is not allowed")
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        found.append(f"{at}: {value!r} has the wrong length")
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            more = schema.get("additionalProperties", True)
            inner = schema.get("properties", {}).get(name, more)
            found += errors({} if inner is True else inner, member, f"{at}.{name}")
    if isinstance(value, list):
        for item in value:
            found += errors(schema.get("items", {}), item, f"{at}[]")
    return found


def _has_type(schema: Json, value: Any) -> bool:
    if schema.get("type") == "integer":
        return type(value) is int
    return "type" not in schema or isinstance(value, _TYPES[schema["type"]])


def body_schema(path: str) -> Json:
    body = DOCUMENT["paths"][path]["post"]["requestBody"]
    assert body["required"] is True
    schema: Json = body["content"]["application/json"]["schema"]
    return schema


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        yield from references(child)


def test_the_document_is_valid() -> None:
    OpenAPI.model_validate(DOCUMENT)
    assert DOCUMENT["openapi"] == "3.1.0"
    for reference in references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in DOCUMENT["components"]["schemas"]


def test_every_path_is_described() -> None:
    assert set(DOCUMENT["paths"]) == set(REVIEWS) | OPERATIONS
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert all(operation["summary"] for operation in operations)
    assert all(response["description"] for operation in operations for response in operation["responses"].values())
    ids = [operation["operationId"] for operation in operations if "operationId" in operation]
    assert len(set(ids)) == len(ids)


def test_the_paths_exist() -> None:
    for path, body in REVIEWS.items():
        assert set(DOCUMENT["paths"][path]) == {"post"}
        assert CLIENT.post(path, json=body).status_code == 200
    for path in OPERATIONS:
        assert set(DOCUMENT["paths"][path]) == {"get"}
        assert CLIENT.get(path).status_code == 200


@pytest.mark.parametrize(
    ("path", "sent_to"),
    [
        ("/admission/mutate", "/mutate"),
        ("/admission/validate", "/validate"),
        ("/authorize", "/authorize"),
        ("/authenticate", "/authenticate"),
        ("/images", "/images"),
        ("/audit", "/audit"),
    ],
)
def test_recorded_bodies_match_the_schema(path: str, sent_to: str) -> None:
    bodies = recorded_bodies(sent_to)
    assert bodies
    for name, body in bodies.items():
        assert errors(body_schema(path), body) == [], name


@pytest.mark.parametrize("path", REVIEWS)
def test_every_api_group_matches_the_schema(path: str) -> None:
    for group in GROUPS:
        for version in VERSIONS.get(path, ["v1", "v1beta1"]):
            assert errors(body_schema(path), with_api_version(REVIEWS[path], group, version)) == []


@pytest.mark.parametrize("path", REVIEWS)
@pytest.mark.parametrize("change", ["no kind", "another kind", "another version", "no content", "another shape"])
def test_rejected_bodies_do_not_match_the_schema(path: str, change: str) -> None:
    body = copy.deepcopy(REVIEWS[path])
    content = next(name for name in ("request", "spec", "items") if name in body)
    if change == "no kind":
        del body["kind"]
    elif change == "another kind":
        body["kind"] = "Pod"
    elif change == "another version":
        body["apiVersion"] += "x"
    elif change == "no content":
        del body[content]
    else:
        body[content] = "text"
    assert errors(body_schema(path), body)
    reply = CLIENT.post(path, json=body)
    assert reply.status_code == 400 or reply.json()["response"]["status"]["code"] == 400


@pytest.mark.parametrize("path", REVIEWS)
def test_responses_match_the_schema(path: str) -> None:
    schema = DOCUMENT["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert errors(schema, CLIENT.post(path, json=REVIEWS[path]).json()) == []


def test_the_limit_of_bodies_is_described() -> None:
    for path in REVIEWS:
        responses = DOCUMENT["paths"][path]["post"]["responses"]
        assert responses["413"]["description"] == "The body is larger than 12345 bytes."


def test_the_schemas_describe_the_documents_in_a_review() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    body = admission_body("CREATE", pod())
    for field, wrong in (("object", "text"), ("oldObject", [1]), ("options", 5), ("userInfo", {"groups": "text"})):
        assert errors(schemas["AdmissionReview"], {**body, "request": {**body["request"], field: wrong}}), field
    assert all(schema.get("description", "") == schema.get("description", "").strip() for schema in schemas.values())

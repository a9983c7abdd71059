"""The OpenAPI document: it is valid, and says of bodies what real ones are."""

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

from ..support.builders import GROUPS, Json, access_body, admission_body, image_body, pod, recorded, spelled, token_body

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


CLIENT = TestClient(create_app([mutates, denies, authorizes, authenticates, images]))
DOCUMENT: Json = CLIENT.get("/openapi.json").json()


# A schema says what it says by these words alone; one more of them fails the test.
_WORDS = {
    "type",
    "properties",
    "required",
    "items",
    "additionalProperties",
    "anyOf",
    "enum",
    "const",
    "minLength",
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


def mistakes(schema: Json, value: Any, at: str = "") -> list[str]:
    """Why a value does not have a schema."""
    assert set(schema) <= _WORDS, set(schema) - _WORDS
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return mistakes(DOCUMENT["components"]["schemas"][name], value, at)
    if "anyOf" in schema:
        choices = [mistakes(choice, value, at) for choice in schema["anyOf"]]
        return [] if [] in choices else [each for choice in choices for each in choice]
    found = [] if _has_type(schema, value) else [f"{at}: {value!r} is no {schema['type']}"]
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        found.append(f"{at}: {value!r} is none of these")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        found.append(f"{at}: {value!r} is too short")
    if isinstance(value, dict):
        found += [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, member in value.items():
            more = schema.get("additionalProperties", True)
            inner = schema.get("properties", {}).get(name, more)
            found += mistakes({} if inner is True else inner, member, f"{at}.{name}")
    if isinstance(value, list):
        for each in value:
            found += mistakes(schema.get("items", {}), each, f"{at}[]")
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
    for each in node if isinstance(node, list) else ():
        yield from references(each)


def test_it_is_valid() -> None:
    OpenAPI.model_validate(DOCUMENT)
    assert DOCUMENT["openapi"] == "3.1.0"
    for reference in references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in DOCUMENT["components"]["schemas"]


def test_every_path_is_described() -> None:
    assert set(DOCUMENT["paths"]) == set(REVIEWS) | OPERATIONS
    operations = [operation for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert all(operation["summary"] for operation in operations)
    assert all(each["description"] for operation in operations for each in operation["responses"].values())
    ids = [operation["operationId"] for operation in operations if "operationId" in operation]
    assert len(set(ids)) == len(ids)


def test_the_paths_are_there() -> None:
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
def test_recorded_bodies_have_the_schema(path: str, sent_to: str) -> None:
    bodies = recorded(sent_to)
    assert bodies
    for name, body in bodies.items():
        assert mistakes(body_schema(path), body) == [], name


@pytest.mark.parametrize("path", REVIEWS)
def test_every_spelling_has_the_schema(path: str) -> None:
    for group in GROUPS:
        for version in VERSIONS.get(path, ["v1", "v1beta1"]):
            assert mistakes(body_schema(path), spelled(REVIEWS[path], group, version)) == []


@pytest.mark.parametrize("path", REVIEWS)
@pytest.mark.parametrize("change", ["no kind", "another kind", "another version", "no content", "another shape"])
def test_what_is_refused_has_not_the_schema(path: str, change: str) -> None:
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
    assert mistakes(body_schema(path), body)
    reply = CLIENT.post(path, json=body)
    assert reply.status_code == 400 or reply.json()["response"]["status"]["code"] == 400


@pytest.mark.parametrize("path", REVIEWS)
def test_answers_have_the_schema(path: str) -> None:
    schema = DOCUMENT["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert mistakes(schema, CLIENT.post(path, json=REVIEWS[path]).json()) == []

from typing import Any

import pytest

from webhooks import Deny
from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.policy.loader import load
from webhooks.reviews import admission_codec

from ..support.api_server import accept_admission
from ..support.builders import (
    AnyPolicy,
    Json,
    admission_body,
    admission_review,
    decide,
    encode_body,
    encode_response,
    pod,
    recorded_bodies,
)

[default_seccomp] = load(["library:default_seccomp"])

DEFAULT = {"seccompProfile": {"type": "RuntimeDefault"}}
OWN = {"seccompProfile": {"type": "Localhost", "localhostProfile": "web.json"}}
CONTAINER = {"name": "app", "image": "a", "securityContext": {"seccompProfile": {"type": "Unconfined"}}}


def mutated(body: Json, policy: AnyPolicy = default_seccomp) -> Json:
    """Return the response to a request, with the object as it would be stored."""
    review = admission_codec.CODEC.decode(encode_body(body))
    return accept_admission(body, encode_response("mutating", review, decide(review, policy)), mutating=True)


CONTEXTS: list[tuple[Json, Json]] = [
    ({}, DEFAULT),
    ({"securityContext": None}, DEFAULT),
    ({"securityContext": {}}, DEFAULT),
    ({"securityContext": {"runAsNonRoot": True}}, {"runAsNonRoot": True, **DEFAULT}),
    ({"securityContext": {"seccompProfile": None}}, DEFAULT),
    ({"securityContext": OWN}, OWN),
    ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, {"seccompProfile": {"type": "Unconfined"}}),
    ({"securityContext": {"seccompProfile": {}}}, DEFAULT),
    ({"containers": [CONTAINER]}, DEFAULT),
    ({"containers": [CONTAINER], "initContainers": [CONTAINER], "securityContext": OWN}, OWN),
    ({"os": None}, DEFAULT),
    ({"os": {}}, DEFAULT),
]


@pytest.mark.parametrize(("spec", "context"), CONTEXTS, ids=repr)
def test_a_missing_profile_is_set(spec: Json, context: Json) -> None:
    body = admission_body(obj=pod(**spec))
    response = mutated(body)
    assert response["object"] == pod(**{**spec, "securityContext": context})
    assert ("patch" in response) == (spec.get("securityContext") != context)
    assert "patch" not in mutated(admission_body(obj=response["object"]))


def test_the_profile_is_a_parameter() -> None:
    response = mutated(admission_body(obj=pod()), default_seccomp.bind(profile="Unconfined"))
    assert response["object"]["spec"]["securityContext"] == {"seccompProfile": {"type": "Unconfined"}}


@pytest.mark.parametrize("profile", ["Localhost", "runtimedefault", "", None, 5], ids=repr)
def test_parameters_are_checked(profile: Any) -> None:
    with pytest.raises(ConfigurationError):
        default_seccomp.bind(profile=profile)


def test_pods_for_windows_are_not_changed() -> None:
    assert "patch" not in mutated(admission_body(obj=pod(os={"name": "windows"})))
    assert "patch" in mutated(admission_body(obj=pod(os={"name": "linux"})))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, True),
        ({"operation": "UPDATE"}, False),
        ({"operation": "DELETE"}, False),
        ({"subResource": "binding"}, False),
        ({"resource": "apps/v1/deployments"}, False),
        ({"resource": "batch/v1/cronjobs"}, False),
        ({"resource": "v1/podtemplates"}, False),
        ({"operation": "UPDATE", "subResource": "ephemeralcontainers"}, False),
    ],
)
def test_it_matches_only_new_pods(request_: Json, expected: bool) -> None:
    assert default_seccomp.match.matches_resource(admission_review(**request_)) is expected


@pytest.mark.parametrize("obj", [{}, {"spec": None}, None], ids=repr)
def test_pods_without_a_spec_are_denied(obj: Any) -> None:
    outcome = decide(admission_review(obj=obj), default_seccomp).outcome
    assert isinstance(outcome, Deny)
    assert (outcome.code, outcome.message) == (422, "spec is missing: a pod must have one")


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"spec": []}, "spec must be an object"),
        (pod(securityContext="none"), "securityContext must be an object"),
        (pod(securityContext=[]), "securityContext must be an object"),
        (pod(securityContext={"seccompProfile": "RuntimeDefault"}), "seccompProfile must be an object"),
        (pod(os="linux"), "os must be an object"),
        (pod(os={"name": ["windows"]}), r"os\.name must be a string"),
    ],
    ids=repr,
)
def test_a_misshapen_pod_is_malformed(obj: Json, message: str) -> None:
    with pytest.raises(MalformedReview, match=message) as caught:
        decide(admission_review(obj=obj), default_seccomp)
    assert caught.value.code == 422


def test_nothing_else_in_a_pod_is_changed() -> None:
    body = recorded_bodies("/mutate")["009-mutate-create-pods"]
    spec = body["request"]["object"]["spec"]
    stored = mutated(body)["object"]
    assert stored["spec"].pop("securityContext") == {**spec.pop("securityContext", {}), **DEFAULT}
    assert stored == body["request"]["object"]

"""Reviews of manifests: their results are the same as on a server."""

import asyncio
import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from webhooks import (
    AdmissionReview,
    Allow,
    Decision,
    Deny,
    Mutation,
    Policy,
    Replace,
    create_app,
    mutating,
    validating,
)
from webhooks.errors import ConfigurationError
from webhooks.http.responses import JsonResponse
from webhooks.kube.globs import Globs
from webhooks.objects.json_patch import apply
from webhooks.offline.evaluation import Message, Reviewer, ReviewResult
from webhooks.offline.requests import RequestBuilder
from webhooks.offline.sources import Manifest, Problem
from webhooks.policy.exemptions import Exemption
from webhooks.policy.registry import Registry

from ..support.builders import admission_body, encode_body, pod, recorded_bodies

AnyPolicy = Policy[Any, Any]
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}


@mutating("*", operations=["*"])
def mark(review: AdmissionReview) -> Mutation:
    if review.object is None:
        return Allow()
    review.object.setdefault("metadata", {}).setdefault("labels", {})["marked"] = "yes"
    return Replace(review.object)


@validating("*", operations=["*"])
def marked(review: AdmissionReview) -> Decision:
    assert review.operation == "DELETE" or review.labels["marked"] == "yes"
    return Allow(warnings=["seen"], audit={"operation": review.operation})


@validating("pods", operations=["*"])
def no_latest(review: AdmissionReview) -> Decision:
    names = [container.name for container in review.containers() if container.image.endswith(":latest")]
    return Deny(f"latest: {', '.join(names)}") if names else Allow()


@validating("pods")
def fails(review: AdmissionReview) -> Decision:
    raise ValueError("oh")


@mutating("pods")
def refuses(review: AdmissionReview) -> Mutation:
    return Deny("not today")


@mutating("pods", operations=["*"])
def old_names(review: AdmissionReview) -> Mutation:
    return Deny("an old\nname", warnings=["names change"], audit={"names": "old"})


ignored = validating("pods", name="ignored", on_error="allow")(fails.function)
ALL = (mark, marked, no_latest)


def latest(**metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "a:latest"}]}
    return {**pod(), "metadata": {"name": "web", **metadata}, "spec": spec}


def review(tree: Any, *policies: AnyPolicy, **options: Any) -> ReviewResult | Problem:
    reviewer = Reviewer(Registry(policies), RequestBuilder(**options))
    return asyncio.run(reviewer.review(Manifest("f.yaml", 3, tree)))


def reviewed(tree: Any, *policies: AnyPolicy, **options: Any) -> ReviewResult:
    result = review(tree, *policies, **options)
    assert isinstance(result, ReviewResult)
    return result


def test_allowed_changed_and_denied() -> None:
    assert reviewed(pod(), no_latest).verdict == "allowed"
    assert reviewed(latest(), no_latest).verdict == "denied"
    changed = reviewed(pod(), *ALL)
    assert (changed.verdict, changed.changed_by, changed.warnings) == ("changed", ["mark"], [Message("marked", "seen")])
    assert changed.audit == {"operation": "CREATE"}
    assert changed.final_object["metadata"]["labels"] == {"marked": "yes"}


@pytest.mark.parametrize(
    ("policies", "denials", "warnings"),
    [
        ((mark, no_latest, marked), [("no_latest", "latest: a")], [("marked", "seen")]),
        ((no_latest, fails), [("no_latest", "latest: a"), ("fails", "failed: raised ValueError: oh")], []),
        ((ignored,), [], [("ignored", "failed and was ignored: raised ValueError: oh")]),
        ((refuses, no_latest), [("refuses", "not today")], []),
    ],
)
def test_messages_of_policies(policies: Sequence[AnyPolicy], denials: Any, warnings: Any) -> None:
    result = reviewed(latest(), *policies)
    assert [(denial.policy, denial.text) for denial in result.denials] == denials
    assert [(warning.policy, warning.text) for warning in result.warnings] == warnings
    assert (result.final_object is None) == bool(denials)


def test_an_object_that_cannot_be_decoded_is_denied() -> None:
    result = reviewed(latest(labels={"marked": 1}), marked, no_latest)
    [denial] = result.denials
    assert denial.policy == ""
    assert denial.text.startswith("malformed review: ")


def test_deletion_of_a_stored_object() -> None:
    stored = [Manifest("old.yaml", 1, latest(namespace="default"))]
    assert reviewed(pod(), no_latest, stored=stored, operation="DELETE").verdict == "denied"


def test_a_recorded_review_is_the_request_itself() -> None:
    body = admission_body("CONNECT", {"command": ["sh"]}, subResource="exec", userInfo={"username": "eve"})
    result = reviewed(body, no_latest, operation="CREATE", user="jane")
    assert result.request == body["request"]
    assert (result.kind, result.name) == ("Pod", "team-a/web")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, "missing required field `request`"),
        ({**pod(), "spec": {"a": 2**70}}, "cannot be encoded as JSON"),
        ({**pod(), "spec": {"a": "\ud800"}}, "cannot be encoded as JSON"),
    ],
)
def test_manifests_that_cannot_be_reviewed(tree: Any, message: str) -> None:
    problem = review(tree, no_latest)
    assert isinstance(problem, Problem)
    assert message in str(problem)
    assert str(problem).startswith("f.yaml:3: ")


def test_policies_that_do_not_review_objects() -> None:
    with pytest.raises(ConfigurationError, match="no policy is mutating or validating"):
        Reviewer(Registry([]), RequestBuilder())


PAST, FUTURE = 1577836800.0, 253370764800.0  # 2020-01-01, 9999-01-01
MOVING = Exemption("being moved", names=Globs(["web"]), expires=FUTURE)
EXPIRED = Exemption("was moved", names=Globs(["web"]), expires=PAST)
EXPIRED_WARNING = "an exemption expired 2020-01-01 00:00 UTC (was moved)"


def texts(messages: Sequence[Message]) -> list[str]:
    return list(map(str, messages))


@pytest.mark.parametrize(
    ("policy", "verdict", "warnings", "audited", "exemptions"),
    [
        (replace(no_latest, mode="warn"), "allowed", ["no_latest: latest: a"], [], []),
        (replace(no_latest, mode="audit"), "allowed", [], ["no_latest: latest: a"], []),
        (replace(fails, mode="warn"), "allowed", ["fails: failed: raised ValueError: oh"], [], []),
        (replace(fails, mode="audit"), "allowed", [], ["fails: failed: raised ValueError: oh"], []),
        (
            replace(ignored, mode="warn"),
            "allowed",
            ["ignored: failed and was ignored: raised ValueError: oh"],
            [],
            [],
        ),
        (
            replace(old_names, mode="warn"),
            "allowed",
            ["old_names: names change", "old_names: an old\nname"],
            [],
            [],
        ),
        (replace(old_names, mode="audit"), "allowed", ["old_names: names change"], ["old_names: an old\nname"], []),
        (replace(no_latest, exemptions=(MOVING,)), "allowed", [], [], ["no_latest: being moved"]),
        (replace(old_names, exemptions=(MOVING,)), "allowed", [], [], ["old_names: being moved"]),
        (replace(no_latest, exemptions=(EXPIRED,)), "denied", [f"no_latest: {EXPIRED_WARNING}"], [], []),
        (replace(no_latest, exemptions=(EXPIRED, MOVING)), "allowed", [], [], ["no_latest: being moved"]),
        (
            replace(no_latest, mode="warn", exemptions=(EXPIRED,)),
            "allowed",
            [f"no_latest: {EXPIRED_WARNING}", "no_latest: latest: a"],
            [],
            [],
        ),
        (replace(mark, mode="warn"), "changed", [], [], []),
        (replace(mark, exemptions=(MOVING,)), "allowed", [], [], ["mark: being moved"]),
    ],
)
def test_modes_and_exemptions(
    policy: AnyPolicy, verdict: str, warnings: list[str], audited: list[str], exemptions: list[str]
) -> None:
    result = reviewed(latest(), policy)
    assert result.verdict == verdict
    assert (texts(result.warnings), texts(result.audited), texts(result.exemptions)) == (warnings, audited, exemptions)
    assert (result.final_object is None) == (verdict == "denied")
    assert set(result.audit) == {
        *(f"{message.policy}.denied" for message in result.audited),
        *(f"{message.policy}.exempted" for message in result.exemptions),
        *(["ignored.failed"] if policy.name == "ignored" else []),
        *(["names"] if policy.name == "old_names" and not exemptions else []),
    }


def test_enforced_denials_are_separate_from_warnings() -> None:
    result = reviewed(latest(), replace(no_latest, mode="warn"), fails, no_latest.with_name("hard"))
    assert texts(result.denials) == ["fails: failed: raised ValueError: oh", "hard: latest: a"]
    assert texts(result.warnings) == ["no_latest: latest: a"]


async def respond(endpoint: Any, body: bytes) -> JsonResponse:
    response = endpoint.answer(body, b"")
    return response if isinstance(response, JsonResponse) else await response


def on_a_server(request: dict[str, Any], policies: Sequence[AnyPolicy]) -> tuple[bool, list[str], dict[str, str], Any]:
    """Return whether a server allows a request, its warnings and audit annotations, and the final object."""
    endpoints = create_app(policies).routes.by_path
    warnings: list[str] = []
    audit: dict[str, str] = {}
    for path in ("/admission/mutate", "/admission/validate"):
        body = encode_body(admission_body() | {"request": request})
        response = json.loads(asyncio.run(respond(endpoints[path], body)).body)["response"]
        warnings += response.get("warnings", [])
        audit |= response.get("auditAnnotations", {})
        if not response["allowed"]:
            return False, warnings, audit, None
        if "patch" in response:
            patch = json.loads(base64.b64decode(response["patch"]))
            request = {**request, "object": apply(request["object"], patch)}
    return True, warnings, audit, request.get("object")


def as_server_warning(warning: Message) -> str:
    """Return a warning as a server sends it: without the name of the policy, and without the reason of a failure."""
    failed = f"policy {warning.policy!r} failed"
    return warning.text if warning.text == "seen" else re.sub(r"(?<=: )failed: .*", failed, str(warning))


@pytest.mark.parametrize(
    "policies",
    [
        ALL,
        (
            replace(mark, exemptions=(EXPIRED,)),
            replace(marked, name="early", mode="warn"),
            replace(no_latest, mode="warn", exemptions=(replace(MOVING, names=Globs(["other"])),)),
            replace(no_latest, name="audited", mode="audit"),
            replace(no_latest, name="exempt", exemptions=(MOVING,)),
        ),
    ],
    ids=["of authors", "of operators"],
)
@pytest.mark.parametrize(
    "tree",
    [
        pod(),
        latest(),
        CONFIG_MAP,
        {**pod(), "spec": {"containers": 5}},
        latest(labels={"a": 1}),
        *(body for name, body in recorded_bodies("/mutate").items() if "pods" in name or "deployments" in name),
    ],
)
def test_results_are_the_same_as_on_a_server(tree: Any, policies: Sequence[AnyPolicy]) -> None:
    result = reviewed(tree, *policies)
    allowed, warnings, audit, final_object = on_a_server(dict(result.request), policies)
    assert (result.verdict != "denied") == allowed
    assert list(map(as_server_warning, result.warnings)) == warnings
    assert (dict(result.audit), result.final_object) == (audit, final_object)

"""What is asked about a manifest, and what comes of it: the same as on a server."""

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
from webhooks.offline.requests import Requests
from webhooks.offline.sources import Manifest, Problem
from webhooks.policy.exemptions import Exemption
from webhooks.policy.registry import Registry

from ..support.builders import admission_body, pod, recorded, written

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
    found = [each.name for each in review.containers() if each.image.endswith(":latest")]
    return Deny(f"latest: {', '.join(found)}") if found else Allow()


@validating("pods")
def fails(review: AdmissionReview) -> Decision:
    raise ValueError("oh")


@mutating("pods")
def refuses(review: AdmissionReview) -> Mutation:
    return Deny("not today")


@mutating("pods", operations=["*"])
def old_names(review: AdmissionReview) -> Mutation:
    return Deny("an old\nname", warnings=["names change"], audit={"names": "old"})


passed_over = validating("pods", name="passed_over", on_error="allow")(fails.function)
ALL = (mark, marked, no_latest)


def latest(**metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "a:latest"}]}
    return {**pod(), "metadata": {"name": "web", **metadata}, "spec": spec}


def review(tree: Any, *policies: AnyPolicy, **options: Any) -> ReviewResult | Problem:
    reviewer = Reviewer(Registry(policies), Requests(**options))
    return asyncio.run(reviewer.review(Manifest("f.yaml", 3, tree)))


def reviewed(tree: Any, *policies: AnyPolicy, **options: Any) -> ReviewResult:
    found = review(tree, *policies, **options)
    assert isinstance(found, ReviewResult)
    return found


def test_allowed_changed_and_denied() -> None:
    assert reviewed(pod(), no_latest).verdict == "allowed"
    assert reviewed(latest(), no_latest).verdict == "denied"
    changed = reviewed(pod(), *ALL)
    assert (changed.verdict, changed.changed_by, changed.warnings) == ("changed", ["mark"], [Message("marked", "seen")])
    assert changed.audit == {"operation": "CREATE"}
    assert changed.result["metadata"]["labels"] == {"marked": "yes"}


@pytest.mark.parametrize(
    ("policies", "denials", "warnings"),
    [
        ((mark, no_latest, marked), [("no_latest", "latest: a")], [("marked", "seen")]),
        ((no_latest, fails), [("no_latest", "latest: a"), ("fails", "failed: raised ValueError: oh")], []),
        ((passed_over,), [], [("passed_over", "failed and was passed over: raised ValueError: oh")]),
        ((refuses, no_latest), [("refuses", "not today")], []),
    ],
)
def test_everything_that_was_said(policies: Sequence[AnyPolicy], denials: Any, warnings: Any) -> None:
    found = reviewed(latest(), *policies)
    assert [(each.policy, each.text) for each in found.denials] == denials
    assert [(each.policy, each.text) for each in found.warnings] == warnings
    assert (found.result is None) == bool(denials)


def test_an_object_that_a_policy_does_not_understand_is_denied() -> None:
    found = reviewed(latest(labels={"marked": 1}), marked, no_latest)
    [denial] = found.denials
    assert denial.policy == ""
    assert denial.text.startswith("the review was not understood: ")


@pytest.mark.parametrize(
    ("tree", "options", "asked"),
    [
        (pod(), {}, {"operation": "CREATE", "namespace": "default", "name": "web", "dryRun": True, "oldObject": None}),
        (pod(), {}, {"userInfo": {"username": "reviewer", "groups": ["system:authenticated"]}}),
        (
            pod(),
            {"user": "jane", "groups": ["dev"]},
            {"userInfo": {"username": "jane", "groups": ["dev", "system:authenticated"]}},
        ),
        (
            latest(namespace="team-a"),
            {},
            {"namespace": "team-a", "resource": {"group": "", "version": "v1", "resource": "pods"}},
        ),
        ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}, {}, {"namespace": "x", "name": "x"}),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}, {}, {"namespace": ""}),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment"},
            {},
            {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}, "name": ""},
        ),
        (pod(), {"operation": "DELETE"}, {"operation": "DELETE", "object": None}),
    ],
)
def test_requests(tree: Any, options: Any, asked: Any) -> None:
    request = reviewed(tree, marked, mark, **options).request
    assert {key: request[key] for key in asked} == asked


def test_stored_objects_are_updated() -> None:
    stored = [Manifest("old.yaml", 1, latest(namespace="default"))]
    updated, created = reviewed(pod(), no_latest, stored=stored), reviewed(CONFIG_MAP, no_latest, stored=stored)
    assert (updated.request["operation"], created.request["operation"]) == ("UPDATE", "CREATE")
    assert updated.request["oldObject"]["spec"] == latest()["spec"]
    assert reviewed(pod(), no_latest, stored=stored, operation="DELETE").verdict == "denied"
    assert review(CONFIG_MAP, no_latest, stored=stored, operation="UPDATE") == Problem(
        "f.yaml", 3, "not among the stored objects, so that it cannot be updated"
    )


def test_definitions_are_learnt_from() -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "mice.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"kind": "Mouse", "plural": "mice"}},
    }
    mouse = {"apiVersion": "example.com/v1", "kind": "Mouse", "metadata": {"name": "a"}}
    requests = Requests()
    before, _, after = (requests.body(Manifest("f", 1, each))["request"] for each in (mouse, definition, mouse))
    assert (before["resource"]["resource"], before["namespace"]) == ("mouses", "default")
    assert (after["resource"]["resource"], after["namespace"]) == ("mice", "")


def test_a_recorded_review_is_the_request_itself() -> None:
    body = admission_body("CONNECT", {"command": ["sh"]}, subResource="exec", userInfo={"username": "eve"})
    found = reviewed(body, no_latest, operation="CREATE", user="jane")
    assert found.request == body["request"]
    assert (found.kind, found.name) == ("Pod", "team-a/web")


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, "missing required field `request`"),
        ({**pod(), "spec": {"a": 2**70}}, "cannot be sent as JSON"),
        ({**pod(), "spec": {"a": "\ud800"}}, "cannot be sent as JSON"),
    ],
)
def test_what_cannot_be_asked(tree: Any, says: str) -> None:
    found = review(tree, no_latest)
    assert isinstance(found, Problem)
    assert says in str(found)
    assert str(found).startswith("f.yaml:3: ")


def test_policies_that_are_asked_about_no_object() -> None:
    with pytest.raises(ConfigurationError, match="none of these policies"):
        Reviewer(Registry([]), Requests())


PAST, FUTURE = 1577836800.0, 253370764800.0  # 2020-01-01, 9999-01-01
MOVING = Exemption("being moved", names=Globs(["web"]), expires=FUTURE)
ENDED = Exemption("was moved", names=Globs(["web"]), expires=PAST)
ENDED_WARNING = "an exemption expired 2020-01-01 00:00 UTC (was moved)"


def said(remarks: Sequence[Message]) -> list[str]:
    return list(map(str, remarks))


@pytest.mark.parametrize(
    ("policy", "verdict", "warnings", "audited", "exempted"),
    [
        (replace(no_latest, mode="warn"), "allowed", ["no_latest: latest: a"], [], []),
        (replace(no_latest, mode="audit"), "allowed", [], ["no_latest: latest: a"], []),
        (replace(fails, mode="warn"), "allowed", ["fails: failed: raised ValueError: oh"], [], []),
        (replace(fails, mode="audit"), "allowed", [], ["fails: failed: raised ValueError: oh"], []),
        (
            replace(passed_over, mode="warn"),
            "allowed",
            ["passed_over: failed and was passed over: raised ValueError: oh"],
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
        (replace(no_latest, exemptions=(ENDED,)), "denied", [f"no_latest: {ENDED_WARNING}"], [], []),
        (replace(no_latest, exemptions=(ENDED, MOVING)), "allowed", [], [], ["no_latest: being moved"]),
        (
            replace(no_latest, mode="warn", exemptions=(ENDED,)),
            "allowed",
            [f"no_latest: {ENDED_WARNING}", "no_latest: latest: a"],
            [],
            [],
        ),
        (replace(mark, mode="warn"), "changed", [], [], []),
        (replace(mark, exemptions=(MOVING,)), "allowed", [], [], ["mark: being moved"]),
    ],
)
def test_what_the_operator_makes_of_it(
    policy: AnyPolicy, verdict: str, warnings: list[str], audited: list[str], exempted: list[str]
) -> None:
    found = reviewed(latest(), policy)
    assert found.verdict == verdict
    assert (said(found.warnings), said(found.audited), said(found.exempted)) == (warnings, audited, exempted)
    assert (found.result is None) == (verdict == "denied")
    assert set(found.audit) == {
        *(f"{each.policy}.denied" for each in found.audited),
        *(f"{each.policy}.exempted" for each in found.exempted),
        *(["passed_over.failed"] if policy.name == "passed_over" else []),
        *(["names"] if policy.name == "old_names" and not exempted else []),
    }


def test_a_denial_that_is_enforced_stands_beside_those_that_are_not() -> None:
    found = reviewed(latest(), replace(no_latest, mode="warn"), fails, no_latest.with_name("hard"))
    assert said(found.denials) == ["fails: failed: raised ValueError: oh", "hard: latest: a"]
    assert said(found.warnings) == ["no_latest: latest: a"]


async def answered(endpoint: Any, body: bytes) -> JsonResponse:
    found = endpoint.answer(body, b"")
    return found if isinstance(found, JsonResponse) else await found


def on_a_server(request: dict[str, Any], policies: Sequence[AnyPolicy]) -> tuple[bool, list[str], dict[str, str], Any]:
    """What an API server makes of the answers: allowed, warnings, audit annotations and the object in the end."""
    endpoints = create_app(policies).endpoints
    warnings: list[str] = []
    audit: dict[str, str] = {}
    for path in ("/admission/mutate", "/admission/validate"):
        body = written(admission_body() | {"request": request})
        response = json.loads(asyncio.run(answered(endpoints[path], body)).body)["response"]
        warnings += response.get("warnings", [])
        audit |= response.get("auditAnnotations", {})
        if not response["allowed"]:
            return False, warnings, audit, None
        if "patch" in response:
            patch = json.loads(base64.b64decode(response["patch"]))
            request = {**request, "object": apply(request["object"], patch)}
    return True, warnings, audit, request.get("object")


def as_users_see(remark: Message) -> str:
    """A warning in a server's words, which puts no name before a policy's own, and keeps to itself why one failed."""
    failed = f"policy {remark.policy!r} failed"
    return remark.text if remark.text == "seen" else re.sub(r"(?<=: )failed: .*", failed, str(remark))


@pytest.mark.parametrize(
    "policies",
    [
        ALL,
        (
            replace(mark, exemptions=(ENDED,)),
            replace(marked, name="early", mode="warn"),
            replace(no_latest, mode="warn", exemptions=(replace(MOVING, names=Globs(["other"])),)),
            replace(no_latest, name="audited", mode="audit"),
            replace(no_latest, name="exempt", exemptions=(MOVING,)),
        ),
    ],
    ids=["as they are", "configured"],
)
@pytest.mark.parametrize(
    "tree",
    [
        pod(),
        latest(),
        CONFIG_MAP,
        {**pod(), "spec": {"containers": 5}},
        latest(labels={"a": 1}),
        *(body for name, body in recorded("/mutate").items() if "pods" in name or "deployments" in name),
    ],
)
def test_the_verdict_is_the_servers(tree: Any, policies: Sequence[AnyPolicy]) -> None:
    found = reviewed(tree, *policies)
    allowed, warnings, audit, stored = on_a_server(dict(found.request), policies)
    assert (found.verdict != "denied") == allowed
    assert [as_users_see(each) for each in found.warnings] == warnings
    assert (dict(found.audit), found.result) == (audit, stored)

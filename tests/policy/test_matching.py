"""Which reviews a policy matches."""

from typing import Any

import pytest

from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.kube.globs import Globs
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import parse_rules
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch, parse_operations
from webhooks.reviews.admission import OPERATIONS

from ..support.builders import Json, access_review, admission_review, image_review, pod, token_review


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (["CREATE"], {"CREATE"}),
        (("UPDATE", "DELETE"), {"UPDATE", "DELETE"}),
        (OPERATIONS, set(OPERATIONS)),
        (["*"], set(OPERATIONS)),
        (["CREATE", "*"], set(OPERATIONS)),
    ],
)
def test_operations_are_parsed(names: list[str], read: set[str]) -> None:
    assert parse_operations(names) == read


@pytest.mark.parametrize(
    "names", [[], ["create"], ["CREATE", "PATCH"], ["CREATE,UPDATE"], "CREATE", "*", 5, None, [5]], ids=repr
)
def test_invalid_operations_are_rejected(names: Any) -> None:
    with pytest.raises(ConfigurationError):
        parse_operations(names)


def admission_match(**match: Any) -> AdmissionMatch:
    return AdmissionMatch(parse_rules(["*/*"]), parse_operations(["*"]), **match)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("expected", [*OPERATIONS, "*"])
def test_operations_match(operation: str, expected: str) -> None:
    match = AdmissionMatch(parse_rules(["pods"]), parse_operations([expected]))
    assert match.matches_resource(admission_review(operation)) is (expected in (operation, "*"))


def test_resources_match() -> None:
    match = AdmissionMatch(parse_rules(["pods", "apps/deployments/scale"]), parse_operations(["*"]))
    assert match.matches_resource(admission_review())
    assert match.matches_resource(admission_review(resource="apps/v1/deployments", subResource="scale"))
    assert not match.matches_resource(admission_review(subResource="status"))
    assert not match.matches_resource(admission_review(resource="apps/v1/deployments"))


ADMISSIONS: list[tuple[Json, Json, bool]] = [
    ({}, {}, True),
    ({"namespaces": Globs(["team-*"])}, {}, True),
    ({"namespaces": Globs(["kube-*"])}, {}, False),
    ({"namespaces": Globs(["*"])}, {"namespace": ...}, True),
    ({"namespaces": Globs(["team-*"])}, {"namespace": ...}, False),
    ({"namespaces": Globs([])}, {}, False),
    ({"names": Globs(["w*"])}, {}, True),
    ({"names": Globs(["x*"])}, {}, False),
    ({"names": Globs(["made-*"])}, {"name": "", "obj": {"metadata": {"generateName": "made-"}}}, True),
    ({"names": Globs(["web"])}, {"name": ..., "obj": pod("web")}, True),
    ({"users": Globs(["jane"])}, {}, True),
    ({"users": Globs(["system:*"])}, {}, False),
    ({"users": Globs([""])}, {"userInfo": ...}, True),
    ({"groups": Globs(["dev"])}, {}, True),
    ({"groups": Globs(["system:*"])}, {}, True),
    ({"groups": Globs(["ops"])}, {}, False),
    ({"groups": Globs(["*"])}, {"userInfo": {"username": "jane"}}, False),
    ({"users": Globs(["jane"]), "groups": Globs(["ops"])}, {}, False),
    ({"labels": Selector.parse({"app": "web"})}, {"obj": pod(labels={"app": "web"})}, True),
    ({"labels": Selector.parse({"app": "web"})}, {"obj": pod(labels={"app": "api"})}, False),
    ({"labels": Selector.parse({"app": "web"})}, {"obj": pod()}, False),
]
WEB, API = pod(labels={"app": "web"}), pod(labels={"app": "api"})
ADMISSIONS += [
    ({"labels": Selector.parse({"app": "web"})}, {"operation": operation, "obj": obj, "old": old}, expected)
    for operation, obj, old, expected in [
        ("UPDATE", WEB, API, True),
        ("UPDATE", API, WEB, True),
        ("UPDATE", API, API, False),
        ("DELETE", None, WEB, True),
        ("DELETE", None, API, False),
        ("DELETE", None, None, False),
        ("CONNECT", {"kind": "PodExecOptions"}, None, False),
    ]
]


@pytest.mark.parametrize(("match", "request_", "expected"), ADMISSIONS, ids=lambda value: repr(value)[:70])
def test_all_conditions_must_match(match: Json, request_: Json, expected: bool) -> None:
    assert admission_match(**match).matches(admission_review(**request_)) is expected


@pytest.mark.parametrize("value", [5, None, ["web"], {"a": "b"}], ids=repr)
@pytest.mark.parametrize(
    "selector",
    [{"app": "web"}, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}],
    ids=["In", "NotIn"],
)
def test_labels_that_are_not_strings_are_malformed(value: Any, selector: Json) -> None:
    review = admission_review(obj={"metadata": {"labels": {"app": value}}})
    with pytest.raises(MalformedReview):
        admission_match(labels=Selector.parse(selector)).matches(review)


@pytest.mark.parametrize(
    ("match", "request_"),
    [
        ({"labels": Selector.parse({"app": "web"})}, {"obj": {"metadata": "web"}}),
        ({"labels": Selector.parse({"app": "web"})}, {"obj": {"metadata": {"labels": ["app"]}}}),
        ({"users": Globs(["jane"])}, {"userInfo": "jane"}),
        ({"groups": Globs(["dev"])}, {"userInfo": {"groups": "dev"}}),
        ({"names": Globs(["web"])}, {"name": "", "obj": {"metadata": ["web"]}}),
    ],
)
def test_unreadable_fields_are_malformed(match: Json, request_: Json) -> None:
    with pytest.raises(MalformedReview):
        admission_match(**match).matches(admission_review(**request_))


def test_fields_without_a_condition_are_not_read() -> None:
    review = admission_review(obj={"metadata": "misshapen"}, userInfo="misshapen")
    assert admission_match(namespaces=Globs(["team-a"]), names=Globs(["web"])).matches(review)


ACCESS = {
    "verb": "get",
    "group": "apps",
    "version": "v1",
    "resource": "deployments",
    "name": "web",
    "namespace": "team-a",
}
PATH = {"nonResourceAttributes": {"path": "/metrics/cadvisor", "verb": "get"}}


def access_match(*resources: str, paths: tuple[str, ...] = (), **match: Any) -> AccessMatch:
    return AccessMatch(parse_rules(resources), Globs(paths), **{key: Globs(texts) for key, texts in match.items()})


ACCESSES: list[tuple[AccessMatch, Json, bool]] = [
    (access_match("*/*"), ACCESS, True),
    (access_match("apps/deployments"), ACCESS, True),
    (access_match("apps/v1/deployments"), ACCESS, True),
    (access_match("apps/v2/deployments"), ACCESS, False),
    (access_match("apps/v2/deployments"), {**ACCESS, "version": ""}, True),
    (access_match("core/pods", "deployments"), ACCESS, True),
    (access_match("deployments"), {**ACCESS, "subresource": "scale"}, False),
    (access_match("*/scale"), {**ACCESS, "subresource": "scale"}, True),
    (access_match("*/*", verbs=["get", "list"]), ACCESS, True),
    (access_match("*/*", verbs=["delete*"]), ACCESS, False),
    (access_match("*/*", verbs=["delete*"]), {**ACCESS, "verb": "deletecollection"}, True),
    (access_match("*/*", namespaces=["team-*"]), ACCESS, True),
    (access_match("*/*", namespaces=["kube-*"]), ACCESS, False),
    (access_match("*/*", names=["web"]), ACCESS, True),
    (access_match("*/*", names=["api"]), ACCESS, False),
    (access_match("*/*", names=["web"]), {**ACCESS, "name": ""}, False),
    (access_match("*/*", users=["jane"]), ACCESS, True),
    (access_match("*/*", users=["joe"]), ACCESS, False),
    (access_match("*/*", groups=["d*"]), ACCESS, True),
    (access_match("*/*", groups=["ops"]), ACCESS, False),
    (access_match("*/*"), PATH, False),
    (access_match(paths=("/metrics/*",)), PATH, True),
    (access_match(paths=("/metrics",)), PATH, False),
    (access_match(paths=("*",)), PATH, True),
    (access_match(paths=("*",)), ACCESS, False),
    (access_match("*/*", paths=("/metrics/*",)), ACCESS, True),
    (access_match(paths=("*",), verbs=["post"]), PATH, False),
    (access_match(paths=("*",), users=["joe"]), PATH, False),
]


@pytest.mark.parametrize(("match", "spec", "expected"), ACCESSES, ids=map(str, range(len(ACCESSES))))
def test_access_reviews_match(match: AccessMatch, spec: Json, expected: bool) -> None:
    review = access_review(**spec)
    assert (match.matches_resource(review) and match.matches(review)) is expected


@pytest.mark.parametrize(
    ("namespaces", "expected"), [(None, True), (["team-*"], True), (["kube-*"], False), ([], False)]
)
def test_image_reviews_match_by_namespace(namespaces: list[str] | None, expected: bool) -> None:
    match = ImageMatch(Globs(namespaces))
    assert match.matches_resource(image_review("nginx"))
    assert match.matches(image_review("nginx")) is expected


def test_all_token_reviews_match() -> None:
    assert AnyMatch().matches_resource(token_review())
    assert AnyMatch().matches(token_review())

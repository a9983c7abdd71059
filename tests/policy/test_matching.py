from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.errors import ConfigurationError, MalformedReview
from webhooks.kube.globs import EVERYTHING, Globs
from webhooks.kube.label_selectors import Selector
from webhooks.kube.resource_rules import Rule, rules
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch, parse_operations
from webhooks.reviews.admission import OPERATIONS

from ..support.builders import Json, access_review, admission_review, image_review, pod, token_review

PARSED = {
    "pods": ("*", "*", "pods", ""),
    "pods/exec": ("*", "*", "pods", "exec"),
    "pods/*": ("*", "*", "pods", "*"),
    "*": ("*", "*", "*", ""),
    "*/*": ("*", "*", "*", "*"),
    "*/scale": ("*", "*", "*", "scale"),
    "apps/deployments": ("apps", "*", "deployments", ""),
    "apps/deployments/scale": ("apps", "*", "deployments", "scale"),
    "apps/v1/deployments": ("apps", "v1", "deployments", ""),
    "apps/v1/deployments/scale": ("apps", "v1", "deployments", "scale"),
    "apps/*": ("apps", "*", "*", ""),
    "apps/*/*": ("apps", "*", "*", "*"),
    "apps/v1/*": ("apps", "v1", "*", ""),
    "batch/v1beta1/cronjobs": ("batch", "v1beta1", "cronjobs", ""),
    "autoscaling/v2/horizontalpodautoscalers": ("autoscaling", "v2", "horizontalpodautoscalers", ""),
    "policy/poddisruptionbudgets": ("policy", "*", "poddisruptionbudgets", ""),
    "extensions/ingresses": ("extensions", "*", "ingresses", ""),
    "core/pods": ("", "*", "pods", ""),
    "core/v1/pods": ("", "v1", "pods", ""),
    "core/v1/pods/exec": ("", "v1", "pods", "exec"),
    "core/*": ("", "*", "*", ""),
    "v1/pods": ("*", "v1", "pods", ""),
    "rbac.authorization.k8s.io/roles": ("rbac.authorization.k8s.io", "*", "roles", ""),
    "networking.k8s.io/v1/ingresses/status": ("networking.k8s.io", "v1", "ingresses", "status"),
    "example.org/v1alpha1/*": ("example.org", "v1alpha1", "*", ""),
    "apps": ("*", "*", "apps", ""),
    "v1": ("*", "*", "v1", ""),
}

NO_RULES = [
    "",
    "/",
    "pods/",
    "/pods",
    "pods//exec",
    "Pods",
    "apps/Deployments",
    "a/b/c",
    "apps/v1/a/b/c",
    "po*",
    "pods exec",
]

# Group, version, resource and subresource of a request, and the rules that match it.
REQUESTS: list[tuple[tuple[str, str, str, str], set[str]]] = [
    (("", "v1", "pods", ""), {"pods", "pods/*", "*", "*/*", "core/pods", "core/v1/pods", "core/*", "v1/pods"}),
    (("", "v1", "pods", "status"), {"pods/*", "*/*"}),
    (("", "v1", "pods", "exec"), {"pods/exec", "pods/*", "*/*", "core/v1/pods/exec"}),
    (("", "v2", "pods", ""), {"pods", "pods/*", "*", "*/*", "core/pods", "core/*"}),
    (("", "v1", "services", ""), {"*", "*/*", "core/*"}),
    (("example.org", "v1", "pods", ""), {"pods", "pods/*", "*", "*/*", "v1/pods"}),
    (
        ("apps", "v1", "deployments", ""),
        {"apps/deployments", "apps/v1/deployments", "apps/*", "apps/*/*", "apps/v1/*", "*", "*/*"},
    ),
    (("apps", "v1beta1", "deployments", ""), {"apps/deployments", "apps/*", "apps/*/*", "*", "*/*"}),
    (("extensions", "v1", "deployments", ""), {"*", "*/*"}),
    (
        ("apps", "v1", "deployments", "scale"),
        {"apps/deployments/scale", "apps/v1/deployments/scale", "apps/*/*", "*/scale", "*/*"},
    ),
    (("example.org", "v1", "widgets", "scale"), {"*/scale", "*/*"}),
    (("rbac.authorization.k8s.io", "v1", "roles", ""), {"rbac.authorization.k8s.io/roles", "*", "*/*"}),
    (("rbac.example.org", "v1", "roles", ""), {"*", "*/*"}),
]


@pytest.mark.parametrize(("text", "parts"), PARSED.items())
def test_rules_are_read_as_registrations_write_them(text: str, parts: tuple[str, str, str, str]) -> None:
    assert Rule.parse(text) == Rule(*parts)


@pytest.mark.parametrize("text", NO_RULES)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="names no resource"):
        Rule.parse(text)


@pytest.mark.parametrize(("request_", "matching"), REQUESTS, ids=["/".join(each[0]) for each in REQUESTS])
def test_rules_match_as_the_caller_matches(request_: tuple[str, str, str, str], matching: set[str]) -> None:
    assert {text for text in PARSED if Rule.parse(text).matches(*request_)} == matching


def test_a_request_without_a_version_is_about_every_version() -> None:
    assert Rule.parse("core/v1/pods").matches("", "", "pods", "")
    assert not Rule.parse("core/v1/pods").matches("apps", "", "pods", "")


def test_several_rules_are_read_together() -> None:
    assert rules(["pods", "core/services"]) == (Rule("*", "*", "pods", ""), Rule("", "*", "services", ""))
    assert rules([]) == ()
    with pytest.raises(ConfigurationError, match="'Services' names no resource"):
        rules(["pods", "Services"])


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
def test_operations_are_read(names: list[str], read: set[str]) -> None:
    assert parse_operations(names) == read


@pytest.mark.parametrize(
    "names", [[], ["create"], ["CREATE", "PATCH"], ["CREATE,UPDATE"], "CREATE", "*", 5, None, [5]], ids=repr
)
def test_what_is_no_operation_is_refused(names: Any) -> None:
    with pytest.raises(ConfigurationError):
        parse_operations(names)


@pytest.mark.parametrize(
    ("texts", "fitting", "other"),
    [
        (None, ["", "a", "kube-system"], []),
        ([], [], ["", "a"]),
        (["a"], ["a"], ["", "b", "aa", "A"]),
        (["a", "b"], ["a", "b"], ["ab"]),
        (["kube-*"], ["kube-", "kube-system", "kube-\n"], ["kube", "xkube-", "KUBE-SYSTEM"]),
        (["*-prod"], ["a-prod", "-prod"], ["prod", "a-production"]),
        (["*"], ["", "a", "a/b"], []),
        (["a?c"], ["abc", "a.c"], ["ac", "abbc"]),
        (["[ab]"], ["a", "b"], ["c", "[ab]", "ab"]),
        (["[!a]"], ["b"], ["a", "", "bb"]),
        (["a.b"], ["a.b"], ["acb"]),
        (["a.*"], ["a.", "a.b"], ["ab"]),
        (
            ["system:serviceaccount:kube-system:*"],
            ["system:serviceaccount:kube-system:x"],
            ["system:serviceaccount:kube"],
        ),
        ([""], [""], ["a"]),
    ],
)
def test_globs_match_whole_names(texts: list[str] | None, fitting: list[str], other: list[str]) -> None:
    globs = Globs(texts)
    assert [name for name in fitting + other if globs.match(name)] == fitting
    assert globs.match_any([*other, *fitting]) == (bool(fitting) or texts is None)
    assert globs.match_any(fitting[:1]) == (bool(fitting) or texts is None)


def test_a_user_in_no_group_is_in_none_that_is_asked_for() -> None:
    assert not Globs(["*"]).match_any([])
    assert EVERYTHING.match_any([])


@pytest.mark.parametrize("texts", ["kube-*", "", 5, [5], [None], [["a"]]], ids=repr)
def test_what_are_no_globs_is_refused(texts: Any) -> None:
    with pytest.raises(ConfigurationError):
        Globs(texts)


LABELS = {"app": "web", "tier": "", "env": "prod"}


def expression(key: str, operator: str, *values: str) -> Json:
    found: Json = {"key": key, "operator": operator}
    return {**found, "values": list(values)} if values else found


SELECTORS: list[tuple[Any, bool]] = [
    (None, True),
    ({}, True),
    ({"matchLabels": {}}, True),
    ({"matchExpressions": []}, True),
    ({"app": "web"}, True),
    ({"app": "api"}, False),
    ({"other": "web"}, False),
    ({"tier": ""}, True),
    ({"other": ""}, False),
    ({"app": "web", "env": "prod"}, True),
    ({"app": "web", "env": "test"}, False),
    ({"matchLabels": {"app": "web"}}, True),
    ({"matchLabels": {"app": "web", "env": "test"}}, False),
    ({"matchExpressions": [expression("app", "In", "api", "web")]}, True),
    ({"matchExpressions": [expression("app", "In", "api")]}, False),
    ({"matchExpressions": [expression("other", "In", "", "web")]}, False),
    ({"matchExpressions": [expression("app", "NotIn", "api")]}, True),
    ({"matchExpressions": [expression("app", "NotIn", "api", "web")]}, False),
    ({"matchExpressions": [expression("other", "NotIn", "web", "")]}, True),
    ({"matchExpressions": [expression("tier", "Exists")]}, True),
    ({"matchExpressions": [expression("other", "Exists")]}, False),
    ({"matchExpressions": [expression("tier", "DoesNotExist")]}, False),
    ({"matchExpressions": [expression("other", "DoesNotExist")]}, True),
    ({"matchExpressions": [{"key": "tier", "operator": "Exists", "values": []}]}, True),
    ({"matchExpressions": [expression("app", "Exists"), expression("env", "NotIn", "prod")]}, False),
    ({"matchLabels": {"app": "web"}, "matchExpressions": [expression("env", "In", "prod")]}, True),
    ({"matchLabels": {"app": "api"}, "matchExpressions": [expression("env", "In", "prod")]}, False),
]


@pytest.mark.parametrize(("selector", "matches"), SELECTORS, ids=lambda value: repr(value)[:60])
def test_selectors_mean_what_they_mean_to_the_caller(selector: Any, matches: bool) -> None:
    assert Selector.parse(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    "selector",
    [
        "app",
        ["app"],
        5,
        {"version": 2},
        {"app": None},
        {"app": ["web"]},
        {5: "web"},
        {"matchLabels": "app"},
        {"matchLabels": ["app"]},
        {"matchLabels": {"version": 2}},
        {"matchExpressions": {"key": "app", "operator": "Exists"}},
        {"matchExpressions": "app"},
        {"matchExpressions": 5},
        {"matchExpressions": [5]},
        {"matchExpressions": [{}]},
        {"matchExpressions": [{"key": "app"}]},
        {"matchExpressions": [{"operator": "Exists"}]},
        {"matchExpressions": [expression("app", "Equals", "web")]},
        {"matchExpressions": [expression("app", "in", "web")]},
        {"matchExpressions": [{"key": "app", "operator": ["In"], "values": ["web"]}]},
        {"matchExpressions": [expression("app", "In")]},
        {"matchExpressions": [expression("app", "NotIn")]},
        {"matchExpressions": [expression("app", "Exists", "web")]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": "web"}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": 5}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": [5]}]},
        {"matchExpressions": [{"key": 5, "operator": "Exists"}]},
    ],
    ids=repr,
)
def test_what_is_no_selector_is_refused(selector: Any) -> None:
    with pytest.raises(ConfigurationError):
        Selector.parse(selector)


KEYS = st.sampled_from(["app", "tier", "env", "other"])
VALUES = st.sampled_from(["web", "", "prod"])


@given(st.dictionaries(KEYS, VALUES), KEYS, st.lists(VALUES, min_size=1))
def test_an_expression_and_its_opposite_never_agree(labels: dict[str, str], key: str, values: list[str]) -> None:
    for one, other, arguments in (("In", "NotIn", values), ("Exists", "DoesNotExist", [])):
        first, second = (
            Selector.parse({"matchExpressions": [expression(key, operator, *arguments)]}).matches(labels)
            for operator in (one, other)
        )
        assert first is not second


def admission_match(**match: Any) -> AdmissionMatch:
    return AdmissionMatch(rules(["*/*"]), parse_operations(["*"]), **match)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("wanted", [*OPERATIONS, "*"])
def test_operations_select(operation: str, wanted: str) -> None:
    match = AdmissionMatch(rules(["pods"]), parse_operations([wanted]))
    assert match.matches_resource(admission_review(operation)) is (wanted in (operation, "*"))


def test_the_resource_selects() -> None:
    match = AdmissionMatch(rules(["pods", "apps/deployments/scale"]), parse_operations(["*"]))
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
    ({"labels": Selector.parse({"app": "web"})}, {"operation": operation, "obj": obj, "old": old}, wanted)
    for operation, obj, old, wanted in [
        ("UPDATE", WEB, API, True),
        ("UPDATE", API, WEB, True),
        ("UPDATE", API, API, False),
        ("DELETE", None, WEB, True),
        ("DELETE", None, API, False),
        ("DELETE", None, None, False),
        ("CONNECT", {"kind": "PodExecOptions"}, None, False),
    ]
]


@pytest.mark.parametrize(("match", "request_", "wanted"), ADMISSIONS, ids=lambda value: repr(value)[:70])
def test_all_that_a_match_names_must_fit(match: Json, request_: Json, wanted: bool) -> None:
    assert admission_match(**match).matches(admission_review(**request_)) is wanted


@pytest.mark.parametrize("value", [5, None, ["web"], {"a": "b"}], ids=repr)
@pytest.mark.parametrize(
    "selector", [{"app": "web"}, {"matchExpressions": [expression("app", "NotIn", "web")]}], ids=["In", "NotIn"]
)
def test_labels_that_are_no_texts_are_malformed(value: Any, selector: Json) -> None:
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
def test_what_cannot_be_asked_is_malformed(match: Json, request_: Json) -> None:
    with pytest.raises(MalformedReview):
        admission_match(**match).matches(admission_review(**request_))


def test_nothing_is_asked_that_no_match_names() -> None:
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
    return AccessMatch(rules(resources), Globs(paths), **{key: Globs(texts) for key, texts in match.items()})


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


@pytest.mark.parametrize(("match", "spec", "wanted"), ACCESSES, ids=map(str, range(len(ACCESSES))))
def test_access_reviews_are_selected(match: AccessMatch, spec: Json, wanted: bool) -> None:
    review = access_review(**spec)
    assert (match.matches_resource(review) and match.matches(review)) is wanted


@pytest.mark.parametrize(("namespaces", "wanted"), [(None, True), (["team-*"], True), (["kube-*"], False), ([], False)])
def test_image_reviews_are_selected_by_namespace(namespaces: list[str] | None, wanted: bool) -> None:
    match = ImageMatch(Globs(namespaces))
    assert match.matches_resource(image_review("nginx"))
    assert match.matches(image_review("nginx")) is wanted


def test_all_tokens_are_wanted() -> None:
    assert AnyMatch().matches_resource(token_review())
    assert AnyMatch().matches(token_review())

"""Whatever a policy wants, an API server sends: for any policies, any request, and any version of the cluster."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhooks import AdmissionReview, Allow, mutating, validating
from webhooks.config.models import MatchOverride
from webhooks.config.policies import _admission_match
from webhooks.manifests import conditions, webhook_configurations
from webhooks.manifests.scope import PolicyScope
from webhooks.manifests.target import LATEST_VERSION, SYSTEM_NAMESPACES, Target, Version
from webhooks.policy.model import Policy
from webhooks.reviews import admission_codec

from ..support.builders import admission_body, written
from .selection import Json, invalid, selects

NAMESPACES = ("", "a", "team-a", "team-b", "kube-system", "webhooks", "x.y")
LABELS = ("tier", "example.com/owner")
VALUES = ("", "front", "back")
RESOURCES = ("pods", "nodes", "namespaces", "deployments", "widgets")
SUBRESOURCES = ("", "status", "exec")
GROUPS = ("", "apps", "e.example.com")
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

names = st.sampled_from(["a", "web", "team-a", "team-b", "kube-system", "it's", 'a"b', "x.y", "ä\n", ""])
globs = st.lists(
    st.one_of(
        names.filter(bool), st.sampled_from(["team-*", "*", "*-a", "t?am-*", "?", "[at]*", "k*s*", "x.?", "*'*"])
    ),
    min_size=1,
    max_size=3,
)
requirement = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(LABELS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from((*VALUES, "no label!")), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(LABELS),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
selector = st.builds(lambda found: {"matchExpressions": found}, st.lists(requirement, min_size=1, max_size=2))
rule = st.builds(
    lambda group, resource, sub: f"{group}{resource}{f'/{sub}' if sub else ''}",
    st.sampled_from(["", "core/", "core/v1/", "apps/", "apps/v1/", "e.example.com/", "v1/"]),
    st.sampled_from((*RESOURCES, "*")),
    st.sampled_from((*SUBRESOURCES, "*")),
)
rules = st.one_of(st.just(["*/*"]), st.lists(rule, min_size=1, max_size=2))
operations = st.one_of(st.just(["*"]), st.lists(st.sampled_from(OPERATIONS), min_size=2, max_size=3))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly nothing: a policy that is narrowed in every way wants nothing that anybody asks."""
    return st.integers(0, 3).flatmap(lambda number: st.none() if number else strategy)


narrowing = st.builds(
    lambda **told: MatchOverride.model_validate({key: value for key, value in told.items() if value is not None}),
    resources=maybe(rules.map(tuple)),
    operations=maybe(operations.map(tuple)),
    namespaces=maybe(globs.map(tuple)),
    excludeNamespaces=maybe(globs.map(tuple)),
    names=maybe(globs.map(tuple)),
    objectSelector=maybe(selector),
    users=maybe(globs.map(tuple)),
    groups=maybe(globs.map(tuple)),
)


@st.composite
def policies(draw: st.DrawFn) -> list[Policy]:
    """Some policies of one kind, as authors and operators make them."""
    decorate = draw(st.sampled_from([validating, mutating]))
    found = []
    for number in range(draw(st.integers(1, 3))):
        told = {
            "operations": draw(operations),
            "namespaces": draw(maybe(globs)),
            "names": draw(maybe(globs)),
            "labels": draw(maybe(selector)),
            "users": draw(maybe(globs)),
            "groups": draw(maybe(globs)),
            "on_error": draw(st.sampled_from(["deny", "allow"])),
        }

        @decorate(*draw(rules), name=f"p{number}", **told)
        def policy(review: AdmissionReview) -> Allow:
            return Allow()

        operator_match = draw(maybe(narrowing))
        found.append(
            policy if operator_match is None else replace(policy, operator_match=_admission_match(operator_match))
        )
    return found


@st.composite
def reviews(draw: st.DrawFn) -> Json:
    """A review, as API servers write them."""
    operation, resource = draw(st.sampled_from(OPERATIONS)), draw(st.sampled_from(RESOURCES))
    group = draw(st.sampled_from(GROUPS))
    name, namespace = draw(names), draw(st.sampled_from(NAMESPACES))
    if resource == "namespaces":
        namespace = name if name in NAMESPACES else "a"
        name = namespace
    subresource = draw(st.sampled_from(SUBRESOURCES))

    def thing() -> Json:
        metadata: Json = {"name": name} if name else {"generateName": "web"}
        labels = draw(st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES)))
        if resource == "namespaces":
            labels["kubernetes.io/metadata.name"] = name
        return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata | ({"labels": labels} if labels else {})}

    old = thing() if operation in ("UPDATE", "DELETE") else None
    new = {"kind": "PodExecOptions"} if operation == "CONNECT" else None if operation == "DELETE" else thing()
    if resource == "namespaces" and operation == "CONNECT":
        operation, new = "CREATE", thing()
    return admission_body(
        operation,
        new,
        old=old,
        resource=f"{group}/v1/{resource}" if group else f"v1/{resource}",
        subResource=subresource or ...,
        name=name or ...,
        namespace=namespace or ...,
        userInfo={"username": draw(names), "groups": draw(st.lists(names, max_size=2))},
    )


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    policies(),
    st.lists(reviews(), min_size=4, max_size=12),
    st.booleans(),
    st.sampled_from([Version(1, 20), Version(1, 24), Version(1, 37)]),
)
def test_what_a_policy_wants_is_sent(
    found: list[Policy], bodies: list[Json], per_policy: bool, version: Version
) -> None:
    target = Target(per_policy=per_policy, version=version)
    kind = found[0].kind
    entries = webhook_configurations.build_webhooks(kind, found, target)
    written_entries = [entry.to_dict(target) for entry in entries]
    assert [invalid(each) for each in written_entries] == [[]] * len(written_entries)
    labels = {name: {"kubernetes.io/metadata.name": name} if version > Version(1, 20) else {} for name in NAMESPACES}
    for body, policy in product(bodies, found):
        review = admission_codec.CODEC.decode(written(body))
        if not (policy.matches_resource(review) and policy.matches(review)) or _is_exempt(body, target):
            continue
        asking = [
            each
            for entry, each in zip(entries, written_entries, strict=True)
            if policy in [one.policy for one in entry.scopes]
        ]
        assert any(selects(each, body, labels) for each in asking), (policy, asking)


def _is_exempt(body: Json, target: Target) -> bool:
    """Where nobody is to be asked: some namespaces, and what the cluster's own components write when it starts."""
    request = body["request"]
    return request.get("namespace") in target.all_exempt_namespaces


@pytest.mark.parametrize("namespace", [*SYSTEM_NAMESPACES, "webhooks"])
@pytest.mark.parametrize("version", [Version(1, 24), Version(1, 37)], ids=str)
def test_own_and_system_namespaces_are_left_out(namespace: str, version: Version) -> None:
    @validating("*/*", operations=["*"])
    def everything(review: AdmissionReview) -> Allow:
        return Allow()

    target = Target(version=version)
    [entry] = webhook_configurations.build_webhooks("validating", [everything], target)
    labels = {namespace: {"kubernetes.io/metadata.name": namespace}, "a": {"kubernetes.io/metadata.name": "a"}}
    thing = {"metadata": {"name": "web"}}
    assert not selects(entry.to_dict(target), admission_body("CREATE", thing, namespace=namespace), labels)
    assert selects(entry.to_dict(target), admission_body("CREATE", thing, namespace="a"), labels)


@pytest.mark.parametrize(
    ("user", "groups", "resource", "asked"),
    [
        ("system:node:n1", ["system:nodes", "system:authenticated"], "v1/nodes", False),
        ("system:kube-controller-manager", ["system:authenticated"], "v1/nodes", False),
        (
            "system:serviceaccount:kube-system:node-controller",
            ["system:serviceaccounts:kube-system"],
            "v1/nodes",
            False,
        ),
        (
            "system:bootstrap:abcdef",
            ["system:bootstrappers"],
            "certificates.k8s.io/v1/certificatesigningrequests",
            False,
        ),
        ("jane", ["system:authenticated"], "v1/nodes", True),
        ("system:node:n1", ["system:nodes"], "v1/pods", True),
        (
            "system:serviceaccount:kube-system:replicaset-controller",
            ["system:serviceaccounts:kube-system"],
            "v1/pods",
            True,
        ),
        ("system:node:n1", ["system:nodes"], "metrics.example.com/v1/nodes", True),
    ],
)
def test_a_starting_cluster_is_left_alone(user: str, groups: list[str], resource: str, asked: bool) -> None:
    @validating("nodes", "pods", "certificates.k8s.io/certificatesigningrequests", operations=["*"])
    def everything(review: AdmissionReview) -> Allow:
        return Allow()

    target = Target()
    [entry] = webhook_configurations.build_webhooks("validating", [everything], target)
    namespaced = resource == "v1/pods"
    body = admission_body(
        "UPDATE",
        {"metadata": {"name": "n1"}},
        resource=resource,
        namespace="a" if namespaced else ...,
        userInfo={"username": user, "groups": groups},
    )
    labels = {"a": {"kubernetes.io/metadata.name": "a"}}
    assert selects(entry.to_dict(target), body, labels) is asked


def _sent(policy: Policy, body: Json, version: Version = LATEST_VERSION) -> bool:
    [entry] = webhook_configurations.build_webhooks(policy.kind, [policy], Target(version=version))
    labelled = {"kubernetes.io/metadata.name": "a"} if version > Version(1, 21) else {}
    return selects(entry.to_dict(Target(version=version)), body, {"a": labelled})


def _policy(*rules: str, operator_match: Json | None = None, **told: Any) -> Policy:
    @validating(*(rules or ("*/*",)), **{"operations": ["*"], **told})
    def policy(review: AdmissionReview) -> Allow:
        return Allow()

    return (
        policy
        if operator_match is None
        else replace(policy, operator_match=_admission_match(_narrowed(operator_match)))
    )


def _narrowed(told: Json) -> MatchOverride:
    return MatchOverride.model_validate(
        {key: tuple(each) if isinstance(each, list) else each for key, each in told.items()}
    )


OPERATOR = "system:serviceaccount:kube-system:cilium-operator"
CALICO = "system:serviceaccount:calico-system:calico-node"
APISERVER = "system:apiserver"


@pytest.mark.parametrize(
    ("resource", "namespace", "user", "asked"),
    [
        ("cilium.io/v2/ciliumnodes", ..., OPERATOR, False),
        ("crd.projectcalico.org/v1/ipamblocks", ..., CALICO, False),
        ("networking.k8s.io/v1/ipaddresses", ..., APISERVER, False),
        ("apiregistration.k8s.io/v1/apiservices", ..., APISERVER, False),
        ("rbac.authorization.k8s.io/v1/clusterroles", ..., APISERVER, False),
        ("v1/endpoints", "default", APISERVER, False),
        ("cilium.io/v2/ciliumnodes", ..., "system:serviceaccount:a:operator", True),
        ("rbac.authorization.k8s.io/v1/clusterroles", ..., "jane", True),
        ("v1/pods", "default", OPERATOR, True),
        ("v1/pods", "default", CALICO, True),
        ("v1/pods", "calico-system", "jane", False),
    ],
)
@pytest.mark.parametrize("rule", ["*/*", "*"])
def test_who_asks_about_everything_leaves_a_starting_cluster_alone(
    rule: str, resource: str, namespace: str, user: str, asked: bool
) -> None:
    """Whatever is in no namespace may be what a network needs, and no selector of namespaces leaves that out."""
    target = Target(exempt_namespaces=("calico-system",))
    [entry] = webhook_configurations.build_webhooks("validating", [_policy(rule)], target)
    groups = ["system:authenticated"]
    if user.startswith("system:serviceaccount:"):
        groups.append(f"system:serviceaccounts:{user.split(':')[2]}")
    body = admission_body(
        "CREATE", {}, resource=resource, namespace=namespace, userInfo={"username": user, "groups": groups}
    )
    labels = {name: {"kubernetes.io/metadata.name": name} for name in ("default", "calico-system")}
    assert selects(entry.to_dict(target), body, labels) is asked


def test_the_network_has_a_group_of_its_own() -> None:
    entries = [
        webhook_configurations.build_webhooks("validating", [_policy(rule)], Target())
        for rule in ("cilium.io/*", "apps/*")
    ]
    assert [entry.can_block_startup for [entry] in entries] == [True, False]


@pytest.mark.parametrize(
    "policies",
    [
        [_policy("*", "pods/*")],
        [_policy("pods/*").with_name("one"), _policy("*").with_name("all")],
        [_policy("*/status", "pods/*", "*")],
        [_policy(namespaces=["Bad Name!", "a"])],
        [_policy(namespaces=["Bad Name!"])],
        [_policy(operator_match={"excludeNamespaces": ["Bad Name!", "b"]})],
        [_policy(namespaces=["a"], operator_match={"namespaces": ["b"]})],
        [_policy(namespaces=["kube-system"])],
    ],
)
def test_api_servers_take_what_is_written(policies: list[Policy]) -> None:
    entries = webhook_configurations.build_webhooks("validating", policies, Target())
    assert [invalid(entry.to_dict(Target())) for entry in entries] == [[]]


TIER, OWNER = {"tier": "front"}, {"owner": "me"}
UNLABELLED = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}


@pytest.mark.parametrize(
    ("policy", "request_", "version"),
    [
        (_policy(labels=UNLABELLED), {"operation": "CONNECT", "obj": {"kind": "PodExecOptions"}}, Version(1, 37)),
        (_policy(names=["web-*"]), {"obj": {"metadata": {"generateName": "web-"}}, "name": ...}, Version(1, 37)),
        (_policy(names=["web-*"]), {"obj": {"metadata": {"generateName": "web-"}}, "name": ""}, Version(1, 37)),
        (_policy(namespaces=["a"]), {"obj": {}}, Version(1, 20)),
        (_policy("pods/*"), {"obj": {}}, Version(1, 37)),
        (_policy("pods/*"), {"obj": {}, "subResource": "status"}, Version(1, 37)),
        (_policy(namespaces=["a", "**"]), {"obj": {}, "namespace": ..., "resource": "v1/nodes"}, Version(1, 37)),
        (
            _policy(labels=TIER, operator_match={"objectSelector": {"matchLabels": OWNER}}),
            {"operation": "UPDATE", "obj": {"metadata": {"labels": TIER}}, "old": {"metadata": {"labels": OWNER}}},
            Version(1, 37),
        ),
        (
            _policy(labels={"tier": "no label!"}),
            {"obj": {"metadata": {"labels": {"tier": "no label!"}}}},
            Version(1, 37),
        ),
        (_policy(users=['it\'s \\ "me"']), {"obj": {}, "userInfo": {"username": 'it\'s \\ "me"'}}, Version(1, 37)),
        (_policy(users=["a.?"]), {"obj": {}, "userInfo": {"username": "a.\n"}}, Version(1, 37)),
        (_policy(groups=["d[ae]v"]), {"obj": {}}, Version(1, 37)),
    ],
)
def test_what_is_easily_left_out_is_sent(policy: Policy, request_: Json, version: Version) -> None:
    body = admission_body(**{"operation": "CREATE", "namespace": "a", **request_})
    review = admission_codec.CODEC.decode(written(body))
    assert policy.matches_resource(review)
    assert policy.matches(review)
    assert _sent(policy, body, version)


@pytest.mark.parametrize(
    ("policy", "request_"),
    [
        (_policy("pods", operations=["CREATE"]), {"operation": "UPDATE"}),
        (_policy("pods"), {"resource": "v1/services"}),
        (_policy("pods"), {"subResource": "status"}),
        (_policy("core/pods"), {"resource": "apps/v1/pods"}),
        (_policy(namespaces=["b"]), {}),
        (_policy(namespaces=["b-*"]), {}),
        (_policy(names=["other"]), {}),
        (_policy(users=["bob"]), {}),
        (_policy(groups=["ops", "a*"]), {}),
        (_policy(labels=TIER), {}),
        (_policy(operator_match={"operations": ["DELETE"]}), {}),
        (_policy(operator_match={"resources": ["services"]}), {}),
        (_policy(operator_match={"excludeNamespaces": ["a"]}), {}),
        (_policy(operator_match={"excludeNamespaces": ["a*"]}), {}),
    ],
)
def test_what_no_policy_wants_is_not_sent(policy: Policy, request_: Json) -> None:
    body = admission_body(**{"obj": {"metadata": {"name": "web"}}, "namespace": "a", **request_})
    review = admission_codec.CODEC.decode(written(body))
    assert not (policy.matches_resource(review) and policy.matches(review))
    assert not _sent(policy, body)


@pytest.mark.parametrize(
    ("resource", "user", "sent"),
    [("v1/pods", "jane", True), ("v1/configmaps", "bob", True), ("v1/configmaps", "jane", False)],
)
def test_policies_that_go_by_different_things_share_a_webhook(resource: str, user: str, sent: bool) -> None:
    policies = [_policy("pods").with_name("all"), _policy("configmaps", users=["bob"]).with_name("bobs")]
    [entry] = webhook_configurations.build_webhooks("validating", policies, Target())
    body = admission_body(obj={}, resource=resource, namespace="a", userInfo={"username": user})
    webhook = entry.to_dict(Target())
    assert selects(webhook, body, {"a": {}}) is sent
    assert [each["name"] for each in webhook["matchConditions"]] == ["matches-a-policy"]


def test_conditions_of_one_webhook_have_names_that_differ_only_where_they_must() -> None:
    policy = _policy(namespaces=["team-*"], names=["web-*"], operator_match={"namespaces": ["team-a*"]})
    found = [each.name for each in conditions.admission_conditions([PolicyScope.from_policy(policy)])]
    assert found == ["namespaces", "namespaces-2", "names"]

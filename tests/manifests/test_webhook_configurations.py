"""Webhook configurations: API servers send each request that a policy matches, and few others."""

import base64
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhooks import AdmissionReview, Allow, mutating, validating
from webhooks.engine.dispatcher import budget
from webhooks.manifests.target import LATEST_VERSION, SYSTEM_NAMESPACES, Target, Version
from webhooks.manifests.webhook_configurations import Webhook, build_configuration, build_webhooks, timeout_for
from webhooks.policy.model import Policy
from webhooks.reviews.admission_codec import CODEC

from ..support.builders import admission_body, encode_body
from ..support.manifest_policies import Json, admission_policy, with_operator_match
from ..support.webhook_matching import find_errors, is_called

AnyPolicy = Policy[Any, Any]

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
requirements = st.one_of(
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
selectors = st.builds(
    lambda expressions: {"matchExpressions": expressions}, st.lists(requirements, min_size=1, max_size=2)
)
rule_texts = st.builds(
    lambda group, resource, subresource: f"{group}{resource}{f'/{subresource}' if subresource else ''}",
    st.sampled_from(["", "core/", "core/v1/", "apps/", "apps/v1/", "e.example.com/", "v1/"]),
    st.sampled_from((*RESOURCES, "*")),
    st.sampled_from((*SUBRESOURCES, "*")),
)
rules = st.one_of(st.just(["*/*"]), st.lists(rule_texts, min_size=1, max_size=2))
operations = st.one_of(st.just(["*"]), st.lists(st.sampled_from(OPERATIONS), min_size=2, max_size=3))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly None: a policy with all fields would match hardly any request."""
    return st.integers(0, 3).flatmap(lambda number: st.none() if number else strategy)


operator_matches = st.fixed_dictionaries(
    {
        "resources": maybe(rules),
        "operations": maybe(operations),
        "namespaces": maybe(globs),
        "excludeNamespaces": maybe(globs),
        "names": maybe(globs),
        "objectSelector": maybe(selectors),
        "users": maybe(globs),
        "groups": maybe(globs),
    }
)


@st.composite
def policies_of_one_kind(draw: st.DrawFn) -> list[AnyPolicy]:
    """Return policies as authors and operators define them."""
    decorate = draw(st.sampled_from([validating, mutating]))
    policies = []
    for number in range(draw(st.integers(1, 3))):
        options = {
            "operations": draw(operations),
            "namespaces": draw(maybe(globs)),
            "names": draw(maybe(globs)),
            "labels": draw(maybe(selectors)),
            "users": draw(maybe(globs)),
            "groups": draw(maybe(globs)),
            "on_error": draw(st.sampled_from(["deny", "allow"])),
        }

        @decorate(*draw(rules), name=f"p{number}", **options)
        def policy(review: AdmissionReview) -> Allow:
            return Allow()

        operator_match = draw(maybe(operator_matches))
        policies.append(policy if operator_match is None else with_operator_match(policy, operator_match))
    return policies


@st.composite
def reviews(draw: st.DrawFn) -> Json:
    """Return a review as API servers send it."""
    operation, resource = draw(st.sampled_from(OPERATIONS)), draw(st.sampled_from(RESOURCES))
    group = draw(st.sampled_from(GROUPS))
    name, namespace = draw(names), draw(st.sampled_from(NAMESPACES))
    if resource == "namespaces":
        namespace = name if name in NAMESPACES else "a"
        name = namespace
    subresource = draw(st.sampled_from(SUBRESOURCES))

    def build_object() -> Json:
        metadata: Json = {"name": name} if name else {"generateName": "web"}
        labels = draw(st.dictionaries(st.sampled_from(LABELS), st.sampled_from(VALUES)))
        if resource == "namespaces":
            labels["kubernetes.io/metadata.name"] = name
        return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata | ({"labels": labels} if labels else {})}

    old = build_object() if operation in ("UPDATE", "DELETE") else None
    new = {"kind": "PodExecOptions"} if operation == "CONNECT" else None if operation == "DELETE" else build_object()
    if resource == "namespaces" and operation == "CONNECT":
        operation, new = "CREATE", build_object()
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


def matches(policy: AnyPolicy, body: Json) -> bool:
    review = CODEC.decode(encode_body(body))
    return policy.matches_resource(review) and policy.matches(review)


def build_one(policies: list[AnyPolicy], target: Target) -> Webhook:
    [webhook] = build_webhooks("validating", policies, target)
    return webhook


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    policies_of_one_kind(),
    st.lists(reviews(), min_size=4, max_size=12),
    st.booleans(),
    st.sampled_from([Version(1, 20), Version(1, 24), Version(1, 37)]),
)
def test_each_request_that_a_policy_matches_is_sent(
    policies: list[AnyPolicy], bodies: list[Json], per_policy: bool, version: Version
) -> None:
    target = Target(per_policy=per_policy, version=version)
    kind = "mutating" if policies[0].kind == "mutating" else "validating"
    webhooks = build_webhooks(kind, policies, target)
    contents = [webhook.to_dict(target) for webhook in webhooks]
    assert [find_errors(content) for content in contents] == [[]] * len(contents)
    labels = {name: {"kubernetes.io/metadata.name": name} if version > Version(1, 20) else {} for name in NAMESPACES}
    for body, policy in product(bodies, policies):
        if not matches(policy, body) or body["request"].get("namespace") in target.all_exempt_namespaces:
            continue
        calling = [
            content
            for webhook, content in zip(webhooks, contents, strict=True)
            if policy in [scope.policy for scope in webhook.scopes]
        ]
        assert any(is_called(content, body, labels) for content in calling), (policy, calling)


@pytest.mark.parametrize("namespace", [*SYSTEM_NAMESPACES, "webhooks"])
@pytest.mark.parametrize("version", [Version(1, 24), Version(1, 37)], ids=str)
def test_exempt_namespaces_are_not_sent(namespace: str, version: Version) -> None:
    target = Target(version=version)
    webhook = build_one([admission_policy()], target).to_dict(target)
    labels = {namespace: {"kubernetes.io/metadata.name": namespace}, "a": {"kubernetes.io/metadata.name": "a"}}
    object_ = {"metadata": {"name": "web"}}
    assert not is_called(webhook, admission_body("CREATE", object_, namespace=namespace), labels)
    assert is_called(webhook, admission_body("CREATE", object_, namespace="a"), labels)


@pytest.mark.parametrize(
    ("user", "groups", "resource", "is_sent"),
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
def test_startup_of_the_cluster_is_exempt(user: str, groups: list[str], resource: str, is_sent: bool) -> None:
    policy = admission_policy("nodes", "pods", "certificates.k8s.io/certificatesigningrequests")
    webhook = build_one([policy], Target()).to_dict(Target())
    body = admission_body(
        "UPDATE",
        {"metadata": {"name": "n1"}},
        resource=resource,
        namespace="a" if resource == "v1/pods" else ...,
        userInfo={"username": user, "groups": groups},
    )
    assert is_called(webhook, body, {"a": {"kubernetes.io/metadata.name": "a"}}) is is_sent


OPERATOR = "system:serviceaccount:kube-system:cilium-operator"
CALICO = "system:serviceaccount:calico-system:calico-node"
API_SERVER = "system:apiserver"


@pytest.mark.parametrize(
    ("resource", "namespace", "user", "is_sent"),
    [
        ("cilium.io/v2/ciliumnodes", ..., OPERATOR, False),
        ("crd.projectcalico.org/v1/ipamblocks", ..., CALICO, False),
        ("networking.k8s.io/v1/ipaddresses", ..., API_SERVER, False),
        ("apiregistration.k8s.io/v1/apiservices", ..., API_SERVER, False),
        ("rbac.authorization.k8s.io/v1/clusterroles", ..., API_SERVER, False),
        ("v1/endpoints", "default", API_SERVER, False),
        ("cilium.io/v2/ciliumnodes", ..., "system:serviceaccount:a:operator", True),
        ("rbac.authorization.k8s.io/v1/clusterroles", ..., "jane", True),
        ("v1/pods", "default", OPERATOR, True),
        ("v1/pods", "default", CALICO, True),
        ("v1/pods", "calico-system", "jane", False),
    ],
)
@pytest.mark.parametrize("rule", ["*/*", "*"])
def test_startup_is_exempt_for_policies_that_match_everything(
    rule: str, resource: str, namespace: Any, user: str, is_sent: bool
) -> None:
    """A network plugin may need any cluster-scoped resource, which no namespaceSelector excludes."""
    target = Target(exempt_namespaces=("calico-system",))
    webhook = build_one([admission_policy(rule)], target).to_dict(target)
    groups = ["system:authenticated"]
    if user.startswith("system:serviceaccount:"):
        groups.append(f"system:serviceaccounts:{user.split(':')[2]}")
    body = admission_body(
        "CREATE", {}, resource=resource, namespace=namespace, userInfo={"username": user, "groups": groups}
    )
    labels = {name: {"kubernetes.io/metadata.name": name} for name in ("default", "calico-system")}
    assert is_called(webhook, body, labels) is is_sent


def test_groups_with_cluster_scoped_resources_can_block_startup() -> None:
    webhooks = [build_one([admission_policy(rule)], Target()) for rule in ("cilium.io/*", "apps/*")]
    assert [webhook.can_block_startup for webhook in webhooks] == [True, False]


def test_policies_for_deletion_do_not_block_startup() -> None:
    assert not build_one([admission_policy("nodes", operations=["DELETE"])], Target()).can_block_startup


@pytest.mark.parametrize(
    "policies",
    [
        [admission_policy("*", "pods/*")],
        [admission_policy("pods/*").with_name("one"), admission_policy("*").with_name("all")],
        [admission_policy("*/status", "pods/*", "*")],
        [admission_policy(namespaces=["Bad Name!", "a"])],
        [admission_policy(namespaces=["Bad Name!"])],
        [admission_policy(operator_match={"excludeNamespaces": ["Bad Name!", "b"]})],
        [admission_policy(namespaces=["a"], operator_match={"namespaces": ["b"]})],
        [admission_policy(namespaces=["kube-system"])],
    ],
)
def test_api_servers_accept_the_rules_and_selectors(policies: list[AnyPolicy]) -> None:
    assert find_errors(build_one(policies, Target()).to_dict(Target())) == []


FRONT, OWNED = {"tier": "front"}, {"owner": "me"}
UNLABELLED = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}


def is_sent(policy: AnyPolicy, body: Json, version: Version = LATEST_VERSION) -> bool:
    target = Target(version=version)
    labels = {"kubernetes.io/metadata.name": "a"} if version > Version(1, 21) else {}
    return is_called(build_one([policy], target).to_dict(target), body, {"a": labels})


@pytest.mark.parametrize(
    ("policy", "request_", "version"),
    [
        (
            admission_policy(labels=UNLABELLED),
            {"operation": "CONNECT", "obj": {"kind": "PodExecOptions"}},
            Version(1, 37),
        ),
        (
            admission_policy(names=["web-*"]),
            {"obj": {"metadata": {"generateName": "web-"}}, "name": ...},
            Version(1, 37),
        ),
        (
            admission_policy(names=["web-*"]),
            {"obj": {"metadata": {"generateName": "web-"}}, "name": ""},
            Version(1, 37),
        ),
        (admission_policy(namespaces=["a"]), {"obj": {}}, Version(1, 20)),
        (admission_policy("pods/*"), {"obj": {}}, Version(1, 37)),
        (admission_policy("pods/*"), {"obj": {}, "subResource": "status"}, Version(1, 37)),
        (
            admission_policy(namespaces=["a", "**"]),
            {"obj": {}, "namespace": ..., "resource": "v1/nodes"},
            Version(1, 37),
        ),
        (
            admission_policy(labels=FRONT, operator_match={"objectSelector": {"matchLabels": OWNED}}),
            {"operation": "UPDATE", "obj": {"metadata": {"labels": FRONT}}, "old": {"metadata": {"labels": OWNED}}},
            Version(1, 37),
        ),
        (
            admission_policy(labels={"tier": "no label!"}),
            {"obj": {"metadata": {"labels": {"tier": "no label!"}}}},
            Version(1, 37),
        ),
        (
            admission_policy(users=['it\'s \\ "me"']),
            {"obj": {}, "userInfo": {"username": 'it\'s \\ "me"'}},
            Version(1, 37),
        ),
        (admission_policy(users=["a.?"]), {"obj": {}, "userInfo": {"username": "a.\n"}}, Version(1, 37)),
        (admission_policy(groups=["d[ae]v"]), {"obj": {}}, Version(1, 37)),
    ],
)
def test_corner_cases_that_must_be_sent(policy: AnyPolicy, request_: Json, version: Version) -> None:
    body = admission_body(**{"operation": "CREATE", "namespace": "a", **request_})
    assert matches(policy, body)
    assert is_sent(policy, body, version)


@pytest.mark.parametrize(
    ("policy", "request_"),
    [
        (admission_policy("pods", operations=["CREATE"]), {"operation": "UPDATE"}),
        (admission_policy("pods"), {"resource": "v1/services"}),
        (admission_policy("pods"), {"subResource": "status"}),
        (admission_policy("core/pods"), {"resource": "apps/v1/pods"}),
        (admission_policy(namespaces=["b"]), {}),
        (admission_policy(namespaces=["b-*"]), {}),
        (admission_policy(names=["other"]), {}),
        (admission_policy(users=["bob"]), {}),
        (admission_policy(groups=["ops", "a*"]), {}),
        (admission_policy(labels=FRONT), {}),
        (admission_policy(operator_match={"operations": ["DELETE"]}), {}),
        (admission_policy(operator_match={"resources": ["services"]}), {}),
        (admission_policy(operator_match={"excludeNamespaces": ["a"]}), {}),
        (admission_policy(operator_match={"excludeNamespaces": ["a*"]}), {}),
    ],
)
def test_requests_that_no_policy_matches_are_not_sent(policy: AnyPolicy, request_: Json) -> None:
    body = admission_body(**{"obj": {"metadata": {"name": "web"}}, "namespace": "a", **request_})
    assert not matches(policy, body)
    assert not is_sent(policy, body)


def test_policies_with_different_failure_policies_have_their_own_webhooks() -> None:
    policies = [admission_policy("pods"), admission_policy("services", on_error="allow").with_name("lenient")]
    webhooks = build_webhooks("validating", policies, Target())
    assert [(webhook.name, webhook.path, webhook.failure_policy) for webhook in webhooks] == [
        ("policy.validate.webhooks.svc.io", "/admission/validate/policy", "Fail"),
        ("lenient.validate.webhooks.svc.io", "/admission/validate/lenient", "Ignore"),
    ]


@pytest.mark.parametrize(("version", "count"), [("v2/", 1), ("", 2), ("v1/", 2)])
def test_policies_for_different_versions_have_their_own_webhooks(version: str, count: int) -> None:
    """API servers would not convert a request for one policy if the other one matches the original version."""
    rules = ("autoscaling/v2/horizontalpodautoscalers", f"autoscaling/{version}horizontalpodautoscalers")
    policies = [admission_policy(rule).with_name(f"p{number}") for number, rule in enumerate(rules)]
    assert len(build_webhooks("validating", policies, Target())) == count


def test_timeouts_leave_policies_their_time() -> None:
    assert timeout_for(0, 10) == 10
    assert budget(timeout_for(12, 10)) >= 12 > budget(timeout_for(12, 10) - 1)
    assert timeout_for(1000, 10) == 30
    webhook = build_one([admission_policy(timeout=4), admission_policy(timeout=7).with_name("other")], Target())
    assert (webhook.policy_seconds, webhook.timeout(Target()), webhook.timeout(Target(timeout=20))) == (7, 10, 20)


def test_configurations() -> None:
    target = Target(name="mine", ca_bundle=b"PEM", reached_by="url", url="https://10.0.0.5:8443")
    configuration = build_configuration("validating", [build_one([admission_policy()], target)], target)
    assert (configuration["kind"], configuration["metadata"]["name"]) == ("ValidatingWebhookConfiguration", "mine")
    [webhook] = configuration["webhooks"]
    assert webhook["clientConfig"]["url"] == "https://10.0.0.5:8443/admission/validate"
    assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == b"PEM"
    static = Target(static=True)
    assert build_configuration("mutating", [], static)["metadata"]["name"] == "webhooks.static.k8s.io"


def test_notes_on_exempt_namespaces() -> None:
    webhook = build_one([admission_policy("pods", namespaces=["kube-system", "a"])], Target())
    assert webhook.exemption_notes(Target()) == [
        "Policy 'policy' is not called for namespaces that are exempt: kube-system."
    ]

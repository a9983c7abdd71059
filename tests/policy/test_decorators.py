from collections.abc import Callable, Sequence
from typing import Any

import pytest

import webhooks
from webhooks import (
    WORKLOADS,
    AccessReview,
    Allow,
    Authenticated,
    Decision,
    Identity,
    ImageReview,
    NoOpinion,
    Opinion,
    Policy,
    TokenReview,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING
from webhooks.kube.resource_rules import Rule
from webhooks.policy.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch

from ..policies.pods import RESOURCES as POD_RESOURCES
from ..support.builders import admission_review, pod

Decorator = Callable[..., Any]

# Each decorator with its required arguments.
DECORATORS: dict[str, Decorator] = {
    "mutating": lambda **options: mutating("pods", **options),
    "validating": lambda **options: validating("pods", **options),
    "authorizing": lambda **options: authorizing("pods", **options),
    "authenticating": lambda **options: authenticating(**options),
    "image_policy": lambda **options: image_policy(**options),
}
every_decorator = pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)


def allow(review: Any) -> Allow:
    return Allow()


@pytest.mark.parametrize("kind", DECORATORS)
def test_a_decorator_makes_a_policy_and_registers_nothing(kind: str) -> None:
    policy = DECORATORS[kind]()(allow)
    assert (policy.name, policy.kind, policy.function, policy.parameters) == ("allow", kind, allow, {})
    assert (policy.timeout, policy.on_error, policy.is_async) == (None, None, False)


@every_decorator
def test_a_policy_has_a_name_a_timeout_and_on_error(decorator: Decorator) -> None:
    policy = decorator(name="other-name_1.2", timeout=2.5, on_error="deny")(allow)
    assert (policy.name, policy.timeout, policy.on_error) == ("other-name_1.2", 2.5, "deny")
    assert not policy.isolation


@every_decorator
def test_with_name_keeps_isolation(decorator: Decorator) -> None:
    policy = decorator(isolation=True)(allow)
    assert policy.isolation
    assert policy.with_name("other").isolation


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_an_admission_policy_declares_side_effects(kind: str) -> None:
    decorator = DECORATORS[kind]
    assert decorator()(allow).side_effects == "none"
    assert decorator(side_effects="none_on_dry_run")(allow).with_name("other").side_effects == "none_on_dry_run"
    with pytest.raises(
        ConfigurationError, match="side_effects must be 'none', 'none_on_dry_run' or 'some', not 'None'"
    ):
        decorator(side_effects="None")(allow)


@pytest.mark.parametrize("kind", [kind for kind in DECORATORS if kind != "authenticating"])
def test_on_error_may_be_allow_except_for_authenticators(kind: str) -> None:
    assert DECORATORS[kind](on_error="allow")(allow).on_error == "allow"
    with pytest.raises(ConfigurationError, match="on_error of an authenticating policy must be 'deny'"):
        authenticating(on_error="allow")(allow)  # type: ignore[call-overload]


@every_decorator
@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "two words"},
        {"name": "a/b"},
        {"name": "\u00e9"},
        {"name": "a\n"},
        {"name": 5},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": 30.5},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "3s"},
        {"timeout": True},
        {"on_error": "ignore"},
        {"on_error": True},
        {"on_error": ""},
        {"isolation": 1},
        {"isolation": "yes"},
    ],
    ids=repr,
)
def test_options_are_checked(decorator: Decorator, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        decorator(**options)(allow)


@every_decorator
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a/b"}, "invalid policy name 'a/b'"),
        ({"timeout": 31}, "policy 'allow': timeout must be more than 0 and at most 30 seconds, not 31"),
        ({"timeout": 31, "name": "own"}, "policy 'own': timeout must be more than 0"),
        ({"isolation": 1}, "policy 'allow': isolation must be True or False, not 1"),
    ],
    ids=repr,
)
def test_errors_name_the_policy(decorator: Decorator, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        decorator(**options)(allow)


def without_review() -> Allow:
    return Allow()


def with_positional_parameter(review: Any, labels: Sequence[str]) -> Allow:
    return Allow()


def with_any_parameters(review: Any, **parameters: Any) -> Allow:
    return Allow()


def with_more_arguments(review: Any, *more: Any) -> Allow:
    return Allow()


def with_review_by_keyword(*, review: Any) -> Allow:
    return Allow()


def with_variable_arguments(*arguments: Any) -> Allow:
    return Allow()


def yielding(review: Any) -> Any:
    yield Allow()


async def yielding_later(review: Any) -> Any:
    yield Allow()


class Callable_:  # noqa: N801
    def __call__(self, review: Any) -> Allow:
        return Allow()


@every_decorator
@pytest.mark.parametrize(
    "function",
    [
        without_review,
        with_positional_parameter,
        with_any_parameters,
        with_more_arguments,
        with_review_by_keyword,
        with_variable_arguments,
        yielding,
        yielding_later,
        lambda review: Allow(),
        print,
        Callable_,
        Callable_(),
        validating("pods")(allow),
        5,
    ],
    ids=lambda function: getattr(function, "__name__", type(function).__name__),
)
def test_functions_with_a_wrong_signature_are_rejected(decorator: Decorator, function: Any) -> None:
    with pytest.raises(ConfigurationError):
        decorator()(function)


@pytest.mark.parametrize("decorator", [mutating, validating, authorizing])
@pytest.mark.parametrize(
    "resources",
    [(), (allow,), (["pods", "services"],), (5,), (None,), ("Pods",), ("pods", "a/b/c"), ("",), ("pods", 5)],
    ids=lambda resources: repr(resources) if resources != (allow,) else "a function",
)
def test_resources_are_checked(decorator: Any, resources: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError):
        decorator(*resources)(allow)


@pytest.mark.parametrize("resources", [(["pods"],), (5,), ("Pods",)], ids=repr)
def test_resources_are_checked_if_there_are_paths(resources: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError):
        authorizing(*resources, paths=["/metrics"])(allow)


@pytest.mark.parametrize("decorator", [mutating, validating])
@pytest.mark.parametrize(
    "options",
    [{"operations": wrong} for wrong in ([], ["create"], "CREATE", 5)]
    + [{name: wrong} for name in ("namespaces", "names", "users", "groups") for wrong in ("one", 5, [5])]
    + [{"labels": wrong} for wrong in ("app", ["app"], {"app": 5}, {"matchExpressions": [{"key": "app"}]})],
    ids=repr,
)
def test_conditions_of_admission_policies_are_checked(decorator: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        decorator("pods", **options)(allow)


@pytest.mark.parametrize("name", ["verbs", "paths", "namespaces", "names", "users", "groups"])
@pytest.mark.parametrize("wrong", ["one", 5, [5]], ids=repr)
def test_conditions_of_authorizers_are_checked(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        authorizing("pods", **{name: wrong})(allow)


@pytest.mark.parametrize("wrong", ["one", 5, [5]], ids=repr)
def test_conditions_of_image_policies_are_checked(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        image_policy(namespaces=wrong)(allow)


def test_default_operations_of_admission_policies() -> None:
    match = validating("pods", "apps/deployments")(allow).match
    assert isinstance(match, AdmissionMatch)
    assert match.rules == (Rule("*", "*", "pods", ""), Rule("apps", "*", "deployments", ""))
    assert match.operations == {"CREATE", "UPDATE", "CONNECT"}
    assert (match.namespaces, match.names, match.users, match.groups) == (EVERYTHING,) * 4
    assert match.labels.requirements == ()


@pytest.mark.parametrize("decorator", [mutating, validating])
def test_conditions_of_admission_policies(decorator: Any) -> None:
    policy = decorator(
        "pods",
        operations=["DELETE"],
        namespaces=["team-*"],
        names=("web",),
        labels={"app": "web"},
        users={"jane"},
        groups=iter(["dev"]),
    )(allow)
    review = admission_review("DELETE", old=pod(labels={"app": "web"}))
    for _ in range(2):
        assert policy.match.matches_resource(review)
        assert policy.match.matches(review)
    assert not policy.match.matches(admission_review("DELETE", old=pod(), namespace="team-b"))


def test_workloads_match_every_resource_with_a_pod_template() -> None:
    policy = validating(*WORKLOADS, operations=["CREATE"])(allow)
    resources = (resource for kind, resource in POD_RESOURCES.items() if kind != "Pod")
    assert all(policy.matches_resource(admission_review(resource=resource)) for resource in resources)
    assert not policy.matches_resource(admission_review(resource="v1/pods"))


def test_authorizers_may_match_only_paths() -> None:
    match = authorizing(paths=["/metrics"])(allow).match
    assert isinstance(match, AccessMatch)
    assert match.rules == ()
    assert match.paths.match("/metrics")


@pytest.mark.parametrize("decorator", [authenticating, image_policy])
def test_some_decorators_work_without_parentheses(decorator: Any) -> None:
    bare, called = decorator(allow), decorator()(allow)
    assert isinstance(bare, Policy)
    assert (bare.name, bare.kind, type(bare.match)) == (called.name, called.kind, type(called.match))
    assert type(bare.match) is (AnyMatch if decorator is authenticating else ImageMatch)


# Policies with only the public names of `webhooks`.
@authorizing("pods", verbs=["get"])
def authorizer(access: AccessReview) -> Opinion:
    return NoOpinion()


@authenticating
def authenticator(review: TokenReview) -> Identity:
    return Authenticated("jane")


@image_policy
async def images(review: ImageReview) -> Decision:
    return Allow()


def test_the_package_exports_all_that_policies_need() -> None:
    assert {authorizer.kind, authenticator.kind, images.kind} == {"authorizing", "authenticating", "image_policy"}
    assert all(hasattr(webhooks, name) for name in webhooks.__all__)
    assert set(DECORATORS) <= set(webhooks.__all__)

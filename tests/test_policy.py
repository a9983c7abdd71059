import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest

import webhooks
from webhooks import (
    AccessReview,
    AdmissionReview,
    Allow,
    Authenticated,
    Decision,
    Deny,
    Identity,
    ImageReview,
    Mutation,
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
from webhooks.globs import EVERYTHING
from webhooks.matching import AccessMatch, AdmissionMatch, AnyMatch, ImageMatch
from webhooks.rules import Rule

from .builders import admission_review, pod

Decorator = Callable[..., Any]

# Each decorator as it stands above a function.
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
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    policy = DECORATORS[kind]()(allow)
    assert (policy.name, policy.kind, policy.function, policy.parameters) == ("allow", kind, allow, {})
    assert (policy.timeout, policy.on_error, policy.is_async) == (None, None, False)
    assert policy.origin.path == __file__
    assert policy.origin.line == line
    assert str(policy.origin) == f"{__file__}:{policy.origin.line}"


@every_decorator
def test_a_policy_takes_a_name_a_timeout_and_what_failures_count_as(decorator: Decorator) -> None:
    policy = decorator(name="other-name_1.2", timeout=2.5, on_error="deny")(allow)
    assert (policy.name, policy.timeout, policy.on_error) == ("other-name_1.2", 2.5, "deny")
    assert not policy.isolation


@every_decorator
def test_a_policy_may_be_isolated_and_stays_so(decorator: Decorator) -> None:
    policy = decorator(isolation=True)(allow)
    assert policy.isolation
    assert policy.named("other").isolation


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_a_policy_for_admission_tells_its_side_effects(kind: str) -> None:
    decorator = DECORATORS[kind]
    assert decorator()(allow).side_effects == "none"
    assert decorator(side_effects="none_on_dry_run")(allow).named("other").side_effects == "none_on_dry_run"
    with pytest.raises(ConfigurationError, match="side_effects is 'none', 'none_on_dry_run' or 'some', not 'None'"):
        decorator(side_effects="None")(allow)


@pytest.mark.parametrize("kind", DECORATORS.keys() - {"authenticating"})
def test_failures_may_be_passed_over_but_not_of_authenticators(kind: str) -> None:
    assert DECORATORS[kind](on_error="allow")(allow).on_error == "allow"
    with pytest.raises(ConfigurationError, match="cannot be allowed"):
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


def without_review() -> Allow:
    return Allow()


def with_positional_parameter(review: Any, labels: Sequence[str]) -> Allow:
    return Allow()


def with_any_parameters(review: Any, **parameters: Any) -> Allow:
    return Allow()


def with_more_arguments(review: Any, *more: Any) -> Allow:
    return Allow()


def with_the_review_by_keyword(*, review: Any) -> Allow:
    return Allow()


def with_arguments_alone(*arguments: Any) -> Allow:
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
        with_the_review_by_keyword,
        with_arguments_alone,
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
def test_what_cannot_be_called_with_a_review_alone_is_no_policy(decorator: Decorator, function: Any) -> None:
    with pytest.raises(ConfigurationError):
        decorator()(function)


@pytest.mark.parametrize("decorator", [mutating, validating, authorizing])
@pytest.mark.parametrize(
    "resources",
    [(), (allow,), (["pods", "services"],), (5,), (None,), ("Pods",), ("pods", "a/b/c"), ("",), ("pods", 5)],
    ids=repr,
)
def test_resources_are_checked(decorator: Any, resources: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError):
        decorator(*resources)(allow)


@pytest.mark.parametrize("resources", [(["pods"],), (5,), ("Pods",)], ids=repr)
def test_resources_beside_paths_are_checked_too(resources: tuple[Any, ...]) -> None:
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
def test_what_admission_policies_want_is_checked(decorator: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        decorator("pods", **options)(allow)


@pytest.mark.parametrize("name", ["verbs", "paths", "namespaces", "names", "users", "groups"])
@pytest.mark.parametrize("wrong", ["one", 5, [5]], ids=repr)
def test_what_authorizers_want_is_checked(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        authorizing("pods", **{name: wrong})(allow)


@pytest.mark.parametrize("wrong", ["one", 5, [5]], ids=repr)
def test_what_image_policies_want_is_checked(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        image_policy(namespaces=wrong)(allow)


def test_admission_policies_want_changes_unless_they_say_otherwise() -> None:
    match = validating("pods", "apps/deployments")(allow).match
    assert isinstance(match, AdmissionMatch)
    assert match.rules == (Rule("*", "*", "pods", ""), Rule("apps", "*", "deployments", ""))
    assert match.operations == {"CREATE", "UPDATE", "CONNECT"}
    assert (match.namespaces, match.names, match.users, match.groups) == (EVERYTHING,) * 4
    assert match.labels.requirements == ()


@pytest.mark.parametrize("decorator", [mutating, validating])
def test_admission_policies_want_what_they_name(decorator: Any) -> None:
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
        assert policy.match.wants_kind(review)
        assert policy.match.wants(review)
    assert not policy.match.wants(admission_review("DELETE", old=pod(), namespace="team-b"))


def test_authorizers_may_want_paths_alone() -> None:
    match = authorizing(paths=["/metrics"])(allow).match
    assert isinstance(match, AccessMatch)
    assert match.rules == ()
    assert match.paths.match("/metrics")


@pytest.mark.parametrize("decorator", [authenticating, image_policy])
def test_some_decorators_stand_with_or_without_parentheses(decorator: Any) -> None:
    bare, called = decorator(allow), decorator()(allow)
    assert isinstance(bare, Policy)
    assert (bare.name, bare.kind, type(bare.match)) == (called.name, called.kind, type(called.match))
    assert type(bare.match) is (AnyMatch if decorator is authenticating else ImageMatch)


@validating("pods")
def required(review: AdmissionReview, *, labels: Sequence[str], strict: bool = False) -> Decision:
    """Deny what lacks labels."""
    return Deny(f"{strict} {labels}") if set(labels) - set(review.labels) else Allow()


def test_a_policy_is_still_callable() -> None:
    review = admission_review(obj=pod(labels={"owner": "me"}))
    assert required(review, labels=["owner"]) == Allow()
    assert required(review, labels=["owner", "tier"], strict=True) == Deny("True ['owner', 'tier']")
    assert required.bind(labels=["tier"], strict=True)(review) == Deny("True ['tier']")
    assert required.bind(labels=["tier"])(review, labels=["owner"]) == Allow()
    with pytest.raises(TypeError, match="labels"):
        required(review)


def test_a_coroutine_function_is_a_policy_too() -> None:
    @mutating("pods")
    async def later(review: AdmissionReview, *, answer: str = "") -> Mutation:
        await asyncio.sleep(0)
        return Allow(reason=answer)

    assert later.is_async
    assert later.bind(answer="yes").is_async
    assert asyncio.run(later.bind(answer="yes")(admission_review())) == Allow(reason="yes")


def test_binding_makes_another_policy_and_leaves_the_first_alone() -> None:
    labels = ["owner"]
    bound = required.bind(labels=labels)
    labels.append("tier")
    again = bound.bind(strict=True)
    assert required.parameters == {}
    assert bound.parameters == {"labels": ["owner"]}
    assert again.parameters == {"labels": ["owner"], "strict": True}
    assert (bound.name, bound.kind, bound.match, bound.function) == (
        "required",
        "validating",
        required.match,
        required.function,
    )
    assert bound.call(admission_review(obj=pod())) == Deny("False ['owner']")
    bound.check_parameters()
    with pytest.raises(ConfigurationError, match="needs its parameter 'labels' to be set"):
        required.check_parameters()


def test_naming_makes_another_policy_and_leaves_the_first_alone() -> None:
    named = required.bind(labels=["owner"]).named("owned")
    assert (named.name, required.name) == ("owned", "required")
    assert named.parameters == {"labels": ["owner"]}
    for name in ("", "a b", "a/b", 5):
        with pytest.raises(ConfigurationError, match="is no name for a policy"):
            required.named(name)  # type: ignore[arg-type]


def test_a_policy_knows_where_it_was_bound_or_named() -> None:
    bound = required.bind(labels=["owner"])
    line = inspect.getlineno(inspect.currentframe()) - 1  # type: ignore[arg-type]
    named = bound.named("owned")
    assert (bound.origin.path, bound.origin.line) == (__file__, line)
    assert (named.origin.path, named.origin.line) == (__file__, line + 2)


class Label(TypedDict):
    key: str


@dataclass
class Limit:
    most: int


TYPES: list[tuple[Any, list[Any], list[Any]]] = [
    (str, ["", "a"], [5, None, ["a"], b"a"]),
    (int, [0, -1, 2**70], ["1", 1.5, None, True]),
    (float, [1.5, 1], ["1.5", None]),
    (bool, [True, False], [1, 0, "true", None]),
    (str | None, ["a", None], [5]),
    (Literal["a", "b"], ["a"], ["c", "", None]),
    (Sequence[str], [["a"], ("a",), []], ["a", [5], None, {"a": 1}]),
    (Collection[str], [["a"], ("a",)], ["a", [5]]),
    (list[str], [["a"], ("a", "b")], ["a", [5], ("a", 5)]),
    (tuple[str, ...], [["a"], ("a",)], ["a", [5]]),
    (tuple[str, int], [["a", 1], ("a", 1)], [["a"], ["a", "b"]]),
    (set[str], [["a"], ("a",), {"a"}], ["a", [5]]),
    (frozenset[str], [["a"], frozenset("a")], ["a", [5]]),
    (dict[str, int], [{"a": 1}, {}], [{"a": "1"}, ["a"], None]),
    (Mapping[str, Sequence[str]], [{"a": ["b"]}, {"a": ("b",)}], [{"a": "b"}, [("a", ["b"])]]),
    (Sequence[Label], [[{"key": "a"}], ({"key": "a"},)], [["a"], [{}], [{"key": 5}]]),
    (Limit, [{"most": 1}], [{"most": "1"}, {}, 5]),
    (Any, ["a", 5, None, ["a"]], []),
]


def taking(type_: Any) -> Policy[Any, Any]:
    def policy(review: Any, *, parameter: type_) -> Allow:  # type: ignore[valid-type]
        return Allow()

    return validating("pods")(policy)


@pytest.mark.parametrize(("type_", "right", "wrong"), TYPES, ids=lambda value: str(value)[:30])
def test_parameters_are_checked_by_their_types(type_: Any, right: list[Any], wrong: list[Any]) -> None:
    policy = taking(type_)
    for value in right:
        policy.bind(parameter=value).check_parameters()
    for value in wrong:
        with pytest.raises(ConfigurationError, match="policy 'policy', parameter 'parameter': "):
            policy.bind(parameter=value)


def test_parameters_reach_the_function_as_the_type_it_names() -> None:
    assert taking(tuple[str, ...]).bind(parameter=["a"]).parameters == {"parameter": ("a",)}
    assert taking(list[str]).bind(parameter=("a",)).parameters == {"parameter": ["a"]}
    assert taking(frozenset[str]).bind(parameter=["a"]).parameters == {"parameter": frozenset("a")}
    assert taking(Limit).bind(parameter={"most": 1}).parameters == {"parameter": Limit(1)}


def test_defaults_are_checked_too() -> None:
    @validating("pods")
    def wrong(review: Any, *, most: int = "many") -> Allow:  # type: ignore[assignment]
        return Allow()

    @validating("pods")
    def right(review: Any, *, labels: Sequence[str] = ("owner",), seen: frozenset[str] = frozenset()) -> Allow:
        return Allow()

    with pytest.raises(ConfigurationError, match="parameter 'most'"):
        wrong.check_parameters()
    wrong.bind(most=5).check_parameters()
    right.check_parameters()


def test_a_parameter_without_a_type_takes_anything() -> None:
    def policy(review, *, parameter=()):  # type: ignore[no-untyped-def]
        return Allow()

    for value in (5, "a", None, {"a": 1}):
        assert validating("pods")(policy).bind(parameter=value).parameters == {"parameter": value}


def test_there_are_no_other_parameters() -> None:
    with pytest.raises(ConfigurationError, match="'required' has no parameter 'label'; it has: labels, strict"):
        required.bind(label=["owner"])
    with pytest.raises(ConfigurationError, match="has no parameter 'review'"):
        required.bind(review=None)
    with pytest.raises(ConfigurationError, match="'allow' has no parameter 'a'; it has: none"):
        validating("pods")(allow).bind(a=1)


@pytest.mark.parametrize("annotation", ["Nowhere", "not python", list[int] | tuple[int, ...]], ids=str)
def test_a_type_that_cannot_be_checked_is_a_mistake(annotation: Any) -> None:
    def policy(review: Any, *, parameter: Any = 1) -> Allow:
        return Allow()

    policy.__annotations__["parameter"] = annotation
    with pytest.raises(ConfigurationError, match="parameter 'parameter'"):
        validating("pods")(policy).check_parameters()
    with pytest.raises(ConfigurationError, match="parameter 'parameter'"):
        validating("pods")(policy).bind(parameter=2)


def test_a_policy_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        required.name = "other"  # type: ignore[misc]


def test_a_policy_is_equal_to_itself_alone() -> None:
    assert required != required.bind(labels=["a"])
    assert len({required, required.named("b"), required}) == 2


# Policies as authors write them, of the names that `webhooks` itself offers.
@authorizing("pods", verbs=["get"])
def authorizer(access: AccessReview) -> Opinion:
    return NoOpinion()


@authenticating
def authenticator(review: TokenReview) -> Identity:
    return Authenticated("jane")


@image_policy
async def images(review: ImageReview) -> Decision:
    return Allow()


def test_authors_find_all_they_need_in_one_place() -> None:
    assert {authorizer.kind, authenticator.kind, images.kind} == {"authorizing", "authenticating", "image_policy"}
    assert all(hasattr(webhooks, name) for name in webhooks.__all__)
    assert set(DECORATORS) <= set(webhooks.__all__)

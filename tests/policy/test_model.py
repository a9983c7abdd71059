"""Policies as values, and their origins."""

import asyncio
import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest

from webhooks import (
    AdmissionReview,
    Allow,
    Decision,
    Deny,
    Mutation,
    Policy,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.errors import ConfigurationError
from webhooks.policy.model import Origin

from ..support.builders import admission_review, pod


def allow(review: Any) -> Allow:
    return Allow()


@validating("pods")
def required(review: AdmissionReview, *, labels: Sequence[str], strict: bool = False) -> Decision:
    """Deny what lacks labels."""
    return Deny(f"{strict} {labels}") if set(labels) - set(review.labels) else Allow()


def test_a_policy_is_callable() -> None:
    review = admission_review(obj=pod(labels={"owner": "me"}))
    assert required(review, labels=["owner"]) == Allow()
    assert required(review, labels=["owner", "tier"], strict=True) == Deny("True ['owner', 'tier']")
    assert required.bind(labels=["tier"], strict=True)(review) == Deny("True ['tier']")
    assert required.bind(labels=["tier"])(review, labels=["owner"]) == Allow()
    with pytest.raises(TypeError, match="labels"):
        required(review)


def test_a_coroutine_function_can_be_a_policy() -> None:
    @mutating("pods")
    async def later(review: AdmissionReview, *, answer: str = "") -> Mutation:
        await asyncio.sleep(0)
        return Allow(reason=answer)

    assert later.is_async
    assert later.bind(answer="yes").is_async
    assert asyncio.run(later.bind(answer="yes")(admission_review())) == Allow(reason="yes")


def test_bind_returns_a_copy() -> None:
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
    with pytest.raises(ConfigurationError, match="required parameter 'labels' is not set"):
        required.check_parameters()


def test_with_name_returns_a_copy() -> None:
    renamed = required.bind(labels=["owner"]).with_name("owned")
    assert (renamed.name, required.name) == ("owned", "required")
    assert renamed.parameters == {"labels": ["owner"]}
    for name in ("", "a b", "a/b", 5):
        with pytest.raises(ConfigurationError, match="invalid policy name"):
            required.with_name(name)  # type: ignore[arg-type]


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


def policy_with_parameter(type_: Any) -> Policy[Any, Any]:
    def policy(review: Any, *, parameter: type_) -> Allow:  # type: ignore[valid-type]
        return Allow()

    return validating("pods")(policy)


@pytest.mark.parametrize(("type_", "right", "wrong"), TYPES, ids=lambda value: str(value)[:30])
def test_parameters_are_checked_by_their_types(type_: Any, right: list[Any], wrong: list[Any]) -> None:
    policy = policy_with_parameter(type_)
    for value in right:
        policy.bind(parameter=value).check_parameters()
    for value in wrong:
        with pytest.raises(ConfigurationError, match="policy 'policy', parameter 'parameter': "):
            policy.bind(parameter=value)


def test_parameters_are_converted_to_the_annotated_type() -> None:
    assert policy_with_parameter(tuple[str, ...]).bind(parameter=["a"]).parameters == {"parameter": ("a",)}
    assert policy_with_parameter(list[str]).bind(parameter=("a",)).parameters == {"parameter": ["a"]}
    assert policy_with_parameter(frozenset[str]).bind(parameter=["a"]).parameters == {"parameter": frozenset("a")}
    assert policy_with_parameter(Limit).bind(parameter={"most": 1}).parameters == {"parameter": Limit(1)}


def test_defaults_are_checked() -> None:
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


def test_a_parameter_without_a_type_accepts_anything() -> None:
    def policy(review, *, parameter=()):  # type: ignore[no-untyped-def]
        return Allow()

    for value in (5, "a", None, {"a": 1}):
        assert validating("pods")(policy).bind(parameter=value).parameters == {"parameter": value}


def test_unknown_parameters_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'required' has no parameter 'label'; its parameters: labels, strict"):
        required.bind(label=["owner"])
    with pytest.raises(ConfigurationError, match="has no parameter 'review'"):
        required.bind(review=None)
    with pytest.raises(ConfigurationError, match="'allow' has no parameter 'a'; its parameters: none"):
        validating("pods")(allow).bind(a=1)


@pytest.mark.parametrize("annotation", ["Nowhere", "not python", list[int] | tuple[int, ...]], ids=str)
def test_a_type_that_cannot_be_checked_is_an_error(annotation: Any) -> None:
    def policy(review: Any, *, parameter: Any = 1) -> Allow:
        return Allow()

    policy.__annotations__["parameter"] = annotation
    with pytest.raises(ConfigurationError, match="parameter 'parameter'"):
        validating("pods")(policy).check_parameters()
    with pytest.raises(ConfigurationError, match="parameter 'parameter'"):
        validating("pods")(policy).bind(parameter=2)


def test_a_policy_is_immutable() -> None:
    with pytest.raises(AttributeError):
        required.name = "other"  # type: ignore[misc]


def test_a_policy_is_equal_only_to_itself() -> None:
    assert required != required.bind(labels=["a"])
    assert len({required, required.with_name("b"), required}) == 2


# Each decorator: with its required arguments only, with more arguments, and without parentheses where possible.
@validating("pods")  # validating
def validator(review: Any, *, most: int = 1) -> Allow:
    return Allow()


@validating("pods", operations=["CREATE"], timeout=1, on_error="deny")  # validating with arguments
def validator_with_arguments(review: Any) -> Allow:
    return Allow()


@mutating("pods")  # mutating
def mutator(review: Any) -> Allow:
    return Allow()


@mutating(  # mutating with arguments
    "pods",
    name="changing",
    side_effects="some",
)
def mutator_with_arguments(review: Any) -> Allow:
    return Allow()


@authorizing("pods")  # authorizing
def authorizer(review: Any) -> Allow:
    return Allow()


@authorizing("pods", verbs=["get"], isolation=True)  # authorizing with arguments
def authorizer_with_arguments(review: Any) -> Allow:
    return Allow()


@authenticating  # authenticating
def authenticator(review: Any) -> Any:
    return Allow()


@authenticating()  # authenticating called
def authenticator_called(review: Any) -> Any:
    return Allow()


@authenticating(timeout=1)  # authenticating with arguments
def authenticator_with_arguments(review: Any) -> Any:
    return Allow()


@image_policy  # image_policy
def images(review: Any) -> Allow:
    return Allow()


@image_policy()  # image_policy called
def images_called(review: Any) -> Allow:
    return Allow()


@image_policy(namespaces=["team-*"], name="team_images")  # image_policy with arguments
def images_with_arguments(review: Any) -> Allow:
    return Allow()


bound = validator.bind(most=2)  # bind
renamed = bound.with_name("other")  # with_name

DEFINED: dict[str, Policy[Any, Any]] = {
    "validating": validator,
    "validating with arguments": validator_with_arguments,
    "mutating": mutator,
    "mutating with arguments": mutator_with_arguments,
    "authorizing": authorizer,
    "authorizing with arguments": authorizer_with_arguments,
    "authenticating": authenticator,
    "authenticating called": authenticator_called,
    "authenticating with arguments": authenticator_with_arguments,
    "image_policy": images,
    "image_policy called": images_called,
    "image_policy with arguments": images_with_arguments,
    "bind": bound,
    "with_name": renamed,
}


def line_of(mark: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        (line,) = [number for number, text in enumerate(file, 1) if text.endswith(f"  # {mark}\n")]
    return line


@pytest.mark.parametrize("mark", DEFINED)
def test_an_origin_is_the_line_of_the_definition(mark: str) -> None:
    policy = DEFINED[mark]
    assert policy.origin == Origin(__file__, line_of(mark), __file__, policy.name)
    assert str(policy.origin) == f"{__file__}:{line_of(mark)}"


@pytest.mark.parametrize(
    "decorate",
    [validating("pods"), mutating("pods"), authorizing("pods"), authenticating, authenticating(), image_policy],
    ids=["validating", "mutating", "authorizing", "authenticating", "authenticating called", "image_policy"],
)
def test_the_origin_is_the_line_where_a_stored_decorator_is_called(decorate: Any) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    policy = decorate(allow)
    assert (policy.origin.path, policy.origin.line) == (__file__, line)


def test_the_origin_of_a_copy_is_the_line_of_bind_or_with_name() -> None:
    bound = validator.bind(most=5)
    line = inspect.getlineno(inspect.currentframe()) - 1  # type: ignore[arg-type]
    renamed = bound.with_name("owned")
    assert (bound.origin.path, bound.origin.line) == (__file__, line)
    assert (renamed.origin.path, renamed.origin.line) == (__file__, line + 2)


def test_the_origin_is_outside_of_the_policy_modules() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    origin = Origin.from_stack("one")
    assert (origin.path, origin.line, origin.name) == (__file__, line, "one")

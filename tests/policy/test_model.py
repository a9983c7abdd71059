import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest

from webhooks import AdmissionReview, Allow, Decision, Deny, Mutation, Policy, mutating, validating
from webhooks.errors import ConfigurationError

from ..support.builders import admission_review, pod


def allow(review: Any) -> Allow:
    return Allow()


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
    named = required.bind(labels=["owner"]).with_name("owned")
    assert (named.name, required.name) == ("owned", "required")
    assert named.parameters == {"labels": ["owner"]}
    for name in ("", "a b", "a/b", 5):
        with pytest.raises(ConfigurationError, match="is no name for a policy"):
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
    assert len({required, required.with_name("b"), required}) == 2

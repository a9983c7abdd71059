import inspect
from typing import Any

import pytest

from webhooks import Allow, Policy, authenticating, authorizing, image_policy, mutating, validating
from webhooks.policy.model import Origin

AnyPolicy = Policy[Any, Any]


# Each decorator as it stands above a function: with what it cannot be without, with more, and bare where it may be.
@validating("pods")  # validating
def validator(review: Any, *, most: int = 1) -> Allow:
    return Allow()


@validating("pods", operations=["CREATE"], timeout=1, on_error="deny")  # validating with arguments
def validator_of_more(review: Any) -> Allow:
    return Allow()


@mutating("pods")  # mutating
def mutator(review: Any) -> Allow:
    return Allow()


@mutating(  # mutating with arguments
    "pods",
    name="changing",
    side_effects="some",
)
def mutator_of_more(review: Any) -> Allow:
    return Allow()


@authorizing("pods")  # authorizing
def authorizer(review: Any) -> Allow:
    return Allow()


@authorizing("pods", verbs=["get"], isolation=True)  # authorizing with arguments
def authorizer_of_more(review: Any) -> Allow:
    return Allow()


@authenticating  # authenticating
def authenticator(review: Any) -> Any:
    return Allow()


@authenticating()  # authenticating called
def authenticator_called(review: Any) -> Any:
    return Allow()


@authenticating(timeout=1)  # authenticating with arguments
def authenticator_of_more(review: Any) -> Any:
    return Allow()


@image_policy  # image_policy
def images(review: Any) -> Allow:
    return Allow()


@image_policy()  # image_policy called
def images_called(review: Any) -> Allow:
    return Allow()


@image_policy(namespaces=["team-*"], name="team_images")  # image_policy with arguments
def images_of_more(review: Any) -> Allow:
    return Allow()


bound = validator.bind(most=2)  # bind
named = bound.with_name("other")  # named

WRITTEN: dict[str, AnyPolicy] = {
    "validating": validator,
    "validating with arguments": validator_of_more,
    "mutating": mutator,
    "mutating with arguments": mutator_of_more,
    "authorizing": authorizer,
    "authorizing with arguments": authorizer_of_more,
    "authenticating": authenticator,
    "authenticating called": authenticator_called,
    "authenticating with arguments": authenticator_of_more,
    "image_policy": images,
    "image_policy called": images_called,
    "image_policy with arguments": images_of_more,
    "bind": bound,
    "named": named,
}


def line_of(mark: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        (line,) = [number for number, text in enumerate(file, 1) if text.endswith(f"  # {mark}\n")]
    return line


@pytest.mark.parametrize("mark", WRITTEN)
def test_an_origin_names_the_line_of_the_author(mark: str) -> None:
    policy = WRITTEN[mark]
    assert policy.origin == Origin(__file__, line_of(mark), __file__, policy.name)
    assert str(policy.origin) == f"{__file__}:{line_of(mark)}"


@pytest.mark.parametrize(
    "decorate",
    [validating("pods"), mutating("pods"), authorizing("pods"), authenticating, authenticating(), image_policy],
    ids=["validating", "mutating", "authorizing", "authenticating", "authenticating called", "image_policy"],
)
def test_a_decorator_that_is_kept_makes_policies_where_it_is_called(decorate: Any) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    policy = decorate(plain)
    assert (policy.origin.path, policy.origin.line) == (__file__, line)


def plain(review: Any) -> Allow:
    return Allow()


def test_a_policy_knows_where_it_was_bound_or_named() -> None:
    bound = validator.bind(most=5)
    line = inspect.getlineno(inspect.currentframe()) - 1  # type: ignore[arg-type]
    named = bound.with_name("owned")
    assert (bound.origin.path, bound.origin.line) == (__file__, line)
    assert (named.origin.path, named.origin.line) == (__file__, line + 2)


def test_an_author_is_whoever_asks_from_outside() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    origin = Origin.from_stack("one")
    assert (origin.path, origin.line, origin.name) == (__file__, line, "one")

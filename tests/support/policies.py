"""Policies of every kind, and the values that they may and may not return."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from webhooks import (
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Patch,
    Replace,
    Unauthenticated,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.engine.dispatcher import Verdict
from webhooks.errors import PolicyFailure
from webhooks.objects.json_diff import MAX_OPERATIONS
from webhooks.policy.model import OUTCOMES
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Outcome

from .api_server import accept_admission, accept_authentication, accept_authorization, accept_images
from .builders import (
    AnyPolicy,
    Json,
    access_body,
    access_review,
    admission_body,
    admission_review,
    decide,
    encode_response,
    image_body,
    image_review,
    nested_json,
    pod,
    token_body,
    token_review,
)

Function = Callable[[Any], Any]

DECORATORS: dict[Kind, Callable[..., Any]] = {
    "mutating": lambda **options: mutating("*/*", operations=["*"], **options),
    "validating": lambda **options: validating("*/*", operations=["*"], **options),
    "authorizing": lambda **options: authorizing("*/*", **options),
    "authenticating": lambda **options: authenticating(**options),
    "image_policy": lambda **options: image_policy(**options),
}

BODIES: dict[Kind, Json] = {
    "mutating": admission_body(obj=pod()),
    "validating": admission_body(obj=pod()),
    "authorizing": access_body(verb="get", resource="pods"),
    "authenticating": token_body(),
    "image_policy": image_body("nginx"),
}

REVIEWS: dict[Kind, Any] = {
    "mutating": admission_review(obj=pod()),
    "validating": admission_review(obj=pod()),
    "authorizing": access_review(verb="get", resource="pods"),
    "authenticating": token_review(),
    "image_policy": image_review("nginx"),
}

ACCEPTS: dict[Kind, Callable[[Json, bytes], Json]] = {
    "mutating": lambda sent, response: accept_admission(sent, response, mutating=True),
    "validating": lambda sent, response: accept_admission(sent, response, mutating=False),
    "authorizing": accept_authorization,
    "authenticating": accept_authentication,
    "image_policy": accept_images,
}

every_kind = pytest.mark.parametrize("kind", DECORATORS)


@dataclass(frozen=True)
class Runner:
    """How a policy is run."""

    name: str
    is_async: bool = False
    inline: bool = False

    def make(self, kind: Kind, function: Function, *, name: str = "p", **options: Any) -> AnyPolicy:
        def plain(review: Any) -> Any:
            return function(review)

        async def coroutine(review: Any) -> Any:
            return function(review)

        policy: AnyPolicy = DECORATORS[kind](name=name, **options)(coroutine if self.is_async else plain)
        return policy

    def decide(self, review: Any, *policies: AnyPolicy, timeout: float | None = None) -> Verdict:
        return decide(review, *policies, timeout=timeout, inline=self.inline)


THREAD, INLINE, COROUTINE = (
    Runner("in a thread"),
    Runner("inline", inline=True),
    Runner("as a coroutine", is_async=True),
)

every_runner = pytest.mark.parametrize("runner", [THREAD, INLINE, COROUTINE], ids=lambda runner: runner.name)


def is_equal(outcome: Outcome | None, expected: Outcome) -> bool:
    """Whether both have the same type and are encoded as the same JSON."""
    return type(outcome) is type(expected) and msgspec.json.encode(outcome) == msgspec.json.encode(expected)


def returning(outcome: Any) -> Function:
    return lambda review: outcome


def make(kind: Kind, outcome: Any, *, name: str = "p", **options: Any) -> AnyPolicy:
    return INLINE.make(kind, returning(outcome), name=name, **options)


def mutators(*functions: Function) -> list[AnyPolicy]:
    return [INLINE.make("mutating", function, name=f"p{number}") for number, function in enumerate(functions)]


def on_errors(kind: Kind) -> list[str | None]:
    return [None, "deny"] if kind == "authenticating" else [None, "deny", "allow"]


def assert_failure(kind: Kind, on_error: str | None, verdict: Verdict, code: int = 500) -> None:
    """Assert that a failure has the effect of `on_error`, and that the response does not contain its details."""
    outcome, failed = verdict.outcome, "policy 'p' failed" if code == 500 else "policy 'p' timed out"
    assert verdict.patch is None
    assert verdict.results[0].outcome is None
    assert isinstance(verdict.results[0].failure, PolicyFailure)
    if kind in ("authorizing", "authenticating"):
        if on_error is None:
            assert outcome is None
            return
        message = "policy 'p' failed"
        refusal = Deny(message) if kind == "authorizing" else Unauthenticated(message)
        assert outcome == (NoOpinion(reason=message) if on_error == "allow" else refusal)
    elif on_error == "allow":
        assert isinstance(outcome, Allow)
        assert list(outcome.warnings) == ["policy 'p' failed and was ignored"]
        assert outcome.audit == {"p.failed": "ignored"}
    else:
        assert isinstance(outcome, Deny)
        assert (outcome.message, outcome.code) == (failed, code)
    response = encode_response(kind, REVIEWS[kind], verdict)
    assert b"hush" not in response
    ACCEPTS[kind](BODIES[kind], response)


class Foreign(Allow, frozen=True):
    """A subclass of an outcome."""


EXAMPLES: dict[type[Outcome], Outcome] = {
    Allow: Allow(),
    Deny: Deny("no"),
    Replace: Replace({}),
    Patch: Patch([]),
    NoOpinion: NoOpinion(),
    Authenticated: Authenticated("jane"),
    Unauthenticated: Unauthenticated("bad"),
}

INVALID_VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "a number": 1,
    "a text": "allow",
    "a dict": {"allowed": True},
    "a list": [Allow()],
    "a tuple": (True, "fine"),
    "a class": Allow,
    "a base": Outcome(),
    "a subclass": Foreign(),
    "an exception": ValueError("hush"),
    "Ellipsis": ...,
    "NotImplemented": NotImplemented,
    "an object": object(),
}

LONE_SURROGATE = "\ud800"

INVALID_FIELDS: dict[type[Outcome], list[dict[str, Any]]] = {
    Allow: [{"reason": 5}, {"reason": ["hush"]}, {"reason": LONE_SURROGATE}],
    NoOpinion: [{"reason": 5}, {"reason": LONE_SURROGATE}],
    Deny: [
        {"message": 5},
        {"message": None},
        {"message": ["hush"]},
        {"message": LONE_SURROGATE},
        {"reason": 5},
        {"reason": None},
        {"code": 200},
        {"code": 0},
        {"code": 399},
        {"code": 600},
        {"code": "403"},
        {"code": 403.5},
        {"code": True},
        {"code": None},
        {"details": 5},
        {"details": "hush"},
        {"details": {"hush": object()}},
        {"details": {"hush": LONE_SURROGATE}},
    ],
    Replace: [],
    Patch: [],
    Authenticated: [
        {"username": ""},
        {"username": 5},
        {"username": None},
        {"username": LONE_SURROGATE},
        {"uid": 5},
        {"groups": "dev"},
        {"groups": [5]},
        {"groups": None},
        {"extra": {"a": "b"}},
        {"extra": {"a": [5]}},
        {"extra": [("a", ["b"])]},
        {"audiences": "api"},
        {"audiences": [5]},
    ],
    Unauthenticated: [{"error": 5}, {"error": None}, {"error": LONE_SURROGATE}],
}

INVALID_NOTES: list[dict[str, Any]] = [
    {"warnings": [5]},
    {"warnings": 5},
    {"warnings": "one text"},
    {"warnings": [None]},
    {"warnings": {"hush": "b"}},
    {"warnings": [LONE_SURROGATE]},
    {"audit": {"a": 5}},
    {"audit": {5: "a"}},
    {"audit": ["hush"]},
    {"audit": "hush"},
    {"audit": {"a": LONE_SURROGATE}},
    {"audit": {"a": None}},
]


def invalid_outcomes(kind: Kind) -> list[Outcome]:
    """Return outcomes of other kinds of policies, and outcomes of this kind with fields of wrong types."""
    outcomes = [example for type_, example in EXAMPLES.items() if type_ not in OUTCOMES[kind]]
    for type_ in OUTCOMES[kind]:
        example = EXAMPLES[type_]
        fields = {name: getattr(example, name) for name in example.__struct_fields__}
        outcomes += [type_(**{**fields, **change}) for change in INVALID_FIELDS[type_] + INVALID_NOTES]
    return outcomes


def add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


cyclic: dict[str, Any] = {}

cyclic["self"] = cyclic

INVALID_CHANGES: dict[str, Outcome] = {
    "no operations": Patch(5),  # type: ignore[arg-type]
    "a text": Patch("[]"),  # type: ignore[arg-type]
    "an operation that is a text": Patch(["remove"]),  # type: ignore[list-item]
    "an operation that is empty": Patch([{}]),
    "an unknown operation": Patch([{"op": "merge", "path": "/a", "value": 1}]),
    "no path": Patch([{"op": "remove"}]),
    "a path that is no pointer": Patch([add("a", 1)]),
    "a path with a bad escape": Patch([add("/a~2", 1)]),
    "a path that is a number": Patch([add(5, 1)]),  # type: ignore[arg-type]
    "a path to nowhere": Patch([add("/nowhere/a", 1)]),
    "a path through a text": Patch([add("/kind/a", 1)]),
    "an index beyond the end": Patch([add("/spec/containers/2", {})]),
    "a negative index": Patch([add("/spec/containers/-1", {})]),
    "no value": Patch([{"op": "add", "path": "/a"}]),
    "removing what is not there": Patch([{"op": "remove", "path": "/metadata/labels"}]),
    "replacing what is not there": Patch([{"op": "replace", "path": "/metadata/labels", "value": {}}]),
    "a test that fails": Patch([{"op": "test", "path": "/kind", "value": "Job"}, add("/a", 1)]),
    "moving into itself": Patch([{"op": "move", "from": "/spec", "path": "/spec/a"}]),
    "copying from nowhere": Patch([{"op": "copy", "from": "/nowhere", "path": "/a"}]),
    "removing all": Patch([{"op": "remove", "path": ""}]),
    "a number for an object": Patch([{"op": "replace", "path": "", "value": 5}]),
    "a list for an object": Patch([{"op": "replace", "path": "", "value": []}]),
    "too many operations": Patch([add("/a", 1)] * (MAX_OPERATIONS + 1)),
    "copies of copies": Patch([add("/a", ["x" * 1000]), *[{"op": "copy", "from": "/a", "path": "/a/-"}] * 30]),
    "a value that is not finite": Patch([add("/a", float("nan"))]),
    "a value that is a set": Patch([add("/a", {1})]),
    "a value that is an object": Patch([add("/a", object())]),
    "a value that is bytes": Patch([add("/a", b"x")]),
    "a value that is no text": Patch([add("/a", LONE_SURROGATE)]),
    "a key that is a number": Patch([add("/a", {1: 2})]),
    "a value nested too deep": Patch([add("/a", json.loads(nested_json(201)))]),
    "a value within itself": Patch([add("/a", cyclic)]),
    "None": Replace(None),
    "a text for the object": Replace("pod"),
    "a list of objects": Replace([{}]),
    "an object with a number for a key": Replace({1: 2}),
    "an object with an object": Replace({"a": object()}),
    "an object with a set": Replace({"a": {1}}),
    "an object with a number that is not finite": Replace({"a": float("inf")}),
    "an object with what is no text": Replace({"a": LONE_SURROGATE}),
    "an object with a key that is no text": Replace({LONE_SURROGATE: 1}),
    "an object within itself": Replace(cyclic),
    "an object nested too deep": Replace({"a": json.loads(nested_json(201))}),
    "an object with a huge number": Replace({"a": 2**64}),
}

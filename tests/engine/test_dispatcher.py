import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks import (
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Patch,
    Policy,
    Replace,
    Unauthenticated,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.engine.dispatcher import Verdict, budget
from webhooks.errors import MalformedReview, PolicyFailure, PolicyTimeout
from webhooks.kube.globs import Globs
from webhooks.objects.json_diff import MAX_OPERATIONS
from webhooks.policy.exemptions import Exemption
from webhooks.policy.model import OUTCOMES
from webhooks.reviews import admission_codec
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Outcome

from ..support.builders import (
    AnyPolicy,
    Json,
    access_body,
    access_review,
    admission_body,
    admission_review,
    decide,
    dispatcher_of,
    image_body,
    image_review,
    nested,
    pod,
    promote,
    reply,
    token_body,
    token_review,
    written,
)
from ..support.caller import accept_admission, accept_authentication, accept_authorization, accept_images

Answering = Callable[[Any], Any]
SOON = 0.02  # seconds, of the deadlines that are to be missed

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
    "mutating": lambda sent, answer: accept_admission(sent, answer, mutating=True),
    "validating": lambda sent, answer: accept_admission(sent, answer, mutating=False),
    "authorizing": accept_authorization,
    "authenticating": accept_authentication,
    "image_policy": accept_images,
}
every_kind = pytest.mark.parametrize("kind", DECORATORS)


@dataclass(frozen=True)
class Way:
    """How a policy is run."""

    name: str
    later: bool = False
    in_place: bool = False

    def make(self, kind: Kind, answer: Answering, *, name: str = "p", **options: Any) -> AnyPolicy:
        def now(review: Any) -> Any:
            return answer(review)

        async def later(review: Any) -> Any:
            return answer(review)

        policy: AnyPolicy = DECORATORS[kind](name=name, **options)(later if self.later else now)
        return policy

    def decide(self, review: Any, *policies: AnyPolicy, timeout: float | None = None) -> Verdict:
        return decide(review, *policies, timeout=timeout, in_place=self.in_place)


THREAD, PLACE, LOOP = Way("in a thread"), Way("in place", in_place=True), Way("on the loop", later=True)
every_way = pytest.mark.parametrize("way", [THREAD, PLACE, LOOP], ids=lambda way: way.name)


def alike(outcome: Outcome | None, expected: Outcome) -> bool:
    """Equality, whichever sequences and mappings they hold."""
    return type(outcome) is type(expected) and msgspec.json.encode(outcome) == msgspec.json.encode(expected)


def always(outcome: Any) -> Answering:
    return lambda review: outcome


def make(kind: Kind, outcome: Any, *, name: str = "p", **options: Any) -> AnyPolicy:
    return PLACE.make(kind, always(outcome), name=name, **options)


def mutators(*answers: Answering) -> list[AnyPolicy]:
    return [PLACE.make("mutating", answer, name=f"p{number}") for number, answer in enumerate(answers)]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


# Failures.


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not to be told")


class Unusual(BaseException):
    pass


class Disguised(Exception):
    @property
    def __class__(self) -> Any:
        raise Unusual("hush")


class _Nameless(type):
    @property
    def __name__(cls) -> Any:
        raise Unusual("hush")


class Anonymous(Exception, metaclass=_Nameless):
    pass


def recurse(depth: int = 0) -> Any:
    return recurse(depth + 1) + 1


RAISED: list[type[BaseException]] = [
    Exception,
    ValueError,
    KeyError,
    TypeError,
    AssertionError,
    OSError,
    TimeoutError,
    MemoryError,
    RecursionError,
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    Unusual,
    Unspeakable,
    Disguised,
    Anonymous,
]


def expect_failure(kind: Kind, on_error: str | None, verdict: Verdict, code: int = 500) -> None:
    """That a failure of the policy came to what the operator's wish is, and tells nobody why."""
    outcome, failed = verdict.outcome, "policy 'p' failed" if code == 500 else "policy 'p' did not answer in time"
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
        assert list(outcome.warnings) == ["policy 'p' failed and was passed over"]
        assert outcome.audit == {"p.failed": "passed over"}
    else:
        assert isinstance(outcome, Deny)
        assert (outcome.message, outcome.code) == (failed, code)
    answer = reply(kind, REVIEWS[kind], verdict)
    assert b"hush" not in answer
    ACCEPTS[kind](BODIES[kind], answer)


def on_errors(kind: Kind) -> list[str | None]:
    return [None, "deny"] if kind == "authenticating" else [None, "deny", "allow"]


@every_way
@every_kind
@pytest.mark.parametrize("error", RAISED, ids=[type.__repr__(error) for error in RAISED])
def test_whatever_a_policy_raises_is_its_failure(kind: Kind, way: Way, error: type[BaseException]) -> None:
    def answer(review: Any) -> Any:
        raise error("hush")

    for on_error in on_errors(kind):
        verdict = way.decide(REVIEWS[kind], way.make(kind, answer, on_error=on_error))
        expect_failure(kind, on_error, verdict)
        assert isinstance(verdict.results[0].failure, PolicyFailure)
        assert verdict.results[0].failure.__cause__ is not None


@every_way
@every_kind
def test_endless_recursion_is_a_failure(kind: Kind, way: Way) -> None:
    for on_error in on_errors(kind):
        expect_failure(
            kind, on_error, way.decide(REVIEWS[kind], way.make(kind, lambda _: recurse(), on_error=on_error))
        )


class Foreign(Allow, frozen=True):
    """An outcome of somebody else's."""


OUTCOME_EXAMPLES: dict[type[Outcome], Outcome] = {
    Allow: Allow(),
    Deny: Deny("no"),
    Replace: Replace({}),
    Patch: Patch([]),
    NoOpinion: NoOpinion(),
    Authenticated: Authenticated("jane"),
    Unauthenticated: Unauthenticated("bad"),
}
RUBBISH: dict[str, Any] = {
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
LONE = "\ud800"
MISSHAPEN: dict[type[Outcome], list[dict[str, Any]]] = {
    Allow: [{"reason": 5}, {"reason": ["hush"]}, {"reason": LONE}],
    NoOpinion: [{"reason": 5}, {"reason": LONE}],
    Deny: [
        {"message": 5},
        {"message": None},
        {"message": ["hush"]},
        {"message": LONE},
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
        {"details": {"hush": LONE}},
    ],
    Replace: [],
    Patch: [],
    Authenticated: [
        {"username": ""},
        {"username": 5},
        {"username": None},
        {"username": LONE},
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
    Unauthenticated: [{"error": 5}, {"error": None}, {"error": LONE}],
}
NOTES: list[dict[str, Any]] = [
    {"warnings": [5]},
    {"warnings": 5},
    {"warnings": "one text"},
    {"warnings": [None]},
    {"warnings": {"hush": "b"}},
    {"warnings": [LONE]},
    {"audit": {"a": 5}},
    {"audit": {5: "a"}},
    {"audit": ["hush"]},
    {"audit": "hush"},
    {"audit": {"a": LONE}},
    {"audit": {"a": None}},
]


def misshapen(kind: Kind) -> list[Outcome]:
    """Outcomes of another kind of policy, and those of this kind that are not as their types say."""
    found = [example for type_, example in OUTCOME_EXAMPLES.items() if type_ not in OUTCOMES[kind]]
    for type_ in OUTCOMES[kind]:
        example = OUTCOME_EXAMPLES[type_]
        fields = {name: getattr(example, name) for name in example.__struct_fields__}
        found += [type_(**{**fields, **change}) for change in MISSHAPEN[type_] + NOTES]
    return found


@every_way
@every_kind
def test_rubbish_is_a_failure(kind: Kind, way: Way) -> None:
    for rubbish in [*RUBBISH.values(), *misshapen(kind)]:
        for on_error in on_errors(kind):
            verdict = way.decide(REVIEWS[kind], way.make(kind, always(rubbish), on_error=on_error))
            try:
                expect_failure(kind, on_error, verdict)
            except AssertionError as error:
                pytest.fail(f"{rubbish!a} with on_error={on_error}: {error}")


@every_kind
def test_a_coroutine_is_rubbish_to_a_plain_function(kind: Kind) -> None:
    async def later() -> Outcome:
        return OUTCOME_EXAMPLES[OUTCOMES[kind][0]]

    for way in (THREAD, PLACE):
        for on_error in on_errors(kind):
            policy = way.make(kind, lambda _: later(), on_error=on_error)
            expect_failure(kind, on_error, way.decide(REVIEWS[kind], policy))


@every_way
@every_kind
def test_every_outcome_of_its_kind_is_taken(kind: Kind, way: Way) -> None:
    for type_ in OUTCOMES[kind]:
        verdict = way.decide(REVIEWS[kind], way.make(kind, always(OUTCOME_EXAMPLES[type_])))
        assert verdict.results[0].failure is None
        assert type(verdict.outcome) is (Allow if type_ in (Patch, Replace) else type_)
        ACCEPTS[kind](BODIES[kind], reply(kind, REVIEWS[kind], verdict))


# Deadlines.


@pytest.mark.parametrize(
    ("timeout", "left"), [(None, 10), (30, 29.5), (10, 9.5), (5, 4.5), (2, 1.8), (1, 0.9), (0.1, 0.09)]
)
def test_a_part_of_the_caller_s_time_is_kept_for_the_way_back(timeout: float | None, left: float) -> None:
    assert budget(timeout) == pytest.approx(left)


@every_kind
@pytest.mark.parametrize("way", [THREAD, LOOP], ids=lambda way: way.name)
@pytest.mark.parametrize("own", [False, True], ids=["the caller's time", "its own time"])
def test_a_policy_that_overruns_has_failed(kind: Kind, way: Way, own: bool, gate: threading.Event) -> None:
    for on_error in on_errors(kind):
        policy = overrunning(kind, way, gate, on_error=on_error, timeout=SOON if own else None)
        verdict = way.decide(REVIEWS[kind], policy, timeout=None if own else SOON)
        expect_failure(kind, on_error, verdict, code=504)
        assert isinstance(verdict.results[0].failure, PolicyTimeout)
        gate.set()
        gate.clear()


def overrunning(kind: Kind, way: Way, gate: threading.Event, **options: Any) -> AnyPolicy:
    def now(review: Any) -> Any:
        gate.wait()
        return OUTCOME_EXAMPLES[OUTCOMES[kind][0]]

    async def later(review: Any) -> Any:
        await asyncio.Event().wait()

    policy: AnyPolicy = DECORATORS[kind](name="p", **options)(later if way.later else now)
    return policy


@pytest.mark.parametrize("way", [THREAD, LOOP], ids=lambda way: way.name)
def test_policies_that_run_one_after_another_share_the_time(way: Way, gate: threading.Event) -> None:
    policies = [overrunning("mutating", way, gate, on_error="allow").with_name(name) for name in "abc"]
    verdict = way.decide(REVIEWS["mutating"], *policies, timeout=SOON)
    gate.set()
    assert isinstance(verdict.outcome, Allow)
    assert len(verdict.outcome.warnings) == 3
    assert [type(result.failure) for result in verdict.results] == [PolicyTimeout] * 3
    assert sum(result.seconds for result in verdict.results) < 20 * SOON


@pytest.mark.parametrize("kind", ["validating", "authorizing", "authenticating", "image_policy"])
def test_policies_that_need_not_wait_for_each_other_run_together(kind: Kind) -> None:
    outcome = OUTCOME_EXAMPLES[OUTCOMES[kind][0]]
    in_threads, on_the_loop = threading.Barrier(3), asyncio.Barrier(2)

    def blocking(review: Any) -> Any:
        in_threads.wait(5)
        return outcome

    async def waiting(review: Any) -> Any:
        await on_the_loop.wait()
        return outcome

    threads = [DECORATORS[kind](name=f"thread-{number}")(blocking) for number in range(3)]
    loops = [DECORATORS[kind](name=f"loop-{number}")(waiting) for number in range(2)]
    verdict = decide(REVIEWS[kind], *threads, *loops)
    assert [result.failure for result in verdict.results] == [None] * 5


# What is malformed.

UNREADABLE: dict[str, tuple[str, Answering]] = {
    "object": ('{"a":1,"a":2,"b":"%s"}' % ("x" * 100), lambda review: review.object),
    "oldObject": (f'{{"a":{2**63},"b":"{"x" * 100}"}}', lambda review: review.old_object),
    "userInfo": ('{"username":5}', lambda review: review.user),
    "options": (f'{{"a":{nested(250)}}}', lambda review: review.options),
    "metadata": ('{"metadata":5}', lambda review: review.labels),
}


@every_way
@pytest.mark.parametrize("kind", ["mutating", "validating"])
@pytest.mark.parametrize("part", UNREADABLE)
def test_what_is_malformed_is_never_allowed(kind: Kind, way: Way, part: str) -> None:
    text, read = UNREADABLE[part]
    where = "object" if part == "metadata" else part
    body = written(admission_body("UPDATE", **{where: "PART"})).replace(b'"PART"', text.encode())

    def answer(review: Any) -> Any:
        read(review)
        return Allow()

    for on_error in on_errors(kind):
        policies = [
            way.make(kind, always(Allow()), name="first"),
            way.make(kind, answer, on_error=on_error),
            way.make(kind, always(Deny("no")), name="last"),
        ]
        with pytest.raises(MalformedReview):
            way.decide(admission_codec.CODEC.decode(body), *policies)
    assert isinstance(way.decide(admission_codec.CODEC.decode(body), way.make(kind, always(Allow()))).outcome, Allow)


# Mutators.


def changed(*answers: Answering, obj: Any = None) -> Json:
    """The object as the caller would store it after these policies."""
    body = admission_body(obj=pod() if obj is None else obj)
    review = admission_codec.CODEC.decode(written(body))
    verdict = decide(review, *mutators(*answers), in_place=True)
    response = accept_admission(body, reply("mutating", review, verdict), mutating=True)
    assert response["allowed"]
    return response


def labelling(key: str, value: str = "") -> Answering:
    """Sets a label: to the value, or to the labels it sees."""

    def answer(review: Any) -> Replace:
        obj = review.object
        labels = obj["metadata"].setdefault("labels", {})
        labels[key] = value or ",".join(labels)
        return Replace(obj)

    return answer


def patching(*operations: Json) -> Answering:
    return lambda review: Patch(operations)


def add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


@every_way
def test_each_mutator_sees_what_the_one_before_left(way: Way) -> None:
    seen: list[Any] = []

    def see(review: Any) -> Allow:
        seen.append((review.labels, review.name, [container.name for container in review.containers()]))
        return Allow()

    def contain(review: Any) -> Patch:
        return Patch([add("/spec/containers/-", {"name": "side", "image": "x"})])

    answers = [labelling("a", "1"), see, labelling("b"), contain, see]
    policies = [way.make("mutating", answer, name=f"p{number}") for number, answer in enumerate(answers)]
    body = admission_body(obj=pod())
    verdict = way.decide(admission_codec.CODEC.decode(written(body)), *policies)
    assert seen == [({"a": "1"}, "web", ["app"]), ({"a": "1", "b": "a"}, "web", ["app", "side"])]
    response = accept_admission(body, reply("mutating", REVIEWS["mutating"], verdict), mutating=True)
    assert response["object"]["metadata"]["labels"] == {"a": "1", "b": "a"}
    assert [each["name"] for each in response["object"]["spec"]["containers"]] == ["app", "side"]
    assert [result.policy.name for result in verdict.results] == ["p0", "p1", "p2", "p3", "p4"]


@every_way
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_what_a_policy_does_to_its_copy_stays_with_it(kind: Kind, way: Way) -> None:
    before = pod(labels={"a": "b"})
    seen: list[Any] = []

    def vandalize(review: Any) -> Any:
        for obj in (review.object, review.old_object):
            obj["metadata"]["labels"]["a"] = "spoilt"
            obj["spec"]["containers"].append({"name": "spoilt"})
            obj["spec"]["containers"][0].clear()
            del obj["kind"]
        review.user.extra["spoilt"] = ("yes",)
        return Allow()

    def fail(review: Any) -> Any:
        vandalize(review)
        raise ValueError

    def see(review: Any) -> Any:
        seen.append((review.object, review.old_object, review.user.extra))
        return Allow()

    policies = [
        way.make(kind, answer, name=f"p{number}", on_error="allow")
        for number, answer in enumerate([vandalize, see, fail, see])
    ]
    review = admission_review("UPDATE", before, old=before)
    verdict = way.decide(review, *policies)
    assert [(new, old) for new, old, _ in seen] == [(before, before)] * 2
    assert [extra for _, _, extra in seen] == [{}, {}]
    assert verdict.patch is None
    assert isinstance(verdict.outcome, Allow)


def test_there_is_one_diff_at_the_end() -> None:
    response = changed(labelling("a", "1"), labelling("a", "2"), labelling("b", "3"))
    assert response["operations"] == [add("/metadata/labels", {"a": "2", "b": "3"})]


def test_a_change_that_another_takes_back_is_none() -> None:
    def unlabel(review: Any) -> Replace:
        obj = review.object
        del obj["metadata"]["labels"]
        return Replace(obj)

    assert "patch" not in changed(labelling("a", "1"), unlabel)
    assert "patch" not in changed(labelling("a", "1"), patching({"op": "remove", "path": "/metadata/labels"}))


@pytest.mark.parametrize(
    "answer",
    [
        lambda review: Allow(),
        lambda review: Replace(review.object),
        lambda review: Replace(pod()),
        lambda review: Replace(json.loads(json.dumps(pod()))),
        lambda review: Patch([]),
        lambda review: Patch(()),
        lambda review: Patch([{"op": "test", "path": "/kind", "value": "Pod"}]),
        lambda review: Patch([{"op": "replace", "path": "/kind", "value": "Pod"}]),
        lambda review: Patch([add("/x", 1), {"op": "remove", "path": "/x"}]),
        lambda review: Patch([{"op": "replace", "path": "", "value": pod()}]),
    ],
)
def test_what_changes_nothing_sends_nothing(answer: Answering) -> None:
    assert "patch" not in changed(answer)
    assert "patch" not in changed(answer, answer)
    assert "patch" not in changed(labelling("a", "1"), labelling("a", "2"), answer, lambda review: Replace(pod()))


MIXED: dict[str, tuple[list[Answering], Json]] = {
    "a patch, then an object": ([patching(add("/a", 1)), labelling("b", "2")], {"a": 1, "labels": {"b": "2"}}),
    "an object, then a patch": ([labelling("b", "2"), patching(add("/a", 1))], {"a": 1, "labels": {"b": "2"}}),
    "patches": ([patching(add("/a", {})), patching(add("/a/b", 1))], {"a": {"b": 1}}),
    "patches into one value": (
        [patching(add("/a", {"b": []})), patching(add("/a/b/-", 1), add("/a/b/-", 2))],
        {"a": {"b": [1, 2]}},
    ),
    "a copy": (
        [patching(add("/a", {"b": 1}), {"op": "copy", "from": "/a", "path": "/c"}), patching(add("/c/d", 2))],
        {"a": {"b": 1}, "c": {"b": 1, "d": 2}},
    ),
    "a whole object": (
        [patching({"op": "replace", "path": "", "value": {"metadata": {}}}), labelling("b", "2")],
        {"labels": {"b": "2"}},
    ),
    "types that Python takes for equal": ([patching(add("/a", 1)), patching(add("/a", True))], {"a": True}),
    "another type alone": ([patching(add("/a", 1.0))], {"a": 1.0}),
}


@pytest.mark.parametrize(("answers", "expected"), MIXED.values(), ids=MIXED)
def test_objects_and_patches_mix(answers: list[Answering], expected: Json) -> None:
    found = changed(*answers)["object"]
    labels = {"labels": found["metadata"]["labels"]} if "labels" in found["metadata"] else {}
    rest = {key: found[key] for key in ("a", "c") if key in found}
    assert repr({**rest, **labels}) == repr(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ("1", 1), ([1], [True]), ({"b": 0}, {"b": False})],
)
def test_a_change_of_type_alone_is_sent(before: Any, after: Any) -> None:
    for answer in (patching(add("/a", after)), lambda review: Replace({**review.object, "a": after})):
        found = changed(answer, obj={"metadata": {}, "a": before})
        assert repr(found["object"]["a"]) == repr(after)


@every_way
def test_a_value_that_its_policy_changes_later_is_sent_as_it_was(way: Way) -> None:
    kept: list[Any] = [{"name": "kept"}]

    def give(review: Any) -> Any:
        return Replace({**review.object, "kept": kept})

    def spoil(review: Any) -> Any:
        kept.append("spoilt")
        review.object["kept"].append("spoilt")
        return Allow()

    policies = [way.make("mutating", give, name="give"), way.make("mutating", spoil, name="spoil")]
    verdict = way.decide(REVIEWS["mutating"], *policies)
    assert verdict.patch is not None
    assert json.loads(verdict.patch) == [add("/kept", [{"name": "kept"}])]


cyclic: dict[str, Any] = {}
cyclic["self"] = cyclic

INAPPLICABLE: dict[str, Outcome] = {
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
    "a value that is no text": Patch([add("/a", LONE)]),
    "a key that is a number": Patch([add("/a", {1: 2})]),
    "a value nested too deep": Patch([add("/a", json.loads(nested(201)))]),
    "a value within itself": Patch([add("/a", cyclic)]),
    "None": Replace(None),
    "a text for the object": Replace("pod"),
    "a list of objects": Replace([{}]),
    "an object with a number for a key": Replace({1: 2}),
    "an object with an object": Replace({"a": object()}),
    "an object with a set": Replace({"a": {1}}),
    "an object with a number that is not finite": Replace({"a": float("inf")}),
    "an object with what is no text": Replace({"a": LONE}),
    "an object with a key that is no text": Replace({LONE: 1}),
    "an object within itself": Replace(cyclic),
    "an object nested too deep": Replace({"a": json.loads(nested(201))}),
    "an object with a huge number": Replace({"a": 2**64}),
}


@pytest.mark.parametrize("outcome", INAPPLICABLE.values(), ids=INAPPLICABLE)
def test_a_change_that_cannot_be_made_is_denied_and_never_sent(outcome: Outcome) -> None:
    review = REVIEWS["mutating"]
    for on_error in (None, "deny"):
        verdict = decide(review, make("mutating", outcome, on_error=on_error), in_place=True)
        expect_failure("mutating", on_error, verdict)
    verdict = decide(review, make("mutating", outcome, on_error="allow"), in_place=True)
    assert verdict.patch is None
    assert isinstance(verdict.results[0].failure, PolicyFailure)
    if not isinstance(verdict.outcome, Deny):
        expect_failure("mutating", "allow", verdict)


@pytest.mark.parametrize("outcome", [Replace({}), Patch([add("/a", 1)]), Patch([])], ids=repr)
@pytest.mark.parametrize("old", [None, pod()], ids=["nothing", "an old object"])
def test_a_change_on_delete_is_denied_and_never_sent(outcome: Outcome, old: Any) -> None:
    verdict = decide(admission_review("DELETE", old=old), make("mutating", outcome))
    expect_failure("mutating", None, verdict)
    allowing = decide(admission_review("DELETE", old=old), make("mutating", outcome, on_error="allow"))
    expect_failure("mutating", "allow", allowing)


def test_nothing_is_changed_or_asked_after_a_denial() -> None:
    asked: list[str] = []

    def ask(review: Any) -> Any:
        asked.append("asked")
        return Allow()

    policies = mutators(labelling("a", "1"), lambda review: Deny("no", code=422, audit={"why": "x"}), ask)
    verdict = decide(REVIEWS["mutating"], *policies)
    assert verdict.patch is None
    assert alike(verdict.outcome, Deny("no", code=422, audit={"why": "x"}))
    assert asked == []
    assert len(verdict.results) == 2


def test_a_failure_that_is_passed_over_leaves_the_others_changes() -> None:
    failing = make("mutating", None, name="failing", on_error="allow")
    inapplicable = make(
        "mutating", Patch([{"op": "remove", "path": "/nowhere"}]), name="inapplicable", on_error="allow"
    )
    first, last = mutators(labelling("a", "1"), labelling("b"))
    verdict = decide(REVIEWS["mutating"], first, failing, inapplicable, last)
    assert verdict.patch is not None
    assert json.loads(verdict.patch) == [add("/metadata/labels", {"a": "1", "b": "a"})]
    assert isinstance(verdict.outcome, Allow)
    assert list(verdict.outcome.warnings) == [
        "policy 'failing' failed and was passed over",
        "policy 'inapplicable' failed and was passed over",
    ]


def test_mutators_notes_are_sent_with_the_patch() -> None:
    def answer(review: Any) -> Replace:
        return Replace({**review.object, "a": 1}, warnings=["w"], audit={"k": "v"})

    response = changed(answer, lambda review: Allow(warnings=["x"], audit={"k": "other"}))
    assert (response["warnings"], response["auditAnnotations"]) == (["w", "x"], {"k": "v", "p1.k": "other"})
    assert response["object"]["a"] == 1


PATHS = st.sampled_from(
    [("spec", "a"), ("spec", "b", "c"), ("metadata", "labels"), ("metadata", "labels", "x"), ("z",)]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, "", "x/~y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab/~"), inner, max_size=3),
    max_leaves=6,
)


def setting(path: tuple[str, ...], value: Any, by_patch: bool) -> Answering:
    """Sets one member to a value, which done twice is as done once."""

    def answer(review: Any) -> Any:
        obj = node = review.object
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node[path[-1]] = value
        return (
            Patch([{"op": "replace", "path": "", "value": json.loads(json.dumps(obj))}]) if by_patch else Replace(obj)
        )

    return answer


@given(st.lists(st.tuples(PATHS, VALUES, st.booleans()), min_size=1, max_size=4))
@settings(max_examples=100)
def test_called_again_mutators_change_nothing_more(changes: list[tuple[tuple[str, ...], Any, bool]]) -> None:
    answers = [setting(*change) for change in changes]
    expected = pod()
    for path, value, _ in changes:
        node = expected
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node[path[-1]] = json.loads(json.dumps(value))
    first = changed(*answers)["object"]
    assert sorted_json(first) == sorted_json(expected)
    assert "patch" not in changed(*answers, obj=first)


def sorted_json(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)


# Validators and image policies.


@pytest.mark.parametrize("kind", ["validating", "image_policy"])
def test_all_must_allow(kind: Kind) -> None:
    for outcomes in itertools.product([Allow(), Deny("no")], repeat=3):
        policies = [make(kind, outcome, name=f"p{number}") for number, outcome in enumerate(outcomes)]
        verdict = decide(REVIEWS[kind], *policies, in_place=True)
        assert isinstance(verdict.outcome, Deny) is any(isinstance(outcome, Deny) for outcome in outcomes)
        assert len(verdict.results) == 3
        ACCEPTS[kind](BODIES[kind], reply(kind, REVIEWS[kind], verdict))


def test_one_reason_is_shown_as_it_is() -> None:
    denial = Deny("no <good>", reason="Conflict", code=409, details={"kind": "pods"})
    verdict = decide(REVIEWS["validating"], make("validating", Allow(), name="a"), make("validating", denial))
    assert alike(verdict.outcome, denial)


def test_all_reasons_are_shown_together() -> None:
    policies = [
        make("validating", None, name="broken"),
        make("validating", Allow(), name="fine"),
        make("validating", Deny("too large", reason="Invalid", code=422), name="size"),
        make("validating", Deny("not yours", code=409), name="owner"),
    ]
    outcome = decide(REVIEWS["validating"], *policies, in_place=True).outcome
    assert outcome == Deny(
        "size: too large; owner: not yours; broken: policy 'broken' failed",
        reason="Invalid",
        code=422,
        details={
            "causes": [
                {"reason": "size", "message": "too large"},
                {"reason": "owner", "message": "not yours"},
                {"reason": "broken", "message": "policy 'broken' failed"},
            ]
        },
    )


DETAILS: list[tuple[Any, Any]] = [
    (None, {}),
    ({"retryAfterSeconds": 5}, {"retryAfterSeconds": 5}),
    ({"kind": "pods", "causes": [{"field": "spec"}]}, {"kind": "pods", "causes": [{"field": "spec"}]}),
    ({"causes": "rubbish"}, {}),
]


@pytest.mark.parametrize(("details", "kept"), DETAILS)
def test_the_details_of_the_first_denial_stand_with_its_code(details: Any, kept: Json) -> None:
    policies = [
        make("validating", Deny("slow down", reason="TooManyRequests", code=429, details=details), name="rate"),
        make("validating", Deny("no", details={"name": "web", "retryAfterSeconds": 9}), name="strict"),
    ]
    outcome = decide(REVIEWS["validating"], *policies, in_place=True).outcome
    causes = [{"reason": "rate", "message": "slow down"}, {"reason": "strict", "message": "no"}]
    assert outcome == Deny(
        "rate: slow down; strict: no",
        reason="TooManyRequests",
        code=429,
        details={**kept, "causes": [*kept.get("causes", []), *causes]},
    )


def test_failures_alone_are_shown_together_too() -> None:
    policies = [make("validating", None, name=name) for name in "ab"]
    outcome = decide(REVIEWS["validating"], *policies, in_place=True).outcome
    assert isinstance(outcome, Deny)
    assert (outcome.code, outcome.reason) == (500, "InternalError")
    assert outcome.message == "a: policy 'a' failed; b: policy 'b' failed"


def test_a_denial_of_another_stands_whatever_is_passed_over() -> None:
    policies = [
        make("validating", None, name="broken", on_error="allow"),
        make("validating", Deny("no"), name="strict"),
    ]
    outcome = decide(REVIEWS["validating"], *policies, in_place=True).outcome
    assert isinstance(outcome, Deny)
    assert (outcome.message, outcome.code) == ("no", 403)
    assert list(outcome.warnings) == ["policy 'broken' failed and was passed over"]


@pytest.mark.parametrize("kind", ["validating", "image_policy"])
@pytest.mark.parametrize("last", [Allow(), Deny("no")], ids=repr)
def test_the_notes_of_all_are_collected(kind: Kind, last: Outcome) -> None:
    policies = [
        make(kind, Allow(warnings=["a", "b"], audit={"k": "1"}), name="one"),
        make(kind, Allow(warnings=["b", "c"], audit={"k": "2", "l": "3"}), name="two"),
        make(kind, last, name="three"),
    ]
    outcome = decide(REVIEWS[kind], *policies, in_place=True).outcome
    assert outcome is not None
    assert list(outcome.warnings) == ["a", "b", "c"]
    assert outcome.audit == {"k": "1", "two.k": "2", "l": "3"}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
ALLOWS = st.builds(
    Allow,
    reason=TEXTS,
    warnings=st.lists(TEXTS, max_size=3),
    audit=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
DENIALS = st.builds(
    Deny,
    TEXTS.filter(bool),
    code=st.integers(400, 599),
    details=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    warnings=st.lists(TEXTS, max_size=3),
    audit=st.dictionaries(TEXTS, TEXTS, max_size=3),
)


@given(st.lists(ALLOWS | DENIALS, min_size=1, max_size=3), st.sampled_from(["mutating", "validating", "image_policy"]))
@settings(max_examples=150)
def test_whatever_policies_say_the_caller_accepts(outcomes: list[Outcome], kind: Kind) -> None:
    policies = [make(kind, outcome, name=f"p{number}") for number, outcome in enumerate(outcomes)]
    verdict = decide(REVIEWS[kind], *policies, in_place=True)
    response = ACCEPTS[kind](BODIES[kind], reply(kind, REVIEWS[kind], verdict))
    assert response["allowed"] is not any(isinstance(outcome, Deny) for outcome in outcomes)


# Authorizers and authenticators.

FAILS, FAILS_DENYING, FAILS_ALLOWING = "fails", "fails, denying", "fails, allowing"
ON_ERRORS = {FAILS: None, FAILS_DENYING: "deny", FAILS_ALLOWING: "allow"}
RANKS: Mapping[Kind, list[Any]] = {
    "authorizing": [Deny("no"), FAILS_DENYING, FAILS, Allow(reason="yes"), NoOpinion(), FAILS_ALLOWING],
    "authenticating": [Unauthenticated("bad"), FAILS_DENYING, FAILS, Authenticated("jane"), NoOpinion()],
}
CLASSES: Mapping[Kind, list[Any]] = {
    "authorizing": [Deny, Deny, None, Allow, NoOpinion, NoOpinion],
    "authenticating": [Unauthenticated, Unauthenticated, None, Authenticated, NoOpinion],
}


@pytest.mark.parametrize("kind", RANKS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_strongest_opinion_counts_in_whatever_order(kind: Kind, count: int) -> None:
    ranks = RANKS[kind]
    for places in itertools.product(range(len(ranks)), repeat=count):
        policies = [
            make(kind, None, name=f"p{number}", on_error=ON_ERRORS[ranks[place]])
            if isinstance(ranks[place], str)
            else make(kind, ranks[place], name=f"p{number}")
            for number, place in enumerate(places)
        ]
        verdict = decide(REVIEWS[kind], *policies, in_place=True)
        strongest = CLASSES[kind][min(places)]
        assert verdict.outcome is None if strongest is None else type(verdict.outcome) is strongest
        if verdict.outcome is not None:
            ACCEPTS[kind](BODIES[kind], reply(kind, REVIEWS[kind], verdict))


def test_all_refusals_are_shown_together() -> None:
    denials = [
        make("authorizing", outcome, name=name)
        for name, outcome in (("a", Deny("no")), ("b", None), ("c", Deny("never")))
    ]
    assert decide(REVIEWS["authorizing"], *denials, in_place=True).outcome == Deny("no; never")
    refusals = [make("authenticating", Unauthenticated(error), name=error) for error in ("expired", "revoked")]
    assert decide(REVIEWS["authenticating"], *refusals, in_place=True).outcome == Unauthenticated("expired; revoked")


@pytest.mark.parametrize(
    ("kind", "outcome"), [("authorizing", Deny("no", code=409)), ("authenticating", Unauthenticated("expired"))]
)
def test_one_refusal_is_shown_as_it_is(kind: Kind, outcome: Outcome) -> None:
    policies = [make(kind, NoOpinion(), name="a"), make(kind, outcome)]
    assert alike(decide(REVIEWS[kind], *policies, in_place=True).outcome, outcome)


def test_the_first_of_equals_counts() -> None:
    names = [make("authenticating", Authenticated(name), name=name) for name in ("jane", "joe")]
    assert alike(decide(REVIEWS["authenticating"], *names, in_place=True).outcome, Authenticated("jane"))


# The dispatcher.


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("mutating", Allow()),
        ("validating", Allow()),
        ("image_policy", Allow()),
        ("authorizing", NoOpinion()),
        ("authenticating", NoOpinion()),
    ],
)
def test_a_review_that_no_policy_wants_is_left_to_others(kind: Kind, outcome: Outcome) -> None:
    verdict = dispatcher_of().decide(kind, REVIEWS[kind])
    assert verdict == Verdict(outcome)
    ACCEPTS[kind](BODIES[kind], reply(kind, REVIEWS[kind], Verdict(outcome)))


@every_kind
def test_policies_in_place_are_answered_at_once(kind: Kind) -> None:
    policy = make(kind, OUTCOME_EXAMPLES[OUTCOMES[kind][0]])
    dispatcher = dispatcher_of(policy)
    promote(dispatcher.runner, policy)
    verdict = dispatcher.decide(kind, REVIEWS[kind])
    assert isinstance(verdict, Verdict)
    assert [result.policy.name for result in verdict.results] == ["p"]
    assert verdict.results[0].seconds >= 0


def test_one_policy_in_place_and_another_in_a_thread_are_decided_together() -> None:
    threads: dict[str, bool] = {}

    def policy(name: str) -> AnyPolicy:
        def answer(review: Any) -> Deny:
            threads[name] = threading.current_thread() is threading.main_thread()
            return Deny(name)

        return THREAD.make("validating", answer, name=name)

    slow, quick = policy("slow"), policy("quick")
    dispatcher = dispatcher_of(slow, quick)
    promote(dispatcher.runner, quick)

    async def wait() -> Any:
        return await dispatcher.decide("validating", REVIEWS["validating"])  # type: ignore[misc]

    assert asyncio.run(wait()).outcome.message == "slow: slow; quick: quick"
    assert threads == {"slow": False, "quick": True}


def test_one_policy_may_be_asked_alone() -> None:
    policies = [
        validating("pods", name="pods")(always_allow),
        validating("services", name="services")(always_deny),
        validating("pods", name="kube", namespaces=["kube-*"])(always_deny),
        validating("pods", name="deny")(always_deny),
    ]
    dispatcher = dispatcher_of(*policies)
    promote(dispatcher.runner, *policies)
    outcomes = {}
    for policy in policies:
        verdict = dispatcher.decide("validating", REVIEWS["validating"], only=policy)
        assert isinstance(verdict, Verdict)
        outcomes[policy.name] = (type(verdict.outcome), len(verdict.results))
    assert outcomes == {"pods": (Allow, 1), "services": (Allow, 0), "kube": (Allow, 0), "deny": (Deny, 1)}


def always_allow(review: Any) -> Allow:
    return Allow()


def always_deny(review: Any) -> Deny:
    return Deny("no")


@pytest.mark.parametrize("only", [False, True])
def test_what_selecting_cannot_read_is_malformed(only: bool) -> None:
    policy: Policy[Any, Any] = validating("pods", labels={"a": "b"}, on_error="allow")(always_allow)
    dispatcher = dispatcher_of(policy)
    review = admission_review(obj={"metadata": {"labels": ["a"]}})
    with pytest.raises(MalformedReview):
        dispatcher.decide("validating", review, only=policy if only else None)


def test_parameters_reach_the_policy() -> None:
    @validating("pods")
    def limited(review: Any, *, most: int) -> Any:
        return Deny(f"{most} are the most")

    @validating("pods")
    async def limited_later(review: Any, *, most: int = 7) -> Any:
        return Deny(f"{most} are the most")

    for policy, most in ((limited.bind(most=5), 5), (limited_later, 7), (limited_later.bind(most=6), 6)):
        assert alike(decide(REVIEWS["validating"], policy).outcome, Deny(f"{most} are the most"))


# What policies share is theirs to read alone.


def test_a_policy_that_goes_behind_its_copy_stops_the_review() -> None:
    class Shape(msgspec.Struct):
        spec: dict[str, Any]

    @validating("pods")
    def sly(review: Any) -> Any:
        msgspec.convert(review.object, Shape).spec["containers"][0]["image"] = "good"
        return Allow()

    with pytest.raises(PolicyFailure, match="behind its own copy"):
        decide(admission_review("CREATE", pod()), sly)


def test_a_value_in_a_patch_is_no_longer_the_policys_own() -> None:
    @mutating("pods")
    def first(review: Any) -> Any:
        return Patch([{"op": "add", "path": "/spec/copy", "value": review.object["spec"]["containers"]}])

    @mutating("pods")
    def scribbles(review: Any) -> Any:
        review.object["spec"]["copy"][0]["image"] = "evil"
        return Allow()

    @mutating("pods")
    def labels(review: Any) -> Any:
        review.object["metadata"]["labels"] = {"a": "b"}
        return Replace(review.object)

    review = admission_review("CREATE", pod())
    patch = decide(review, first, scribbles, labels).patch
    assert patch is not None
    assert b"evil" not in patch


def test_a_policy_is_asked_by_what_those_before_it_left() -> None:
    @mutating("pods")
    def adds(review: Any) -> Any:
        return Patch([{"op": "add", "path": "/metadata/labels", "value": {"tier": "web"}}])

    @mutating("pods", labels={"tier": "web"})
    def refuses(review: Any) -> Any:
        return Deny("no web")

    outcome = decide(admission_review("CREATE", pod()), adds, refuses).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == "no web"


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/metadata/name", "value": "web"}, {"op": "add", "path": "/x", "value": "<"}],
        [{"op": "replace", "path": "", "value": pod("other")}],
        [{"op": "copy", "from": "/metadata/name", "path": "/x"}],
    ],
)
def test_operations_that_servers_apply_differently_are_sent_as_what_they_came_to(operations: Any) -> None:
    policy = mutating("pods", name="p")(always(Patch(operations)))
    review = admission_review("CREATE", pod())
    sent = json.loads(decide(review, policy).patch or b"")
    assert {operation["op"] for operation in sent} <= {"add", "replace", "remove"}
    assert all(operation["path"] for operation in sent)


def test_nothing_is_changed_on_delete() -> None:
    @mutating("pods", operations=["DELETE"])
    def changes(review: Any) -> Any:
        return Replace(pod("other"))

    verdict = decide(admission_review("DELETE", pod(), old=pod()), changes)
    assert (verdict.patch, type(verdict.outcome)) == (None, Deny)


def test_a_container_stays_the_one_it_was() -> None:
    @mutating("pods")
    def drops(review: Any) -> Any:
        listed = review.object["spec"]["containers"]
        for container in review.containers():
            if container.name.startswith("bad"):
                listed.remove(container.spec)
        return Replace(review.object)

    named = [{"name": name, "image": name} for name in ("bad1", "bad2", "good")]
    body = pod() | {"spec": {"containers": named}}
    patch = decide(admission_review("CREATE", body), drops).patch or b""
    left = jsonpatch.apply_patch(body, json.loads(patch))["spec"]["containers"]
    assert [container["name"] for container in left] == ["good"]


@pytest.mark.parametrize(
    ("policy", "review"),
    [
        (validating("*/*"), admission_review(obj=pod())),
        (mutating("*/*"), admission_review(obj=pod())),
        (image_policy(), image_review("a")),
        (authorizing("*/*"), access_review(verb="get", resource="pods", namespace="team-a")),
    ],
)
def test_a_verdict_tells_of_exemptions(policy: Any, review: Any) -> None:
    def denying(review: Any) -> Deny:
        return Deny("no")

    holds = Exemption("moving", namespaces=Globs(["team-a"]))
    ended, other = replace(holds, expires=1.0), replace(holds, namespaces=Globs(["team-b"]))

    def told(*exemptions: Exemption) -> list[tuple[str, Exemption]]:
        return list(decide(review, replace(policy(denying), exemptions=exemptions)).exemptions)

    assert told(holds) == [("denying", holds)]
    assert told(ended) == [("denying", ended)]
    assert told(ended, holds) == [("denying", holds)]
    assert told(other) == told() == []

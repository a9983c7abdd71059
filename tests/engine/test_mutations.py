"""Changes of mutating policies: how they are applied, merged and sent."""

import json
from typing import Any

import jsonpatch
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks import (
    Allow,
    Deny,
    Patch,
    Replace,
    mutating,
    validating,
)
from webhooks.errors import PolicyFailure
from webhooks.reviews import admission_codec
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Outcome

from ..support.api_server import accept_admission
from ..support.builders import (
    Json,
    admission_body,
    admission_review,
    decide,
    encode_body,
    encode_response,
    pod,
)
from ..support.policies import (
    INVALID_CHANGES,
    REVIEWS,
    Function,
    Runner,
    add,
    assert_failure,
    every_runner,
    is_equal,
    make,
    mutators,
    returning,
)


def mutate(*functions: Function, obj: Any = None) -> Json:
    """Return the response of mutating policies, with the object that an API server would store."""
    body = admission_body(obj=pod() if obj is None else obj)
    review = admission_codec.CODEC.decode(encode_body(body))
    verdict = decide(review, *mutators(*functions), inline=True)
    response = accept_admission(body, encode_response("mutating", review, verdict), mutating=True)
    assert response["allowed"]
    return response


def labelling(key: str, value: str = "") -> Function:
    """Sets a label: to the value, or to the labels it sees."""

    def function(review: Any) -> Replace:
        obj = review.object
        labels = obj["metadata"].setdefault("labels", {})
        labels[key] = value or ",".join(labels)
        return Replace(obj)

    return function


def patching(*operations: Json) -> Function:
    return lambda review: Patch(operations)


@every_runner
def test_each_mutator_sees_the_object_of_the_previous_one(runner: Runner) -> None:
    seen: list[Any] = []

    def see(review: Any) -> Allow:
        seen.append((review.labels, review.name, [container.name for container in review.containers()]))
        return Allow()

    def contain(review: Any) -> Patch:
        return Patch([add("/spec/containers/-", {"name": "side", "image": "x"})])

    functions = [labelling("a", "1"), see, labelling("b"), contain, see]
    policies = [runner.make("mutating", function, name=f"p{number}") for number, function in enumerate(functions)]
    body = admission_body(obj=pod())
    verdict = runner.decide(admission_codec.CODEC.decode(encode_body(body)), *policies)
    assert seen == [({"a": "1"}, "web", ["app"]), ({"a": "1", "b": "a"}, "web", ["app", "side"])]
    response = accept_admission(body, encode_response("mutating", REVIEWS["mutating"], verdict), mutating=True)
    assert response["object"]["metadata"]["labels"] == {"a": "1", "b": "a"}
    assert [container["name"] for container in response["object"]["spec"]["containers"]] == ["app", "side"]
    assert [result.policy.name for result in verdict.results] == ["p0", "p1", "p2", "p3", "p4"]


@every_runner
@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_changes_to_a_copy_do_not_reach_other_policies(kind: Kind, runner: Runner) -> None:
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
        runner.make(kind, function, name=f"p{number}", on_error="allow")
        for number, function in enumerate([vandalize, see, fail, see])
    ]
    review = admission_review("UPDATE", before, old=before)
    verdict = runner.decide(review, *policies)
    assert [(new, old) for new, old, _ in seen] == [(before, before)] * 2
    assert [extra for _, _, extra in seen] == [{}, {}]
    assert verdict.patch is None
    assert isinstance(verdict.outcome, Allow)


def test_changes_are_merged_into_one_diff() -> None:
    response = mutate(labelling("a", "1"), labelling("a", "2"), labelling("b", "3"))
    assert response["operations"] == [add("/metadata/labels", {"a": "2", "b": "3"})]


def test_a_change_that_is_undone_sends_no_patch() -> None:
    def unlabel(review: Any) -> Replace:
        obj = review.object
        del obj["metadata"]["labels"]
        return Replace(obj)

    assert "patch" not in mutate(labelling("a", "1"), unlabel)
    assert "patch" not in mutate(labelling("a", "1"), patching({"op": "remove", "path": "/metadata/labels"}))


@pytest.mark.parametrize(
    "function",
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
def test_no_change_sends_no_patch(function: Function) -> None:
    assert "patch" not in mutate(function)
    assert "patch" not in mutate(function, function)
    assert "patch" not in mutate(labelling("a", "1"), labelling("a", "2"), function, lambda review: Replace(pod()))


MIXED: dict[str, tuple[list[Function], Json]] = {
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


@pytest.mark.parametrize(("functions", "expected"), MIXED.values(), ids=MIXED)
def test_objects_and_patches_can_be_mixed(functions: list[Function], expected: Json) -> None:
    result = mutate(*functions)["object"]
    labels = {"labels": result["metadata"]["labels"]} if "labels" in result["metadata"] else {}
    rest = {key: result[key] for key in ("a", "c") if key in result}
    assert repr({**rest, **labels}) == repr(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (0, False), (0.0, -0.0), ("1", 1), ([1], [True]), ({"b": 0}, {"b": False})],
)
def test_a_change_of_type_only_is_sent(before: Any, after: Any) -> None:
    for function in (patching(add("/a", after)), lambda review: Replace({**review.object, "a": after})):
        result = mutate(function, obj={"metadata": {}, "a": before})
        assert repr(result["object"]["a"]) == repr(after)


@every_runner
def test_a_value_that_its_policy_changes_later_is_sent_unchanged(runner: Runner) -> None:
    kept: list[Any] = [{"name": "kept"}]

    def give(review: Any) -> Any:
        return Replace({**review.object, "kept": kept})

    def spoil(review: Any) -> Any:
        kept.append("spoilt")
        review.object["kept"].append("spoilt")
        return Allow()

    policies = [runner.make("mutating", give, name="give"), runner.make("mutating", spoil, name="spoil")]
    verdict = runner.decide(REVIEWS["mutating"], *policies)
    assert verdict.patch is not None
    assert json.loads(verdict.patch) == [add("/kept", [{"name": "kept"}])]


@pytest.mark.parametrize("outcome", INVALID_CHANGES.values(), ids=INVALID_CHANGES)
def test_an_invalid_change_is_denied_and_never_sent(outcome: Outcome) -> None:
    review = REVIEWS["mutating"]
    for on_error in (None, "deny"):
        verdict = decide(review, make("mutating", outcome, on_error=on_error), inline=True)
        assert_failure("mutating", on_error, verdict)
    verdict = decide(review, make("mutating", outcome, on_error="allow"), inline=True)
    assert verdict.patch is None
    assert isinstance(verdict.results[0].failure, PolicyFailure)
    if not isinstance(verdict.outcome, Deny):
        assert_failure("mutating", "allow", verdict)


@pytest.mark.parametrize("outcome", [Replace({}), Patch([add("/a", 1)]), Patch([])], ids=repr)
@pytest.mark.parametrize("old", [None, pod()], ids=["nothing", "an old object"])
def test_a_change_on_delete_is_denied_and_never_sent(outcome: Outcome, old: Any) -> None:
    verdict = decide(admission_review("DELETE", old=old), make("mutating", outcome))
    assert_failure("mutating", None, verdict)
    allowing = decide(admission_review("DELETE", old=old), make("mutating", outcome, on_error="allow"))
    assert_failure("mutating", "allow", allowing)


def test_a_denial_ends_the_chain_and_drops_all_changes() -> None:
    calls: list[str] = []

    def ask(review: Any) -> Any:
        calls.append("called")
        return Allow()

    policies = mutators(labelling("a", "1"), lambda review: Deny("no", code=422, audit={"why": "x"}), ask)
    verdict = decide(REVIEWS["mutating"], *policies)
    assert verdict.patch is None
    assert is_equal(verdict.outcome, Deny("no", code=422, audit={"why": "x"}))
    assert calls == []
    assert len(verdict.results) == 2


def test_an_ignored_failure_keeps_the_changes_of_others() -> None:
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
        "policy 'failing' failed and was ignored",
        "policy 'inapplicable' failed and was ignored",
    ]


def test_notes_of_mutators_are_sent_with_the_patch() -> None:
    def function(review: Any) -> Replace:
        return Replace({**review.object, "a": 1}, warnings=["w"], audit={"k": "v"})

    response = mutate(function, lambda review: Allow(warnings=["x"], audit={"k": "other"}))
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


def setting(path: tuple[str, ...], value: Any, by_patch: bool) -> Function:
    """Sets one member to a value, which done twice is as done once."""

    def function(review: Any) -> Any:
        obj = node = review.object
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node[path[-1]] = value
        return (
            Patch([{"op": "replace", "path": "", "value": json.loads(json.dumps(obj))}]) if by_patch else Replace(obj)
        )

    return function


@given(st.lists(st.tuples(PATHS, VALUES, st.booleans()), min_size=1, max_size=4))
@settings(max_examples=100)
def test_idempotent_mutators_change_nothing_the_second_time(changes: list[tuple[tuple[str, ...], Any, bool]]) -> None:
    functions = [setting(*change) for change in changes]
    expected = pod()
    for path, value, _ in changes:
        node = expected
        for key in path[:-1]:
            if not isinstance(node.get(key), dict):
                node[key] = {}
            node = node[key]
        node[path[-1]] = json.loads(json.dumps(value))
    first = mutate(*functions)["object"]
    assert sorted_json(first) == sorted_json(expected)
    assert "patch" not in mutate(*functions, obj=first)


def sorted_json(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)


def test_a_policy_that_modifies_a_shared_object_fails_the_review() -> None:
    class Shape(msgspec.Struct):
        spec: dict[str, Any]

    @validating("pods")
    def sly(review: Any) -> Any:
        msgspec.convert(review.object, Shape).spec["containers"][0]["image"] = "good"
        return Allow()

    with pytest.raises(PolicyFailure, match="modified a shared object"):
        decide(admission_review("CREATE", pod()), sly)


def test_a_value_in_a_patch_is_copied() -> None:
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


def test_a_policy_is_matched_against_the_changed_object() -> None:
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
def test_operations_that_servers_apply_differently_are_sent_as_a_diff(operations: Any) -> None:
    policy = mutating("pods", name="p")(returning(Patch(operations)))
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


def test_a_container_keeps_its_identity_when_others_are_removed() -> None:
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

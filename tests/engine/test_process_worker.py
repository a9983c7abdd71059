"""The process of an isolated policy: its environment, and its replies."""

from collections.abc import Iterator
from typing import Any

import pytest

from webhooks import Allow, Authenticated, Deny, NoOpinion, Patch, Replace, Unauthenticated
from webhooks.errors import MalformedReview, PolicyFailure
from webhooks.reviews import admission, admission_codec

from ..support.builders import (
    access_review,
    admission_body,
    admission_review,
    encode_body,
    image_review,
    pod,
    token_review,
)
from ..support.isolation import Lab, review_of, running


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running(tmp_path_factory.mktemp("isolation")) as lab:
        yield lab


def test_a_process_has_nothing_of_the_server(lab: Lab) -> None:
    outcome = lab.result("environment", review_of("well")).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == '[["PYTHONPATH"], ["anon_inode", "socket"]]'


ANSWERS = {
    ("answers", "deny"): Deny("no", reason="Odd", code=418, details={"causes": [{"a": 1.5}]}, audit={"a": "b"}),
    ("answers", "warn"): Allow(warnings=["w"], audit={"k": "web"}),
    ("answers", "parameter"): Deny("nothing"),
    ("bound", "parameter"): Deny("something"),
    ("answers", "old"): Deny("None"),
    ("answers", "user"): Deny("jane CREATE 705ab4f5-6393-11e8-b7cc-42010a800002 None"),
    ("waits", "well"): Allow(warnings=["waited"]),
    ("changes", "well"): Replace(pod(labels={"a": "b"})),
    ("changes", "patch"): Patch([{"op": "add", "path": "/metadata/labels", "value": {"é": 2**63 - 1}}]),
}


def is_equal(one: Any, other: Any) -> bool:
    """Whether both outcomes have the same type and are encoded as the same JSON."""
    return type(one) is type(other) and encode_body({f: getattr(one, f) for f in one.__struct_fields__}) == encode_body(
        {f: getattr(other, f) for f in other.__struct_fields__}
    )


@pytest.mark.parametrize(("policy", "name"), ANSWERS)
def test_outcomes_are_returned_unchanged(policy: str, name: str, lab: Lab) -> None:
    assert is_equal(lab.result(policy, review_of(name)).outcome, ANSWERS[policy, name])


def test_outcomes_of_other_protocols_are_returned(lab: Lab) -> None:
    for name, review, outcome in (
        ("authorizes", access_review(verb="get", resource="pods"), Allow(reason="jane of ('dev',)")),
        ("authorizes", access_review(verb="delete", resource="pods"), Deny("no")),
        ("authorizes", access_review(verb="list", resource="pods"), NoOpinion()),
        ("authenticates", token_review("bad"), Unauthenticated("unknown")),
        (
            "authenticates",
            token_review("good", ["x"]),
            Authenticated("jane", uid="1", groups=["a"], extra={"k": ["v"]}, audiences=["x"]),
        ),
        ("pinned", image_review("a", "b@sha256:c"), Deny("a")),
    ):
        assert is_equal(lab.result(name, review).outcome, outcome), name


@pytest.mark.parametrize(
    ("policy", "name", "says"),
    [
        ("answers", "true", "returned a value of type bool"),
        ("answers", "raises", "raised KeyError: 'a secret detail'"),
        ("answers", "raises no text", "raised ValueError: \\ud800"),
        ("changes", "nan", "nan is not JSON"),
        ("changes", "bad patch", "a value in the patch is not JSON"),
    ],
)
def test_failures_are_returned_with_their_message(policy: str, name: str, says: str, lab: Lab) -> None:
    result = lab.result(policy, review_of(name))
    assert result.outcome is None
    assert type(result.failure) is PolicyFailure
    assert says in str(result.failure)


def test_failures_are_returned_with_their_traceback(lab: Lab) -> None:
    failure = lab.result("answers", review_of("raises")).failure
    assert failure is not None
    assert "policies.py" in str(failure.__cause__)
    assert "KeyError" in str(failure.__cause__)


def test_an_unreadable_object_makes_the_review_malformed(lab: Lab) -> None:
    body = encode_body(admission_body("CREATE", {"a": 1}, name="reads")).replace(b'{"a":1}', b'{"a":1,"a":2}')
    failure = lab.result("answers", admission_codec.CODEC.decode(body)).failure
    assert isinstance(failure, MalformedReview)
    assert (failure.code, str(failure)) == (400, "duplicate key 'a'")


def test_a_process_gets_the_changes_of_previous_policies(lab: Lab) -> None:
    changed = admission.with_object(review_of("reads"), admission_review(obj={"a": 1, "b": 2, "c": 3})._object)
    outcome = lab.result("answers", changed).outcome
    assert isinstance(outcome, Deny)
    assert outcome.message == "3"

"""How the outcomes of several policies become one verdict."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks import (
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Replace,
    Unauthenticated,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.errors import MalformedReview
from webhooks.kube.globs import Globs
from webhooks.policy.exemptions import Exemption
from webhooks.reviews import admission_codec
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import Outcome

from ..support.builders import (
    AnyPolicy,
    Json,
    access_review,
    admission_body,
    admission_review,
    decide,
    encode_body,
    encode_response,
    image_review,
    pod,
)
from ..support.policies import (
    ACCEPTS,
    BODIES,
    REVIEWS,
    is_equal,
    make,
)

# Validators and image policies.


@pytest.mark.parametrize("kind", ["validating", "image_policy"])
def test_all_must_allow(kind: Kind) -> None:
    for outcomes in itertools.product([Allow(), Deny("no")], repeat=3):
        policies = [make(kind, outcome, name=f"p{number}") for number, outcome in enumerate(outcomes)]
        verdict = decide(REVIEWS[kind], *policies, inline=True)
        assert isinstance(verdict.outcome, Deny) is any(isinstance(outcome, Deny) for outcome in outcomes)
        assert len(verdict.results) == 3
        ACCEPTS[kind](BODIES[kind], encode_response(kind, REVIEWS[kind], verdict))


def test_a_single_denial_is_sent_unchanged() -> None:
    denial = Deny("no <good>", reason="Conflict", code=409, details={"kind": "pods"})
    verdict = decide(REVIEWS["validating"], make("validating", Allow(), name="a"), make("validating", denial))
    assert is_equal(verdict.outcome, denial)


def test_all_denials_are_merged() -> None:
    policies = [
        make("validating", None, name="broken"),
        make("validating", Allow(), name="fine"),
        make("validating", Deny("too large", reason="Invalid", code=422), name="size"),
        make("validating", Deny("not yours", code=409), name="owner"),
    ]
    outcome = decide(REVIEWS["validating"], *policies, inline=True).outcome
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
def test_the_details_of_the_first_denial_are_kept_with_its_code(details: Any, kept: Json) -> None:
    policies = [
        make("validating", Deny("slow down", reason="TooManyRequests", code=429, details=details), name="rate"),
        make("validating", Deny("no", details={"name": "web", "retryAfterSeconds": 9}), name="strict"),
    ]
    outcome = decide(REVIEWS["validating"], *policies, inline=True).outcome
    causes = [{"reason": "rate", "message": "slow down"}, {"reason": "strict", "message": "no"}]
    assert outcome == Deny(
        "rate: slow down; strict: no",
        reason="TooManyRequests",
        code=429,
        details={**kept, "causes": [*kept.get("causes", []), *causes]},
    )


def test_failures_are_merged_too() -> None:
    policies = [make("validating", None, name=name) for name in "ab"]
    outcome = decide(REVIEWS["validating"], *policies, inline=True).outcome
    assert isinstance(outcome, Deny)
    assert (outcome.code, outcome.reason) == (500, "InternalError")
    assert outcome.message == "a: policy 'a' failed; b: policy 'b' failed"


def test_an_ignored_failure_does_not_undo_a_denial() -> None:
    policies = [
        make("validating", None, name="broken", on_error="allow"),
        make("validating", Deny("no"), name="strict"),
    ]
    outcome = decide(REVIEWS["validating"], *policies, inline=True).outcome
    assert isinstance(outcome, Deny)
    assert (outcome.message, outcome.code) == ("no", 403)
    assert list(outcome.warnings) == ["policy 'broken' failed and was ignored"]


@pytest.mark.parametrize("kind", ["validating", "image_policy"])
@pytest.mark.parametrize("last", [Allow(), Deny("no")], ids=repr)
def test_the_notes_of_all_policies_are_collected(kind: Kind, last: Outcome) -> None:
    policies = [
        make(kind, Allow(warnings=["a", "b"], audit={"k": "1"}), name="one"),
        make(kind, Allow(warnings=["b", "c"], audit={"k": "2", "l": "3"}), name="two"),
        make(kind, last, name="three"),
    ]
    outcome = decide(REVIEWS[kind], *policies, inline=True).outcome
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
def test_api_servers_accept_the_response_to_any_outcomes(outcomes: list[Outcome], kind: Kind) -> None:
    policies = [make(kind, outcome, name=f"p{number}") for number, outcome in enumerate(outcomes)]
    verdict = decide(REVIEWS[kind], *policies, inline=True)
    response = ACCEPTS[kind](BODIES[kind], encode_response(kind, REVIEWS[kind], verdict))
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
def test_the_strongest_opinion_wins_in_any_order(kind: Kind, count: int) -> None:
    ranks = RANKS[kind]
    for places in itertools.product(range(len(ranks)), repeat=count):
        policies = [
            make(kind, None, name=f"p{number}", on_error=ON_ERRORS[ranks[place]])
            if isinstance(ranks[place], str)
            else make(kind, ranks[place], name=f"p{number}")
            for number, place in enumerate(places)
        ]
        verdict = decide(REVIEWS[kind], *policies, inline=True)
        strongest = CLASSES[kind][min(places)]
        assert verdict.outcome is None if strongest is None else type(verdict.outcome) is strongest
        if verdict.outcome is not None:
            ACCEPTS[kind](BODIES[kind], encode_response(kind, REVIEWS[kind], verdict))


def test_the_messages_of_all_refusals_are_merged() -> None:
    denials = [
        make("authorizing", outcome, name=name)
        for name, outcome in (("a", Deny("no")), ("b", None), ("c", Deny("never")))
    ]
    assert decide(REVIEWS["authorizing"], *denials, inline=True).outcome == Deny("no; never")
    refusals = [make("authenticating", Unauthenticated(error), name=error) for error in ("expired", "revoked")]
    assert decide(REVIEWS["authenticating"], *refusals, inline=True).outcome == Unauthenticated("expired; revoked")


@pytest.mark.parametrize(
    ("kind", "outcome"), [("authorizing", Deny("no", code=409)), ("authenticating", Unauthenticated("expired"))]
)
def test_a_single_refusal_is_sent_unchanged(kind: Kind, outcome: Outcome) -> None:
    policies = [make(kind, NoOpinion(), name="a"), make(kind, outcome)]
    assert is_equal(decide(REVIEWS[kind], *policies, inline=True).outcome, outcome)


def test_the_first_of_equal_opinions_wins() -> None:
    names = [make("authenticating", Authenticated(name), name=name) for name in ("jane", "joe")]
    assert is_equal(decide(REVIEWS["authenticating"], *names, inline=True).outcome, Authenticated("jane"))


@pytest.mark.parametrize(
    ("policy", "review"),
    [
        (validating("*/*"), admission_review(obj=pod())),
        (mutating("*/*"), admission_review(obj=pod())),
        (image_policy(), image_review("a")),
        (authorizing("*/*"), access_review(verb="get", resource="pods", namespace="team-a")),
    ],
)
def test_a_verdict_lists_the_exemptions_that_matched(policy: Any, review: Any) -> None:
    def denying(review: Any) -> Deny:
        return Deny("no")

    active = Exemption("moving", namespaces=Globs(["team-a"]))
    expired, other = replace(active, expires=1.0), replace(active, namespaces=Globs(["team-b"]))

    def exemptions_of(*exemptions: Exemption) -> list[tuple[str, Exemption]]:
        return list(decide(review, replace(policy(denying), exemptions=exemptions)).exemptions)

    assert exemptions_of(active) == [("denying", active)]
    assert exemptions_of(expired) == [("denying", expired)]
    assert exemptions_of(expired, active) == [("denying", active)]
    assert exemptions_of(other) == exemptions_of() == []


# Modes that do not enforce denials.

POD = admission_review(obj=pod())


def deny(review: Any) -> Deny:
    return Deny("never")


def fail(review: Any) -> Allow:
    raise ValueError("secret detail")


def label(review: Any) -> Replace:
    obj = review.object
    obj["metadata"]["labels"] = {"seen": "yes"}
    return Replace(obj)


def configured(function: Any, decorator: Any = validating, **operator: Any) -> AnyPolicy:
    policy: AnyPolicy = decorator("*/*", operations=["*"])(function)
    return replace(policy, **operator)


@pytest.mark.parametrize("decorator", [validating, mutating])
@pytest.mark.parametrize(
    ("function", "mode", "warnings", "audit"),
    [
        (deny, "warn", ["deny: never"], {}),
        (deny, "audit", [], {"deny.denied": "never"}),
        (fail, "warn", ["fail: policy 'fail' failed"], {}),
        (fail, "audit", [], {"fail.denied": "policy 'fail' failed"}),
    ],
)
def test_a_denial_that_is_not_enforced_is_reported(
    decorator: Any, function: Any, mode: str, warnings: list[str], audit: dict[str, str]
) -> None:
    verdict = decide(POD, configured(function, decorator, mode=mode))
    assert verdict.outcome == Allow(warnings=warnings, audit=audit)


def test_other_policies_are_enforced() -> None:
    verdict = decide(POD, configured(deny, mode="warn"), configured(deny, name="hard"))
    assert isinstance(verdict.outcome, Deny)
    assert (verdict.outcome.message, verdict.outcome.warnings) == ("never", ["deny: never"])


def test_mutators_that_are_not_enforced_still_change_objects() -> None:
    verdict = decide(POD, configured(deny, mutating, mode="audit"), configured(label, mutating, mode="warn"))
    assert verdict.patch is not None
    assert verdict.outcome == Allow(warnings=[], audit={"deny.denied": "never"})


def test_reported_denials_are_one_line_and_limited() -> None:
    def deny_verbosely(review: Any) -> Deny:
        return Deny("two\nlines \x1b[31m" + "x" * 10_000)

    warned = decide(POD, configured(deny_verbosely, mode="warn")).outcome
    audited = decide(POD, configured(deny_verbosely, mode="audit")).outcome
    assert warned is not None
    assert audited is not None
    assert re.fullmatch(r"deny_verbosely: two lines  ?\[31mx{100,}", warned.warnings[0])
    assert len(audited.audit["deny_verbosely.denied"]) == 4096


def test_a_malformed_review_is_rejected_in_every_mode() -> None:
    def read(review: Any) -> Allow:
        assert review.object
        return Allow()

    body = encode_body(admission_body(obj={"a": 1})).replace(b'"a":1', b'"a":1,"a":2')
    with pytest.raises(MalformedReview):
        decide(admission_codec.CODEC.decode(body), configured(read, mode="audit", on_error="allow"))

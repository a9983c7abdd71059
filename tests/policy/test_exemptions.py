"""Exemptions, and what becomes of denials that are not enforced."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from webhooks import Allow, Deny, NoOpinion, Replace, authorizing, image_policy, mutating, validating
from webhooks.errors import MalformedReview
from webhooks.kube.globs import Globs
from webhooks.policy.exemptions import Exemption
from webhooks.reviews import admission_codec

from ..support.builders import (
    AnyPolicy,
    access_review,
    admission_body,
    admission_review,
    decide,
    image_review,
    pod,
    written,
)

PAST = datetime(2020, 1, 31, tzinfo=UTC).timestamp()
FUTURE = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
WEB = admission_review(obj=pod())
BEGUN = admission_review(obj={**pod(), "metadata": {"generateName": "web-"}}, name=...)
TWO_IMAGES = admission_review(obj=pod(initContainers=[{"name": "i", "image": "other"}]))
READ = access_review(verb="get", resource="pods", namespace="team-a")


def exempting(**given: Any) -> Exemption:
    fields = {name: value if name in ("images", "expires") else Globs(value) for name, value in given.items()}
    return Exemption("moving", **fields)


@pytest.mark.parametrize(
    ("review", "given", "covered"),
    [
        (WEB, {"namespaces": ["team-a"]}, True),
        (WEB, {"namespaces": ["team-*"], "names": ["web"], "users": ["jane"]}, True),
        (WEB, {"namespaces": ["team-a"], "names": ["other"]}, False),
        (WEB, {"namespaces": ["team-a"], "users": ["joe"]}, False),
        (BEGUN, {"names": ["web-*"]}, True),
        (BEGUN, {"names": ["we*"]}, True),
        (BEGUN, {"names": ["*"]}, True),
        (BEGUN, {"names": ["web-"]}, False),
        (BEGUN, {"names": ["web-1*"]}, False),
        (BEGUN, {"names": ["web-?*", "w*b-"]}, False),
        (WEB, {"images": ("registry.k8s.io/app:1",)}, True),
        (WEB, {"images": ("registry.k8s.io/*",)}, True),
        (WEB, {"images": ("registry.k8s.io/other*", "registry.k8s.io/app*")}, True),
        (WEB, {"images": ("registry.k8s.io.example.org/*",)}, False),
        (WEB, {"images": ("registry.k8s*",)}, False),
        (TWO_IMAGES, {"images": ("registry.k8s.io/*",)}, False),
        (admission_review(obj=pod(containers=[{"name": "a"}])), {"images": ("*",)}, False),
        (admission_review(obj=pod(containers="many")), {"images": ("*",)}, False),
        (admission_review(obj={"kind": "Pod"}), {"images": ("*",)}, False),
        (admission_review(obj={"kind": "ConfigMap"}, resource="v1/configmaps"), {"images": ("*",)}, False),
        (admission_review("DELETE", old=pod()), {"images": ("registry.k8s.io/*",)}, True),
        (admission_review(obj=pod(), userInfo=...), {"users": ["jane"]}, False),
        (READ, {"namespaces": ["team-a"], "users": ["jane"]}, True),
        (READ, {"users": ["joe"]}, False),
        (image_review("registry.k8s.io/app"), {"images": ("registry.k8s.io/*",), "namespaces": ["team-a"]}, True),
        (image_review("registry.k8s.io/app", "other"), {"images": ("registry.k8s.io/*",)}, False),
        (image_review("not an image"), {"images": ("*",)}, False),
    ],
)
def test_all_that_is_given_must_fit(review: Any, given: dict[str, Any], covered: bool) -> None:
    assert exempting(**given).covers(review) is covered


@pytest.mark.parametrize(("expires", "expired"), [(None, False), (PAST, True), (FUTURE, False)])
def test_expiry(expires: float | None, expired: bool) -> None:
    exemption = exempting(namespaces=["*"], expires=expires)
    assert exemption.is_expired is expired
    assert exemption.expiry == ("" if expires is None else exemption.expiry)
    if expires == PAST:
        assert exemption.expiry == "2020-01-31 00:00 UTC"


def deny(review: Any) -> Deny:
    return Deny("never")


def fail(review: Any) -> Allow:
    raise ValueError("secret detail")


def label(review: Any) -> Replace:
    pod = review.object
    pod["metadata"]["labels"] = {"seen": "yes"}
    return Replace(pod)


def configured(function: Any, decorator: Any = validating, **operator: Any) -> AnyPolicy:
    made: AnyPolicy = (decorator if decorator is image_policy else decorator("*/*", operations=["*"]))(function)
    return replace(made, **operator)


MOVING = (exempting(namespaces=["team-a"]),)
ENDED = (exempting(namespaces=["team-a"], expires=PAST),)
OTHER = (exempting(namespaces=["team-b"]),)


@pytest.mark.parametrize("decorator", [validating, mutating])
def test_an_exempted_review_is_not_asked_about_and_the_audit_record_says_why(decorator: Any) -> None:
    verdict = decide(WEB, configured(deny, decorator, exemptions=MOVING))
    assert verdict.outcome == Allow(warnings=[], audit={"deny.exempted": "moving"})
    assert verdict.results == []


def test_an_exempted_object_is_not_changed() -> None:
    assert decide(WEB, configured(label, mutating, exemptions=OTHER)).patch is not None
    assert decide(WEB, configured(label, mutating, exemptions=MOVING)).patch is None


@pytest.mark.parametrize("decorator", [validating, mutating])
def test_an_exemption_that_has_ended_warns_and_works_no_more(decorator: Any) -> None:
    verdict = decide(WEB, configured(deny, decorator, exemptions=ENDED))
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.warnings == ["deny: an exemption expired 2020-01-31 00:00 UTC (moving)"]
    assert decide(WEB, configured(deny, decorator, exemptions=ENDED + MOVING)).outcome == Allow(
        warnings=[], audit={"deny.exempted": "moving"}
    )


def test_others_are_asked_all_the_same() -> None:
    verdict = decide(WEB, configured(deny, exemptions=MOVING), configured(fail))
    assert isinstance(verdict.outcome, Deny)
    assert [result.policy.name for result in verdict.results] == ["fail"]


def test_image_policies_and_authorizers_are_exempted_too() -> None:
    images = configured(deny, image_policy, exemptions=(exempting(images=("registry.k8s.io/*",)),))
    assert isinstance(decide(image_review("registry.k8s.io/app"), images).outcome, Allow)
    assert isinstance(decide(image_review("other/app"), images).outcome, Deny)
    access: AnyPolicy = replace(authorizing("*/*")(deny), exemptions=(exempting(users=["jane"]),))
    assert decide(access_review(verb="get", resource="pods"), access).outcome == NoOpinion()
    assert isinstance(decide(access_review(verb="get", resource="pods", user="joe"), access).outcome, Deny)


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
def test_a_denial_that_is_not_enforced_is_told(
    decorator: Any, function: Any, mode: str, warnings: list[str], audit: dict[str, str]
) -> None:
    verdict = decide(WEB, configured(function, decorator, mode=mode))
    assert verdict.outcome == Allow(warnings=warnings, audit=audit)


def test_what_is_enforced_beside_it_is_not_softened() -> None:
    verdict = decide(WEB, configured(deny, mode="warn"), replace(configured(deny), name="hard"))
    assert isinstance(verdict.outcome, Deny)
    assert (verdict.outcome.message, verdict.outcome.warnings) == ("never", ["deny: never"])


def test_a_mutator_that_is_not_enforced_still_changes_and_those_behind_it_go_on() -> None:
    verdict = decide(WEB, configured(deny, mutating, mode="audit"), configured(label, mutating, mode="warn"))
    assert verdict.patch is not None
    assert verdict.outcome == Allow(warnings=[], audit={"deny.denied": "never"})


def test_what_is_told_of_a_denial_is_one_line_and_fits_the_record() -> None:
    def tell(review: Any) -> Deny:
        return Deny("two\nlines \x1b[31m" + "x" * 10_000)

    warned = decide(WEB, configured(tell, mode="warn")).outcome
    audited = decide(WEB, configured(tell, mode="audit")).outcome
    assert warned is not None
    assert audited is not None
    assert re.fullmatch(r"tell: two lines  ?\[31mx{100,}", warned.warnings[0])
    assert len(audited.audit["tell.denied"]) == 4096


def test_a_review_that_cannot_be_read_is_refused_in_every_mode() -> None:
    def read(review: Any) -> Allow:
        assert review.object
        return Allow()

    body = written(admission_body(obj={"a": 1})).replace(b'"a":1', b'"a":1,"a":2')
    with pytest.raises(MalformedReview):
        decide(admission_codec.CODEC.decode(body), configured(read, mode="audit", on_error="allow"))

"""Exemptions from policies."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from webhooks import Allow, Deny, NoOpinion, Replace, authorizing, image_policy, mutating, validating
from webhooks.kube.globs import Globs
from webhooks.policy.exemptions import Exemption

from ..support.builders import (
    AnyPolicy,
    access_review,
    admission_review,
    decide,
    image_review,
    pod,
)

PAST = datetime(2020, 1, 31, tzinfo=UTC).timestamp()
FUTURE = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
WEB = admission_review(obj=pod())
GENERATED_NAME = admission_review(obj={**pod(), "metadata": {"generateName": "web-"}}, name=...)
TWO_IMAGES = admission_review(obj=pod(initContainers=[{"name": "i", "image": "other"}]))
READ = access_review(verb="get", resource="pods", namespace="team-a")


def make_exemption(**conditions: Any) -> Exemption:
    fields = {name: value if name in ("images", "expires") else Globs(value) for name, value in conditions.items()}
    return Exemption("moving", **fields)


@pytest.mark.parametrize(
    ("review", "conditions", "covered"),
    [
        (WEB, {"namespaces": ["team-a"]}, True),
        (WEB, {"namespaces": ["team-*"], "names": ["web"], "users": ["jane"]}, True),
        (WEB, {"namespaces": ["team-a"], "names": ["other"]}, False),
        (WEB, {"namespaces": ["team-a"], "users": ["joe"]}, False),
        (GENERATED_NAME, {"names": ["web-*"]}, True),
        (GENERATED_NAME, {"names": ["we*"]}, True),
        (GENERATED_NAME, {"names": ["*"]}, True),
        (GENERATED_NAME, {"names": ["web-"]}, False),
        (GENERATED_NAME, {"names": ["web-1*"]}, False),
        (GENERATED_NAME, {"names": ["web-?*", "w*b-"]}, False),
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
def test_all_conditions_must_hold(review: Any, conditions: dict[str, Any], covered: bool) -> None:
    assert make_exemption(**conditions).covers(review) is covered


@pytest.mark.parametrize(("expires", "expired"), [(None, False), (PAST, True), (FUTURE, False)])
def test_expiry(expires: float | None, expired: bool) -> None:
    exemption = make_exemption(namespaces=["*"], expires=expires)
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


def make_policy(function: Any, decorator: Any = validating, **operator: Any) -> AnyPolicy:
    policy: AnyPolicy = (decorator if decorator is image_policy else decorator("*/*", operations=["*"]))(function)
    return replace(policy, **operator)


ACTIVE = (make_exemption(namespaces=["team-a"]),)
EXPIRED = (make_exemption(namespaces=["team-a"], expires=PAST),)
OTHER_NAMESPACE = (make_exemption(namespaces=["team-b"]),)


@pytest.mark.parametrize("decorator", [validating, mutating])
def test_an_exempt_review_is_allowed_with_an_audit_annotation(decorator: Any) -> None:
    verdict = decide(WEB, make_policy(deny, decorator, exemptions=ACTIVE))
    assert verdict.outcome == Allow(warnings=[], audit={"deny.exempted": "moving"})
    assert verdict.results == []


def test_an_exempt_object_is_not_changed() -> None:
    assert decide(WEB, make_policy(label, mutating, exemptions=OTHER_NAMESPACE)).patch is not None
    assert decide(WEB, make_policy(label, mutating, exemptions=ACTIVE)).patch is None


@pytest.mark.parametrize("decorator", [validating, mutating])
def test_an_expired_exemption_only_warns(decorator: Any) -> None:
    verdict = decide(WEB, make_policy(deny, decorator, exemptions=EXPIRED))
    assert isinstance(verdict.outcome, Deny)
    assert verdict.outcome.warnings == ["deny: an exemption expired 2020-01-31 00:00 UTC (moving)"]
    assert decide(WEB, make_policy(deny, decorator, exemptions=EXPIRED + ACTIVE)).outcome == Allow(
        warnings=[], audit={"deny.exempted": "moving"}
    )


def test_other_policies_are_called() -> None:
    verdict = decide(WEB, make_policy(deny, exemptions=ACTIVE), make_policy(fail))
    assert isinstance(verdict.outcome, Deny)
    assert [result.policy.name for result in verdict.results] == ["fail"]


def test_exemptions_from_image_policies_and_authorizers() -> None:
    images = make_policy(deny, image_policy, exemptions=(make_exemption(images=("registry.k8s.io/*",)),))
    assert isinstance(decide(image_review("registry.k8s.io/app"), images).outcome, Allow)
    assert isinstance(decide(image_review("other/app"), images).outcome, Deny)
    access: AnyPolicy = replace(authorizing("*/*")(deny), exemptions=(make_exemption(users=["jane"]),))
    assert decide(access_review(verb="get", resource="pods"), access).outcome == NoOpinion()
    assert isinstance(decide(access_review(verb="get", resource="pods", user="joe"), access).outcome, Deny)

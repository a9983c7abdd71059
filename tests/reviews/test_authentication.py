from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks import Authenticated, Identity, NoOpinion, Unauthenticated, authenticating
from webhooks.errors import MalformedReview
from webhooks.reviews import authentication

from ..support.api_server import accept_authentication
from ..support.builders import (
    GROUPS,
    Json,
    decide,
    encode_body,
    encode_response,
    recorded_bodies,
    token_body,
    token_review,
    with_api_version,
)

RECORDED = recorded_bodies("/authenticate")
HOLDER = Authenticated("jane", uid="42", groups=["dev"], extra={"scopes": ["read"]})
OUTCOMES: list[tuple[Identity, Json]] = [
    (Authenticated("jane"), {"authenticated": True, "user": {"username": "jane"}}),
    (
        HOLDER,
        {
            "authenticated": True,
            "user": {"username": "jane", "uid": "42", "groups": ["dev"], "extra": {"scopes": ["read"]}},
        },
    ),
    (Unauthenticated(), {"authenticated": False}),
    (Unauthenticated("expired"), {"authenticated": False, "error": "expired"}),
    (NoOpinion(), {"authenticated": False}),
    (NoOpinion(reason="not mine"), {"authenticated": False}),
]


def answered(body: Json, outcome: Identity) -> Json:
    review = authentication.CODEC.decode(encode_body(body))
    verdict = decide(review, authenticating(name="holder")(lambda _: outcome))
    return accept_authentication(body, encode_response("authenticating", review, verdict))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(("outcome", "status"), OUTCOMES, ids=repr)
@pytest.mark.parametrize("name", RECORDED)
def test_real_requests_are_answered_as_their_caller_accepts(
    name: str, group: str, version: str, outcome: Identity, status: Json
) -> None:
    assert answered(with_api_version(RECORDED[name], group, version), outcome) == status


@pytest.mark.parametrize("name", RECORDED)
def test_real_requests_are_read_as_they_are(name: str) -> None:
    spec = RECORDED[name]["spec"]
    review = authentication.CODEC.decode(encode_body(RECORDED[name]))
    assert (review.token, list(review.audiences)) == (spec["token"], spec["audiences"])


@pytest.mark.parametrize(
    ("wanted", "held", "status"),
    [
        (None, None, {"authenticated": True}),
        (None, ["api"], {"authenticated": True, "audiences": ["api"]}),
        ([], ["api"], {"authenticated": True, "audiences": ["api"]}),
        (["api"], None, {"authenticated": True}),
        (["api"], ["api"], {"authenticated": True, "audiences": ["api"]}),
        (["api", "web"], ["web", "else"], {"authenticated": True, "audiences": ["web"]}),
        (["web", "api"], ("api", "web"), {"authenticated": True, "audiences": ["web", "api"]}),
        (["api"], ["else"], {"authenticated": False, "error": "the token is for other audiences"}),
        (["api"], [], {"authenticated": False, "error": "the token is for other audiences"}),
    ],
)
def test_a_token_is_good_for_its_audiences_alone(
    wanted: list[str] | None, held: Sequence[str] | None, status: Json
) -> None:
    answer = answered(token_body(audiences=wanted), Authenticated("jane", audiences=held))
    answer.pop("user", None)
    assert answer == status


def test_a_token_is_never_shown() -> None:
    assert repr(token_review("hush")) == "<TokenReview for any audience>"
    assert repr(token_review("hush", ["api", "web"])) == "<TokenReview for api, web>"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "TokenRequest"},
        {"apiVersion": "authentication.k8s.io/v1alpha1"},
        {"apiVersion": "authentication.example.org/v1"},
        {"apiVersion": "authorization.k8s.io/v1"},
        {"spec": None},
        {"spec": {}},
        {"spec": {"token": ""}},
        {"spec": {"token": None}},
        {"spec": {"token": 5}},
        {"spec": {"token": "a", "audiences": "api"}},
        {"spec": {"token": "a", "audiences": [5]}},
    ],
    ids=repr,
)
def test_what_is_no_token_review_is_refused(change: Json) -> None:
    with pytest.raises(MalformedReview) as caught:
        authentication.CODEC.decode(encode_body({**token_body(), **change}))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "spec",
    ['{"token":"a","token":"b"}', r'{"token":"a","to\u006ben":"b"}', r'{"token":"\ud800"}', '{"token":"a","x":NaN}'],
)
def test_a_request_is_read_strictly(spec: str) -> None:
    body = f'{{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{spec}}}'
    with pytest.raises(MalformedReview) as caught:
        authentication.CODEC.decode(body.encode())
    assert caught.value.code == 400


def test_the_token_is_in_no_error() -> None:
    body = token_body("hush")
    for change in ({"audiences": [5]}, {"token": ["hush"]}):
        with pytest.raises(MalformedReview) as caught:
            authentication.CODEC.decode(encode_body({**body, "spec": {**body["spec"], **change}}))
        assert "hush" not in str(caught.value)


def test_every_policy_has_its_own_review() -> None:
    review = token_review("hush", ["api"])
    review.token, review.audiences = "other", ()
    assert (review.copy().token, review.copy().audiences) == ("hush", ("api",))


NAMES = st.text(min_size=1, max_size=5)
HOLDERS = st.builds(
    Authenticated,
    NAMES,
    uid=st.text(max_size=5),
    groups=st.lists(NAMES, max_size=3),
    extra=st.dictionaries(NAMES, st.lists(NAMES, max_size=2), max_size=2),
    audiences=st.none() | st.lists(st.sampled_from(["api", "web"]), max_size=2),
)


@given(HOLDERS, st.none() | st.lists(st.sampled_from(["api", "web"]), max_size=2))
def test_any_holder_reaches_the_caller(holder: Any, wanted: list[str] | None) -> None:
    status = answered(token_body(audiences=wanted), holder)
    held = holder.audiences
    shares = held is None or (set(wanted) & set(held) if wanted else held)
    assert status["authenticated"] is bool(shares)
    if shares:
        user = {"uid": "", "groups": [], "extra": {}} | status["user"]
        assert user == {
            "username": holder.username,
            "uid": holder.uid,
            "groups": holder.groups,
            "extra": holder.extra,
        }

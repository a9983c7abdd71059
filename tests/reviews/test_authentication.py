"""TokenReview: decoding, encoding, and the view of policies."""

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


def respond(body: Json, outcome: Identity) -> Json:
    review = authentication.CODEC.decode(encode_body(body))
    verdict = decide(review, authenticating(name="holder")(lambda _: outcome))
    return accept_authentication(body, encode_response("authenticating", review, verdict))


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(("outcome", "status"), OUTCOMES, ids=repr)
@pytest.mark.parametrize("name", RECORDED)
def test_api_servers_accept_the_responses(name: str, group: str, version: str, outcome: Identity, status: Json) -> None:
    assert respond(with_api_version(RECORDED[name], group, version), outcome) == status


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests_are_decoded(name: str) -> None:
    spec = RECORDED[name]["spec"]
    review = authentication.CODEC.decode(encode_body(RECORDED[name]))
    assert (review.token, list(review.audiences)) == (spec["token"], spec["audiences"])


@pytest.mark.parametrize(
    ("requested", "accepted", "status"),
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
def test_a_token_is_accepted_for_its_audiences_only(
    requested: list[str] | None, accepted: Sequence[str] | None, status: Json
) -> None:
    status_ = respond(token_body(audiences=requested), Authenticated("jane", audiences=accepted))
    status_.pop("user", None)
    assert status_ == status


def test_the_representation_has_no_token() -> None:
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
def test_malformed_requests_are_rejected(change: Json) -> None:
    with pytest.raises(MalformedReview) as caught:
        authentication.CODEC.decode(encode_body({**token_body(), **change}))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "spec",
    ['{"token":"a","token":"b"}', r'{"token":"a","to\u006ben":"b"}', r'{"token":"\ud800"}', '{"token":"a","x":NaN}'],
)
def test_requests_are_decoded_strictly(spec: str) -> None:
    body = f'{{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","spec":{spec}}}'
    with pytest.raises(MalformedReview) as caught:
        authentication.CODEC.decode(body.encode())
    assert caught.value.code == 400


def test_no_error_contains_the_token() -> None:
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
def test_any_holder_is_encoded(holder: Any, requested: list[str] | None) -> None:
    status = respond(token_body(audiences=requested), holder)
    accepted = holder.audiences
    is_accepted = accepted is None or (set(requested) & set(accepted) if requested else accepted)
    assert status["authenticated"] is bool(is_accepted)
    if is_accepted:
        user = {"uid": "", "groups": [], "extra": {}} | status["user"]
        assert user == {
            "username": holder.username,
            "uid": holder.uid,
            "groups": holder.groups,
            "extra": holder.extra,
        }

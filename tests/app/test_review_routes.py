"""The review endpoints of the current policies."""

import asyncio
from typing import Any

import pytest

from webhooks import Allow, Deny, validating
from webhooks.app import review_routes
from webhooks.policy.registry import Registry

from ..support.builders import admission_body, encode_body, pod
from ..support.reviews import Reviews, build_reviews

VALIDATE = "/admission/validate"
BODY = encode_body(admission_body("CREATE", pod()))


@validating("pods")
async def old(review: Any) -> Deny:
    await asyncio.sleep(0)
    return Deny("old")


@validating("pods")
async def new(review: Any) -> Allow:
    return Allow()


def test_paths_have_the_names_of_policies() -> None:
    reviews = build_reviews([old])
    assert f"{VALIDATE}/old" in reviews.routes.by_path
    assert set(reviews.routes.by_raw_path) == {path.encode() for path in reviews.routes.by_path}


@pytest.mark.parametrize(("policies", "expected"), [([], False), ([old], True)])
def test_whether_there_are_policies(policies: list[Any], expected: bool) -> None:
    assert build_reviews(policies).routes.has_policies is expected


async def respond(reviews: Reviews) -> bytes:
    response = await reviews.endpoint(VALIDATE).answer(BODY, b"")
    body: bytes = response.body
    return body


def test_policies_are_replaced_between_two_reviews() -> None:
    async def scenario() -> None:
        reviews = build_reviews([old])
        by_path, by_raw_path = reviews.routes.by_path, reviews.routes.by_raw_path
        in_progress = asyncio.create_task(respond(reviews))
        await asyncio.sleep(0)
        await reviews.routes.replace_policies(Registry([new]))
        assert b'"message":"old"' in await in_progress
        assert b'"allowed":true' in await respond(reviews)
        assert f"{VALIDATE}/old" not in by_path
        assert f"{VALIDATE}/new".encode() in by_raw_path

    asyncio.run(scenario())


def test_unchanged_policies_keep_their_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_routes, "_MAX_REVIEW_DURATION", 0)

    async def scenario() -> None:
        reviews = build_reviews([old, new])
        state = reviews.executor.inline_states[new]
        await reviews.routes.replace_policies(Registry([new]))
        await asyncio.gather(*reviews.routes._cleanups)
        assert reviews.executor.inline_states == {new: state}

    asyncio.run(scenario())

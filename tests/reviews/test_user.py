"""Users are decoded strictly."""

from typing import Any

import pytest

from webhooks.errors import MalformedReview
from webhooks.reviews.user import User

FULL = {"username": "jane", "uid": "42", "groups": ["dev", "ops"], "extra": {"scopes": ["read", "write"]}}

USERS = [
    (FULL, User("jane", "42", ("dev", "ops"), {"scopes": ("read", "write")})),
    ({"username": "jane"}, User("jane")),
    ({"username": "jane", "groups": None, "extra": None, "uid": None}, User("jane")),
    ({"username": "jane", "future": {"field": 1}}, User("jane")),
    ({}, User()),
    (None, User()),
]

MALFORMED: list[Any] = [
    "jane",
    ["jane"],
    5,
    True,
    {"username": 5},
    {"username": "jane", "groups": "dev"},
    {"username": "jane", "groups": [5]},
    {"username": "jane", "groups": {"dev": True}},
    {"username": "jane", "extra": {"scopes": "read"}},
    {"username": "jane", "extra": {"scopes": [5]}},
    {"username": "jane", "extra": ["scopes"]},
]


@pytest.mark.parametrize(("tree", "user"), USERS)
def test_users_are_decoded(tree: Any, user: User) -> None:
    assert User.from_json(tree) == user


@pytest.mark.parametrize("tree", MALFORMED, ids=repr)
def test_malformed_users_are_rejected(tree: Any) -> None:
    with pytest.raises(MalformedReview, match="not a user") as caught:
        User.from_json(tree)
    assert caught.value.code == 400

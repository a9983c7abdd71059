"""Who asks: the user as reviews describe one."""

from typing import Any

import msgspec

from webhooks.errors import MalformedReview


class User(msgspec.Struct, frozen=True):
    """A user of the cluster.

    Attributes:
        username: the unique name.
        uid: tells apart users who had the same name at different times; often empty.
        groups: the groups the user is in.
        extra: further facts from the authenticator.
    """

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


def user_of(tree: Any) -> User:
    """The user in a decoded ``userInfo``.

    Raises:
        MalformedReview: the value has not the shape of a user.
    """
    if tree is None:
        return User()
    try:
        return msgspec.convert({key: value for key, value in tree.items() if value is not None}, User)
    except (AttributeError, msgspec.ValidationError) as error:
        raise MalformedReview(f"not a user: {error}") from None

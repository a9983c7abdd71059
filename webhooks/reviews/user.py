"""The user of a request, as API servers describe users."""

from typing import Any

import msgspec

from webhooks.errors import MalformedReview


class User(msgspec.Struct, frozen=True):
    """A user of the cluster.

    Attributes:
        username: the unique name.
        uid: distinguishes users who had the same name at different times; often empty.
        groups: the groups of the user.
        extra: further facts from the authenticator.
    """

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}

    @classmethod
    def from_json(cls, tree: Any) -> "User":
        """Create a user from a decoded ``userInfo``; None results in a user without a name.

        Raises:
            MalformedReview: a field of the user has the wrong type.
        """
        if tree is None:
            return cls()
        try:
            return msgspec.convert({key: value for key, value in tree.items() if value is not None}, cls)
        except (AttributeError, msgspec.ValidationError) as error:
            raise MalformedReview(f"request.userInfo is not a user: {error}") from None

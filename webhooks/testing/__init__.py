"""For authors' own tests: reviews for a policy to be called with, and a server without sockets to be asked.

A policy is a function, so a test calls it with a review and looks at what it returns::

    def test_an_owner_is_needed():
        review = admission("CREATE", pod(labels={}))
        assert isinstance(owner_label(review), Deny)

What comes of several policies together, and of their matching, a `Server` tells, which pytest gives as `server`::

    def test_an_owner_is_needed(server):
        result = server("labels.py").review(admission("CREATE", pod()))
        assert_denied(result, "no owner", code=403)
"""

from webhooks.testing.assertions import assert_allowed, assert_denied, assert_no_opinion, assert_patched
from webhooks.testing.builders import access, admission, images, pod, token
from webhooks.testing.server import Result, Server

__all__ = [
    "Result",
    "Server",
    "access",
    "admission",
    "assert_allowed",
    "assert_denied",
    "assert_no_opinion",
    "assert_patched",
    "images",
    "pod",
    "token",
]

"""Helpers for tests of policies: reviews to call a policy with, and a server without sockets.

A policy is a function, so a test can call it with a review and check its outcome::

    def test_an_owner_is_required():
        review = admission("CREATE", pod(labels={}))
        assert isinstance(owner_label(review), Deny)

A `Server` also matches, runs and combines policies as a real server does. The pytest fixture ``server`` creates one::

    def test_an_owner_is_required(server):
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

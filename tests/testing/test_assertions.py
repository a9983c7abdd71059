"""Assertions pass for the right result, and describe any other."""

from collections.abc import Callable
from functools import partial

import pytest

from webhooks.testing import Result, assert_allowed, assert_denied, assert_no_opinion, assert_patched, pod

ALLOWED = Result(True, policies=["a"])
DENIED = Result(False, 422, "no owner\nat all", "Invalid", warnings=["soon", "later"], policies=["a"])
PATCHED = Result(True, patch=[{"op": "remove", "path": "/spec"}], object=pod(labels={"a": "é"}), policies=["a"])
NO_OPINION = Result(None, message="unknown", policies=["a"])
ERROR = Result(None, 500, "a policy failed", "InternalError", policies=["a"], failures=["a: raised KeyError"])


@pytest.mark.parametrize(
    ("assertion", "result"),
    [
        (assert_allowed, ALLOWED),
        (assert_denied, DENIED),
        (partial(assert_denied, message="owner\nat"), DENIED),
        (partial(assert_denied, message="no owner", code=422, reason="Invalid"), DENIED),
        (assert_no_opinion, NO_OPINION),
        (partial(assert_patched, expected=pod(labels={"a": "é"})), PATCHED),
    ],
)
def test_assertions_that_pass(assertion: Callable[[Result], None], result: Result) -> None:
    assertion(result)


@pytest.mark.parametrize(
    ("assertion", "result", "messages"),
    [
        (assert_allowed, PATCHED, ["expected: allowed", "actual: patched", "  patch:", "'op': 'remove'"]),
        (assert_allowed, NO_OPINION, ["expected: allowed", "actual: no opinion", "  message: unknown"]),
        (assert_allowed, ERROR, ["actual: error", "  code: 500", "  failures:\n  - a: raised KeyError"]),
        (assert_allowed, DENIED, ["actual: denied", "  code: 422\n  reason: Invalid", "  - soon\n  - later"]),
        (assert_denied, ALLOWED, ["expected: denied", "actual: allowed"]),
        (assert_denied, NO_OPINION, ["expected: denied", "actual: no opinion"]),
        (assert_denied, Result(True), ["expected: denied", "actual: allowed\n  no policy matched"]),
        (partial(assert_denied, message="no name"), DENIED, ["expected: denied\n  message: no name", "no owner"]),
        (partial(assert_denied, code=403), DENIED, ["expected: denied\n  code: 403", "  code: 422"]),
        (partial(assert_denied, reason="Gone"), DENIED, ["expected: denied\n  reason: Gone", "  reason: Invalid"]),
        (assert_no_opinion, DENIED, ["expected: no opinion", "actual: denied"]),
        (assert_no_opinion, ERROR, ["expected: no opinion", "actual: error"]),
        (partial(assert_patched, expected=pod()), ALLOWED, ["expected: patched", "actual: allowed"]),
        (partial(assert_patched, expected={"a": 1}), Result(True, patch=[{}], object={"a": True}), ["-a: 1\n+a: true"]),
        (
            partial(assert_patched, expected=pod(labels={"a": "b"})),
            PATCHED,
            [
                "the patched object is different:\n--- expected\n+++ actual\n",
                "\n   labels:\n-    a: b\n+    a: é\n   name: web\n",
            ],
        ),
    ],
)
def test_assertions_that_fail(assertion: Callable[[Result], None], result: Result, messages: list[str]) -> None:
    with pytest.raises(AssertionError) as raised:
        assertion(result)
    for message in messages:
        assert message in str(raised.value)

"""What assertions let pass, and what they say of the rest."""

from collections.abc import Callable
from functools import partial

import pytest

from webhooks.testing import Result, assert_allowed, assert_denied, assert_no_opinion, assert_patched, pod

ALLOWED = Result(True, asked=["a"])
DENIED = Result(False, 422, "no owner\nat all", "Invalid", warnings=["soon", "later"], asked=["a"])
PATCHED = Result(True, patch=[{"op": "remove", "path": "/spec"}], object=pod(labels={"a": "é"}), asked=["a"])
OPEN = Result(None, message="who knows", asked=["a"])
FAILED = Result(None, 500, "a policy failed", "InternalError", asked=["a"], failures=["a: raised KeyError"])


@pytest.mark.parametrize(
    ("assertion", "result"),
    [
        (assert_allowed, ALLOWED),
        (assert_denied, DENIED),
        (partial(assert_denied, message="owner\nat"), DENIED),
        (partial(assert_denied, message="no owner", code=422, reason="Invalid"), DENIED),
        (assert_no_opinion, OPEN),
        (partial(assert_patched, expected=pod(labels={"a": "é"})), PATCHED),
    ],
)
def test_what_is_so(assertion: Callable[[Result], None], result: Result) -> None:
    assertion(result)


@pytest.mark.parametrize(
    ("assertion", "result", "says"),
    [
        (assert_allowed, PATCHED, ["wanted: allowed", "got: patched", "  patch:", "'op': 'remove'"]),
        (assert_allowed, OPEN, ["wanted: allowed", "got: no opinion", "  message: who knows"]),
        (assert_allowed, FAILED, ["got: no answer", "  code: 500", "  failures:\n  - a: raised KeyError"]),
        (assert_allowed, DENIED, ["got: denied", "  code: 422\n  reason: Invalid", "  - soon\n  - later"]),
        (assert_denied, ALLOWED, ["wanted: denied", "got: allowed"]),
        (assert_denied, OPEN, ["wanted: denied", "got: no opinion"]),
        (assert_denied, Result(True), ["wanted: denied", "got: allowed\n  no policy was asked"]),
        (partial(assert_denied, message="no name"), DENIED, ["wanted: denied\n  message: no name", "no owner"]),
        (partial(assert_denied, code=403), DENIED, ["wanted: denied\n  code: 403", "  code: 422"]),
        (partial(assert_denied, reason="Gone"), DENIED, ["wanted: denied\n  reason: Gone", "  reason: Invalid"]),
        (assert_no_opinion, DENIED, ["wanted: no opinion", "got: denied"]),
        (assert_no_opinion, FAILED, ["wanted: no opinion", "got: no answer"]),
        (partial(assert_patched, expected=pod()), ALLOWED, ["wanted: patched", "got: allowed"]),
        (partial(assert_patched, expected={"a": 1}), Result(True, patch=[{}], object={"a": True}), ["-a: 1\n+a: true"]),
        (
            partial(assert_patched, expected=pod(labels={"a": "b"})),
            PATCHED,
            ["patched to something else:\n--- wanted\n+++ got\n", "\n   labels:\n-    a: b\n+    a: é\n   name: web\n"],
        ),
    ],
)
def test_what_is_not(assertion: Callable[[Result], None], result: Result, says: list[str]) -> None:
    with pytest.raises(AssertionError) as raised:
        assertion(result)
    for each in says:
        assert each in str(raised.value)

"""The invariants of all responses, and policies that show them: they read the whole review and deny it."""

import json
from collections.abc import Mapping
from math import isinf
from typing import Any

VERDICT = "seen and denied"
POLICIES = f'''\
from webhooks import *


def deny_after_reading(review):
    _ = review.object, review.old_object, review.user, review.options
    return Deny("{VERDICT}")


mutates = mutating("*/*", operations=["*"], name="mutates")(deny_after_reading)
validates = validating("*/*", operations=["*"], name="validates")(deny_after_reading)


@authorizing("*/*", paths=["*"])
def authorizes(access):
    return Deny("{VERDICT}")


@authenticating
def authenticates(token):
    return Unauthenticated("{VERDICT}")


@image_policy
def images(review):
    return Deny("{VERDICT}")
'''
_DEPTH = 200
_KINDS = {
    "/admission/mutate": "AdmissionReview",
    "/admission/validate": "AdmissionReview",
    "/authorize": "SubjectAccessReview",
    "/authenticate": "TokenReview",
    "/images": "ImageReview",
    "/audit": "EventList",
}


class InvariantError(AssertionError):
    """A response breaks an invariant."""


def check(path: str, body: bytes, code: int, reply: bytes) -> str:
    """Check a response against all invariants, and return a short description of it.

    Raises:
        InvariantError: the response breaks an invariant.
    """
    if code not in (200, 400, 413, 422):
        raise InvariantError(f"HTTP {code}")
    reply_tree = _decode_reply(reply)
    if code != 200:
        if (reply_tree["kind"], reply_tree["status"], reply_tree["code"]) != ("Status", "Failure", code):
            raise InvariantError(f"not a Status with code {code}: {reply_tree}")
        return f"HTTP {code}"
    verdict = _CHECKS[_KINDS[path]](reply_tree)
    if verdict == VERDICT:
        _check_review(path, body, reply_tree)
    return verdict


def _decode_reply(reply: bytes) -> Any:
    try:
        return read(reply)
    except ValueError as error:
        raise InvariantError(f"invalid JSON in the response ({error})") from None


def _check_admission(reply_tree: Any) -> str:
    response = reply_tree["response"]
    if response["allowed"] is not False:
        raise InvariantError("allowed")
    status = response["status"]
    if not (response["uid"] and status["message"] and 400 <= status["code"] < 500):
        raise InvariantError(f"incomplete denial: {response}")
    return VERDICT if status["message"] == VERDICT else f"denied as malformed, {status['code']}"


def _check_access(reply_tree: Any) -> str:
    if reply_tree["status"] != {"allowed": False, "denied": True, "reason": VERDICT}:
        raise InvariantError(f"not denied: {reply_tree}")
    return VERDICT


def _check_token(reply_tree: Any) -> str:
    if reply_tree["status"] != {"authenticated": False, "error": VERDICT}:
        raise InvariantError(f"not rejected: {reply_tree}")
    return VERDICT


def _check_image(reply_tree: Any) -> str:
    if reply_tree["status"] != {"allowed": False, "reason": VERDICT}:
        raise InvariantError(f"not denied: {reply_tree}")
    return VERDICT


def _check_audit(reply_tree: Any) -> str:
    if reply_tree != {}:
        raise InvariantError(f"not empty: {reply_tree}")
    return VERDICT


_CHECKS: Mapping[str, Any] = {
    "AdmissionReview": _check_admission,
    "SubjectAccessReview": _check_access,
    "TokenReview": _check_token,
    "ImageReview": _check_image,
    "EventList": _check_audit,
}


def _check_review(path: str, body: bytes, reply_tree: Any) -> None:
    """Check that the body of a denied review is unambiguous, and that the response belongs to it."""
    try:
        review = read(body)
    except ValueError as error:
        raise InvariantError(f"a policy was called for an invalid body: {error}") from None
    if review["kind"] != _KINDS[path]:
        raise InvariantError(f"a policy was called for a {review['kind']}")
    if path == "/audit":
        return
    if (reply_tree["kind"], reply_tree["apiVersion"]) != (review["kind"], review["apiVersion"]):
        raise InvariantError(f"another kind or version: {reply_tree}")
    if "response" in reply_tree and reply_tree["response"]["uid"] != review["request"]["uid"]:
        raise InvariantError(f"another uid: {reply_tree}")


def read(body: bytes) -> Any:
    """Decode a body with a second decoder, independent of the server's, slow and simple.

    Raises:
        ValueError: the body is invalid.
    """
    try:
        tree = json.loads(
            body.decode(),
            object_pairs_hook=_unique_members,
            parse_int=_parse_integer,
            parse_float=_parse_float,
            parse_constant=_parse_integer,
        )
    except RecursionError:
        raise ValueError("too deep") from None
    _check_text(tree)
    _check_depth(tree)
    return tree


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("duplicate key")
    return members


def _parse_integer(text: str) -> int:
    number = int(text) if len(text) < 30 else 2**64
    if not -(2**63) <= number < 2**63:
        raise ValueError("integer out of range")
    return number


def _parse_float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError("float out of range")
    return number


def _check_text(tree: Any) -> None:
    json.dumps(tree, ensure_ascii=False).encode()  # UnicodeEncodeError for a lone surrogate


def _check_depth(tree: Any) -> None:
    level = [tree]
    for _ in range(_DEPTH + 1):
        containers = [value for value in level if isinstance(value, dict | list)]
        level = [child for value in containers for child in (value.values() if isinstance(value, dict) else value)]
        if not containers:
            return
    raise ValueError("too deep")

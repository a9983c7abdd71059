"""What holds for every body, and policies with which it can be seen: they read all of a review, and deny it."""

import json
from collections.abc import Mapping
from math import isinf
from typing import Any

VERDICT = "seen and denied"
POLICIES = f'''\
from webhooks import *


def seen(review):
    _ = review.object, review.old_object, review.user, review.options
    return Deny("{VERDICT}")


mutates = mutating("*/*", operations=["*"], name="mutates")(seen)
validates = validating("*/*", operations=["*"], name="validates")(seen)


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


class BrokenLawError(AssertionError):
    """An answer that no body may get."""


def check(path: str, body: bytes, code: int, reply: bytes) -> str:
    """Check an answer against all the laws; what it was, in a few words.

    Raises:
        BrokenLawError: it is against one of them.
    """
    if code not in (200, 400, 413, 422):
        raise BrokenLawError(f"HTTP {code}")
    answer = _strict(reply)
    if code != 200:
        if (answer["kind"], answer["status"], answer["code"]) != ("Status", "Failure", code):
            raise BrokenLawError(f"no Status of code {code}: {answer}")
        return f"HTTP {code}"
    verdict = _ANSWERS[_KINDS[path]](answer)
    if verdict == VERDICT:
        _check_was_a_review(path, body, answer)
    return verdict


def _strict(reply: bytes) -> Any:
    try:
        return read(reply)
    except ValueError as error:
        raise BrokenLawError(f"an answer that is no JSON ({error})") from None


def _admission(answer: Any) -> str:
    response = answer["response"]
    if response["allowed"] is not False:
        raise BrokenLawError("allowed")
    status = response["status"]
    if not (response["uid"] and status["message"] and 400 <= status["code"] < 500):
        raise BrokenLawError(f"an odd denial: {response}")
    return VERDICT if status["message"] == VERDICT else f"denied as malformed, {status['code']}"


def _access(answer: Any) -> str:
    if answer["status"] != {"allowed": False, "denied": True, "reason": VERDICT}:
        raise BrokenLawError(f"not denied: {answer}")
    return VERDICT


def _token(answer: Any) -> str:
    if answer["status"] != {"authenticated": False, "error": VERDICT}:
        raise BrokenLawError(f"not refused: {answer}")
    return VERDICT


def _image(answer: Any) -> str:
    if answer["status"] != {"allowed": False, "reason": VERDICT}:
        raise BrokenLawError(f"not denied: {answer}")
    return VERDICT


def _audit(answer: Any) -> str:
    if answer != {}:
        raise BrokenLawError(f"not empty: {answer}")
    return VERDICT


_ANSWERS: Mapping[str, Any] = {
    "AdmissionReview": _admission,
    "SubjectAccessReview": _access,
    "TokenReview": _token,
    "ImageReview": _image,
    "EventList": _audit,
}


def _check_was_a_review(path: str, body: bytes, answer: Any) -> None:
    """That what a policy saw means the same to every reader, and that the answer is the answer to it."""
    try:
        review = read(body)
    except ValueError as error:
        raise BrokenLawError(f"a policy was shown a body that is refused: {error}") from None
    if review["kind"] != _KINDS[path]:
        raise BrokenLawError(f"a policy was shown a {review['kind']}")
    if path == "/audit":
        return
    if (answer["kind"], answer["apiVersion"]) != (review["kind"], review["apiVersion"]):
        raise BrokenLawError(f"an answer of another kind or version: {answer}")
    if "response" in answer and answer["response"]["uid"] != review["request"]["uid"]:
        raise BrokenLawError(f"an answer to somebody else: {answer}")


def read(body: bytes) -> Any:
    """A second reader, which shares nothing with the server's: slow, and each rule stands for itself.

    Raises:
        ValueError: the body is not what it must be.
    """
    try:
        tree = json.loads(
            body.decode(),
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_integer,
        )
    except RecursionError:
        raise ValueError("too deep") from None
    _check_text(tree)
    _check_depth(tree)
    return tree


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key comes twice")
    return members


def _integer(text: str) -> int:
    number = int(text) if len(text) < 30 else 2**64
    if not -(2**63) <= number < 2**63:
        raise ValueError("an integer that is too large")
    return number


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError("a number that is too large")
    return number


def _check_text(tree: Any) -> None:
    json.dumps(tree, ensure_ascii=False).encode()  # a lone surrogate is no text: UnicodeEncodeError


def _check_depth(tree: Any) -> None:
    level = [tree]
    for _ in range(_DEPTH + 1):
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [child for each in containers for child in (each.values() if isinstance(each, dict) else each)]
        if not containers:
            return
    raise ValueError("too deep")

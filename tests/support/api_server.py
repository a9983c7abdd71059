"""Reads responses as an API server does. An assertion fails for a response that an API server would not accept."""

import base64
import json
import re
from typing import Any

import jsonpatch

Json = dict[str, Any]

_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def accept_admission(sent: Json, reply: bytes, *, mutating: bool) -> Json:
    """Return the response of an AdmissionReview, with the patched object as its `object`."""
    response = _accept(sent, reply)["response"]
    request = sent["request"]
    assert response["uid"] == request["uid"]
    assert type(response["allowed"]) is bool
    assert ("patch" in response) == ("patchType" in response)
    response["object"] = request.get("object")
    if "patch" in response:
        assert mutating
        assert response["allowed"]
        assert request["operation"] != "DELETE"
        assert response["patchType"] == "JSONPatch"
        response["operations"] = json.loads(base64.b64decode(response["patch"], validate=True))
        response["object"] = jsonpatch.apply_patch(request["object"], response["operations"])
    if not response["allowed"]:
        status = response["status"]
        assert 400 <= status["code"] <= 599
        assert status["message"]
        assert re.fullmatch("[A-Z][A-Za-z]+", status["reason"])
    _accept_annotations(response)
    _accept_warnings(response.get("warnings", []))
    return response


def accept_authorization(sent: Json, reply: bytes) -> Json:
    status = _accept(sent, reply)["status"]
    assert type(status["allowed"]) is bool
    assert type(status.get("denied", False)) is bool
    assert not (status["allowed"] and status.get("denied"))
    assert isinstance(status.get("reason", ""), str)
    assert isinstance(status.get("evaluationError", ""), str)
    return status


def accept_authentication(sent: Json, reply: bytes) -> Json:
    status = _accept(sent, reply)["status"]
    audiences = sent["spec"].get("audiences")
    assert type(status["authenticated"]) is bool
    if not status["authenticated"]:
        assert "user" not in status
        assert isinstance(status.get("error", ""), str)
        return status
    assert "error" not in status
    user = status["user"]
    assert user["username"]
    assert all(isinstance(group, str) for group in user.get("groups", []))
    assert all(isinstance(value, str) for values in user.get("extra", {}).values() for value in values)
    if audiences and "audiences" in status:
        assert set(status["audiences"]) & set(audiences)
    return status


def accept_images(sent: Json, reply: bytes) -> Json:
    status = _accept(sent, reply)["status"]
    assert type(status["allowed"]) is bool
    assert bool(status.get("reason")) != status["allowed"]
    _accept_annotations(status)
    return status


def _accept(sent: Json, reply: bytes) -> Json:
    body: Json = json.loads(reply)
    assert (body["apiVersion"], body["kind"]) == (sent["apiVersion"], sent["kind"])
    return body


def _accept_annotations(response: Json) -> None:
    for key, value in response.get("auditAnnotations", {}).items():
        assert isinstance(value, str)
        assert len(key) <= 63
        assert _QUALIFIED_NAME.fullmatch(key)


def _accept_warnings(warnings: list[str]) -> None:
    assert len(set(warnings)) == len(warnings)
    assert not any(_CONTROL.search(warning) or not warning for warning in warnings)
    assert sum(map(len, warnings)) <= 4096

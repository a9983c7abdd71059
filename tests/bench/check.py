"""Checks that a server responds correctly before it is measured."""

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonpatch

from tests.bench import bodies
from tests.bench.servers import BenchError, Server

LABEL = "admission.example.com/checked"


def check(server: Server, allowed: Iterable[Path]) -> None:
    """Post reviews that the server must allow, and one that it must deny."""
    for path in allowed:
        body = path.read_bytes()
        _check_allowed(server, json.loads(body)["request"], server.post(body)["response"])
    if server.candidate.denies:
        response = server.post(bodies.denied_review())["response"]
        if response["allowed"]:
            raise BenchError(f"{server.candidate.name} allowed a foreign image: {response}")


def check_one_field(server: Server, paths: dict[str, str], body: bytes) -> None:
    """Check that two of the policies change one field of the object, and the others none."""
    for name, path in paths.items():
        response = server.post(body, path)["response"]
        patch = json.loads(base64.b64decode(response.get("patch") or "W10="))
        changed = [operation["path"] for operation in patch]
        if not response["allowed"] or changed != (["/spec/replicas"] if name in ("patch", "replace") else []):
            raise BenchError(f"{server.candidate.name}, policy {name}, responded {response}")


def _check_allowed(server: Server, request: dict[str, Any], response: dict[str, Any]) -> None:
    expects = server.candidate.expects
    if expects == "any":
        return
    expected = request["object"]
    patched = expected
    if expects == "patch":
        expected = json.loads(json.dumps(expected))
        expected["metadata"]["labels"][LABEL] = "true"
        patched = jsonpatch.apply_patch(patched, base64.b64decode(response.get("patch") or "W10="))
    is_correct = response["allowed"] is True and response["uid"] == request["uid"] and patched == expected
    if not is_correct or ("patch" in response) != (expects == "patch"):
        raise BenchError(f"{server.candidate.name} responded {response}")

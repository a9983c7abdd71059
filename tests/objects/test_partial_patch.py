"""Which parts of an object are decoded for JSON Patch operations, and when the whole object must be."""

from typing import Any

import msgspec
import pytest

from webhooks.objects import json_patch
from webhooks.objects.partial_patch import decode_partially

from ..support.builders import Json, encode_body, pod

CONTAINERS = [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:2"}]
RAW = encode_body(pod(labels={"a": "b"}, containers=CONTAINERS)).strip()


def replacing(path: str, value: Any = "x") -> Json:
    return {"op": "replace", "path": path, "value": value}


def decoded(tree: Any) -> Any:
    """Return a tree without its raw parts."""
    if type(tree) is dict:
        return {key: decoded(value) for key, value in tree.items() if type(value) is not msgspec.Raw}
    if type(tree) is list:
        return [decoded(value) for value in tree if type(value) is not msgspec.Raw]
    return tree


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/metadata/name", {"metadata": {"name": "web"}}),
        ("/metadata/labels", {"metadata": {"labels": {"a": "b"}}}),
        ("/spec/containers/1/image", {"spec": {"containers": [{"image": "side:2"}]}}),
        ("/spec/containers/-", {"spec": {"containers": []}}),
        ("/spec/none/of/it", {"spec": {}}),
        ("/kind/of/nothing", {"kind": "Pod"}),
        ("/none", {}),
    ],
)
def test_only_values_on_the_path_are_decoded(path: str, expected: Json) -> None:
    assert decoded(decode_partially(RAW, [replacing(path)])) == expected


def test_raw_parts_are_encoded_unchanged() -> None:
    tree = decode_partially(RAW, [replacing("/metadata/name", "other")])
    changed = json_patch.apply(tree, [replacing("/metadata/name", "other")])
    assert changed["metadata"]["name"] == "other"
    assert msgspec.json.encode(changed) == RAW.replace(b'"web"', b'"other"', 1)


REPLACE_NAME = [replacing("/metadata/name")]


@pytest.mark.parametrize(
    ("raw", "operations"),
    [
        (b'{"metadata":{"name":"a","name":"b"}}', REPLACE_NAME),
        (b'{"metadata":{"name":{"a":1,"a":2}}}', REPLACE_NAME),
        (b'{"metadata":{"name":"a"},"metadata":{}}', REPLACE_NAME),
        (b'{"metadata":{"name": "a"}}', REPLACE_NAME),
        (b'{"metadata":{"\\u006eame":"a"}}', REPLACE_NAME),
        (b'{"metadata":{"name":1e999}}', REPLACE_NAME),
        (b'{"metadata":{"name":9223372036854775808}}', REPLACE_NAME),
        (b'{"metadata":{"name":"a"},"spec":"' + b"x" * 300_000 + b'"}', REPLACE_NAME),
        (RAW, [{"op": "move", "from": "/spec", "path": "/metadata"}]),
        (RAW, [{"op": "copy", "from": "/spec", "path": "/metadata"}]),
        (RAW, [replacing("/metadata/name"), replacing("/metadata", {})]),
        (RAW, [replacing("metadata")]),
        (RAW, [replacing("/~2")]),
        (RAW, [{"op": "add", "value": 1}]),
        (RAW, [{"op": ["add"], "path": "/a", "value": 1}]),
        (RAW, [{"op": "add", "path": ["/a"], "value": 1}]),
        (RAW, [{"op": "add", "path": ["/"], "value": 1}]),
        (RAW, [replacing("", {})]),
        (b'{"metadata":{"name":' + b"[" * 197 + b"]" * 197 + b"}}", REPLACE_NAME),
        (RAW, ["add"]),
    ],
    ids=[
        "a duplicate key at the end of the path",
        "a duplicate key in the value",
        "a duplicate key at the top",
        "a space",
        "a needless escape",
        "an infinite number",
        "a large integer",
        "too large",
        "move",
        "copy",
        "a value that contains the path of another",
        "an invalid pointer",
        "a bad escape",
        "no path",
        "no op",
        "a path that is not a string",
        "a path that is a list",
        "the whole",
        "too deep",
        "no operation",
    ],
)
def test_other_objects_must_be_decoded_completely(raw: bytes, operations: list[Any]) -> None:
    assert decode_partially(raw, operations) is None


@pytest.mark.parametrize("index", ["9" * 16, "9" * 5000, "\u0661", "-1", "+1", " 1", "1.0"])
def test_invalid_array_indices(index: str) -> None:
    assert decoded(decode_partially(RAW, [replacing(f"/spec/containers/{index}/image")])) == {
        "spec": {"containers": []}
    }

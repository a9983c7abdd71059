"""What of an object is decoded to apply JSON Patch operations, and when all of it has to be."""

from typing import Any

import msgspec
import pytest

from webhooks.objects import json_patch
from webhooks.objects.partial_patch import decode_partially

from ..support.builders import Json, pod, written

CONTAINERS = [{"name": "app", "image": "app:1"}, {"name": "side", "image": "side:2"}]
RAW = written(pod(labels={"a": "b"}, containers=CONTAINERS)).strip()


def replacing(path: str, value: Any = "x") -> Json:
    return {"op": "replace", "path": path, "value": value}


def decoded(tree: Any) -> Any:
    """A tree without what is still raw in it."""
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
def test_only_what_is_led_to_is_decoded(path: str, expected: Json) -> None:
    assert decoded(decode_partially(RAW, [replacing(path)])) == expected


def test_the_rest_is_shared_with_the_result() -> None:
    tree = decode_partially(RAW, [replacing("/metadata/name", "other")])
    changed = json_patch.apply(tree, [replacing("/metadata/name", "other")])
    assert changed["metadata"]["name"] == "other"
    assert msgspec.json.encode(changed) == RAW.replace(b'"web"', b'"other"', 1)


ON_THE_WAY = [replacing("/metadata/name")]


@pytest.mark.parametrize(
    ("raw", "operations"),
    [
        (b'{"metadata":{"name":"a","name":"b"}}', ON_THE_WAY),
        (b'{"metadata":{"name":{"a":1,"a":2}}}', ON_THE_WAY),
        (b'{"metadata":{"name":"a"},"metadata":{}}', ON_THE_WAY),
        (b'{"metadata":{"name": "a"}}', ON_THE_WAY),
        (b'{"metadata":{"\\u006eame":"a"}}', ON_THE_WAY),
        (b'{"metadata":{"name":1e999}}', ON_THE_WAY),
        (b'{"metadata":{"name":9223372036854775808}}', ON_THE_WAY),
        (b'{"metadata":{"name":"a"},"spec":"' + b"x" * 300_000 + b'"}', ON_THE_WAY),
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
        (b'{"metadata":{"name":' + b"[" * 197 + b"]" * 197 + b"}}", ON_THE_WAY),
        (RAW, ["add"]),
    ],
    ids=[
        "a key twice on the way",
        "a key twice at the end",
        "a key twice at the top",
        "a space",
        "a needless escape",
        "no number",
        "a large integer",
        "too large",
        "move",
        "copy",
        "into what another leads through",
        "no pointer",
        "a bad escape",
        "no path",
        "no op",
        "no text for a path",
        "another sort of path",
        "the whole",
        "too deep",
        "no operation",
    ],
)
def test_what_is_not_sure_is_left_to_the_whole(raw: bytes, operations: list[Any]) -> None:
    assert decode_partially(raw, operations) is None


@pytest.mark.parametrize("index", ["9" * 16, "9" * 5000, "\u0661", "-1", "+1", " 1", "1.0"])
def test_numbers_that_lead_nowhere(index: str) -> None:
    assert decoded(decode_partially(RAW, [replacing(f"/spec/containers/{index}/image")])) == {
        "spec": {"containers": []}
    }

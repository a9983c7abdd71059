from typing import Any

import pytest

from webhooks import field, items
from webhooks.errors import MalformedReview
from webhooks.objects.copy_on_write import copy_on_write

OBJECT = {
    "flag": False,
    "number": 0,
    "text": "",
    "null": None,
    "list": ["a", "b"],
    "deep": {"empty": {}, "null": None, "list": [{"name": "a"}], "number": -5},
}


@pytest.mark.parametrize(
    ("path", "kind", "value"),
    [
        ("flag", bool, False),
        ("number", int, 0),
        ("text", str, ""),
        ("list", list, ["a", "b"]),
        ("deep.empty", dict, {}),
        ("deep.number", int, -5),
        ("deep", dict, OBJECT["deep"]),
    ],
)
@pytest.mark.parametrize("of", [OBJECT, copy_on_write(OBJECT)], ids=["plain", "draft"])
def test_a_field_is_returned(of: Any, path: str, kind: Any, value: Any) -> None:
    assert field(of, path, kind) == value


@pytest.mark.parametrize(
    "path", ["absent", "null", "absent.deeper", "null.deeper", "deep.absent.deeper", "deep.null.x"]
)
@pytest.mark.parametrize("kind", [bool, dict, int, list, str])
def test_an_absent_field_is_none(path: str, kind: Any) -> None:
    assert field(OBJECT, path, kind) is None
    assert list(items(OBJECT, path, kind)) == []
    assert field(None, path, kind) is None


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("flag", int, "flag must be an integer"),
        ("number", bool, "number must be true or false"),
        ("number", str, "number must be a string"),
        ("text", dict, "text must be an object"),
        ("text", list, "text must be a list"),
        ("deep", list, "deep must be a list"),
        ("list", dict, "list must be an object"),
        ("list.deeper", str, "list must be an object"),
        ("text.deeper", str, "text must be an object"),
        ("flag.deeper", str, "flag must be an object"),
        ("deep.number.deeper.still", str, "deep.number must be an object"),
    ],
)
def test_a_field_of_another_type_is_malformed(path: str, kind: Any, message: str) -> None:
    with pytest.raises(MalformedReview) as caught:
        field(OBJECT, path, kind)
    assert (str(caught.value), caught.value.code) == (message, 422)


@pytest.mark.parametrize("of", ["", "text", [], 5, True])
def test_only_objects_have_fields(of: Any) -> None:
    with pytest.raises(MalformedReview, match=r"the parent of a\.b must be an object"):
        field(of, "a.b", str)


def test_the_items_of_a_list_are_returned() -> None:
    assert list(items(OBJECT, "list", str)) == ["a", "b"]
    assert list(items(copy_on_write(OBJECT), "deep.list", dict)) == [{"name": "a"}]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"a": "text"}, "a must be a list"),
        ({"a": {}}, "a must be a list"),
        ({"a": [1, "b"]}, r"a\[1\] must be an integer"),
        ({"a": [1, True]}, r"a\[1\] must be an integer"),
        ({"a": [None]}, r"a\[0\] must be an integer"),
    ],
)
def test_a_list_with_items_of_another_type_is_malformed(of: Any, message: str) -> None:
    with pytest.raises(MalformedReview, match=message):
        list(items(of, "a", int))

"""Tests of the validation of plain data, and of its error messages."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationInfo, field_validator

from webhooks.config.validation import (
    FieldError,
    Model,
    check,
    field_error,
    format_path,
    format_value,
    one_of,
    supported_values,
)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Item(Model):
    name: Annotated[str, Field(min_length=1, max_length=8, pattern="^[a-z]*$")] = "a"
    burst: Annotated[int, Field(gt=0, le=100)] = 1
    cache_size: Annotated[int, Field(ge=0)] = 0
    weight: Annotated[float, Field(gt=1, lt=9)] = 3
    height: Annotated[int, Field(ge=2)] = 2


class Box(Model):
    items: Annotated[list[Item], Field(min_length=1, max_length=3)]
    more: Annotated[dict[str, Item], Field(default_factory=dict)]
    pair: tuple[Item, int] | None = None
    mode: Literal["on", "off"] = "on"
    version: Annotated[str, one_of({"v2", "v1"})] = "v1"
    color: Color = Color.RED
    flag: bool = False
    path: Path | None = None
    either: int | str = 0
    words: Annotated[tuple[str, ...], Field(min_length=2)] = ("a", "b")

    @field_validator("flag")
    @classmethod
    def _flag(cls, flag: bool, info: ValidationInfo) -> bool:
        if flag and info.data.get("mode") == "off":
            raise field_error("Forbidden", "only with mode on")
        if flag and info.context == "others":
            raise ValueError("not for others")
        return flag

    @field_validator("path")
    @classmethod
    def _path(cls, path: Path | None) -> Path | None:
        if path == Path("secret"):
            raise field_error("Invalid value", "holds a password", value="")
        if path == Path("shown"):
            raise field_error("Duplicate value", value='"other"')
        return path


GOOD = {"items": [{}]}


def lines(tree: Any, context: Any = None) -> list[str]:
    errors = check(tree, Box, context)
    assert isinstance(errors, list)
    return [str(error) for error in errors]


def test_valid_data() -> None:
    tree = {
        "items": [{"name": "x", "burst": 5, "cacheSize": 7, "weight": 4}],
        "more": {"a": {}},
        "pair": [{}, 2],
        "mode": "off",
        "version": "v2",
        "color": "blue",
        "path": "/x",
        "either": "y",
    }
    box = check(tree, Box)
    assert isinstance(box, Box)
    assert box.items == [Item(name="x", burst=5, cacheSize=7, weight=4.0)]
    assert (box.pair, box.color, box.path, box.either) == ((Item(), 2), Color.BLUE, Path("/x"), "y")


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ([], "Invalid value: a list: must be a mapping"),
        (None, "Invalid value: null: must be a mapping"),
        ({}, "items: Required value"),
        ({"items": []}, "items: Required value: must not be empty"),
        ({"items": {}}, "items: Invalid value: a mapping: must be a list"),
        ({"items": "x"}, 'items: Invalid value: "x": must be a list'),
        ({"items": [1]}, "items[0]: Invalid value: 1: must be a mapping"),
        ({"items": [{}] * 4}, "items: Too many: 4: must have at most 3"),
        ({"items": [{}, {"burst": 0}]}, "items[1].burst: Invalid value: 0: must be positive"),
        ({"items": [{"burst": 101}]}, "items[0].burst: Invalid value: 101: must be less than or equal to 100"),
        ({"items": [{"burst": 2**70}]}, f"items[0].burst: Invalid value: {2**70}: must be less than or equal to 100"),
        ({"items": [{"burst": 1.0}]}, "items[0].burst: Invalid value: 1.0: must be an integer"),
        ({"items": [{"burst": 1.5}]}, "items[0].burst: Invalid value: 1.5: must be an integer"),
        ({"items": [{"burst": True}]}, "items[0].burst: Invalid value: true: must be an integer"),
        ({"items": [{"burst": "1"}]}, 'items[0].burst: Invalid value: "1": must be an integer'),
        ({"items": [{"cacheSize": -1}]}, "items[0].cacheSize: Invalid value: -1: must not be negative"),
        ({"items": [{"weight": "x"}]}, 'items[0].weight: Invalid value: "x": must be a number'),
        ({"items": [{"weight": 1}]}, "items[0].weight: Invalid value: 1: must be greater than 1.0"),
        ({"items": [{"height": 1}]}, "items[0].height: Invalid value: 1: must be greater than or equal to 2"),
        ({"items": [{"weight": 9}]}, "items[0].weight: Invalid value: 9: must be less than 9.0"),
        ({"items": [{"name": ""}]}, "items[0].name: Required value: must not be empty"),
        ({"items": [{"name": "a" * 9}]}, 'items[0].name: Invalid value: "aaaaaaaaa": must have at most 8 characters'),
        ({"items": [{"name": "A"}]}, 'items[0].name: Invalid value: "A": must match ^[a-z]*$'),
        ({"items": [{"name": 1}]}, "items[0].name: Invalid value: 1: must be a string"),
        ({**GOOD, "more": []}, "more: Invalid value: a list: must be a mapping"),
        ({**GOOD, "more": {"a": {"burst": 0}}}, "more.a.burst: Invalid value: 0: must be positive"),
        ({**GOOD, "more": {"a.b": {"burst": 0}}}, "more[a.b].burst: Invalid value: 0: must be positive"),
        ({**GOOD, "pair": [{}, "x"]}, 'pair[1]: Invalid value: "x": must be an integer'),
        ({**GOOD, "mode": "no"}, 'mode: Unsupported value: "no": supported values: "on", "off"'),
        ({**GOOD, "mode": 1}, 'mode: Unsupported value: 1: supported values: "on", "off"'),
        ({**GOOD, "version": "v3"}, 'version: Unsupported value: "v3": supported values: "v1", "v2"'),
        ({**GOOD, "version": 1}, "version: Invalid value: 1: must be a string"),
        ({**GOOD, "color": "green"}, 'color: Unsupported value: "green": supported values: "red", "blue"'),
        ({**GOOD, "flag": "yes"}, 'flag: Invalid value: "yes": must be true or false'),
        ({**GOOD, "flag": 1}, "flag: Invalid value: 1: must be true or false"),
        ({**GOOD, "mode": "off", "flag": True}, "flag: Forbidden: only with mode on"),
        ({**GOOD, "path": "secret"}, "path: Invalid value: holds a password"),
        ({**GOOD, "path": "shown"}, 'path: Duplicate value: "other"'),
        ({**GOOD, "path": 1}, "path: Invalid value: 1: must be a string"),
        ({**GOOD, "words": ["a"]}, "words: Invalid value: a list: must have at least 2"),
    ],
)
def test_errors(tree: Any, line: str) -> None:
    assert lines(tree) == [line]


def test_a_context_for_validators() -> None:
    tree = {**GOOD, "flag": True}
    assert lines(tree, "others") == ["flag: Invalid value: true: not for others"]
    assert isinstance(check(tree, Box, "friends"), Box)


def test_alternatives() -> None:
    found = lines({**GOOD, "either": []})
    assert found == [f"either: Invalid value: a list: must be {what}" for what in ("an integer", "a string")]


def test_all_errors_are_reported_at_once() -> None:
    item = {"name": 1, "burst": 0, "cachesize": 1}
    assert lines({"items": [item, item, 5], "mode": 1, "flag": 1, "x": 1}) == [
        *(
            f"items[{number}].{what}"
            for number in (0, 1)
            for what in (
                "name: Invalid value: 1: must be a string",
                "burst: Invalid value: 0: must be positive",
                "cachesize: Forbidden: unknown field; did you mean cacheSize?",
            )
        ),
        "items[2]: Invalid value: 5: must be a mapping",
        'mode: Unsupported value: 1: supported values: "on", "off"',
        "flag: Invalid value: 1: must be true or false",
        "x: Forbidden: unknown field",
    ]


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"itmes": 1}, "itmes: Forbidden: unknown field; did you mean items?"),
        ({"items": [{"brust": 1}]}, "items[0].brust: Forbidden: unknown field; did you mean burst?"),
        ({"items": [{"cache_size": 1}]}, "items[0].cache_size: Forbidden: unknown field; did you mean cacheSize?"),
        ({"items": [{"itmes": 1}]}, "items[0].itmes: Forbidden: unknown field"),
        ({"more": {"items": {"brust": 1}}}, "more.items.brust: Forbidden: unknown field; did you mean burst?"),
        ({"pair": [{"brust": 1}, 2]}, "pair[0].brust: Forbidden: unknown field; did you mean burst?"),
        ({"token": "secret"}, "token: Forbidden: unknown field"),
        ({"brust": None}, "brust: Forbidden: unknown field"),
        ({"": 1}, "[]: Forbidden: unknown field"),
        ({"a.b": 1}, "[a.b]: Forbidden: unknown field"),
    ],
)
def test_unknown_fields(tree: Any, line: str) -> None:
    assert lines({**GOOD, **tree}) == [line]


@pytest.mark.parametrize(
    "tree",
    [
        {"items": [{"burst": None, "cacheSize": None}]},
        {**GOOD, "more": None, "pair": None, "path": None},
        {**GOOD, "more": {"a": {"burst": None}}},
    ],
)
def test_null_is_an_absent_field(tree: Any) -> None:
    assert check(tree, Box) == Box(items=[Item()], more=dict.fromkeys(tree.get("more") or (), Item()))


def test_null_in_required_fields() -> None:
    assert lines({"items": None}) == ["items: Required value"]
    assert lines({"items": [None]}) == ["items[0]: Invalid value: null: must be a mapping"]
    assert lines({**GOOD, "more": {"a": None}}) == ["more.a: Invalid value: null: must be a mapping"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("a",), "a"),
        (("a", 0, 1, "b-c_D"), "a[0][1].b-c_D"),
        ((0, "a"), "[0].a"),
        (("a", "b.c"), "a[b.c]"),
        (("a", "\n]"), "a[\\n]]"),
        (("a" * 99,), f"[{'a' * 64}...]"),
    ],
)
def test_paths(path: Any, text: str) -> None:
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ('"\\', '"\\"\\\\"'),
        ("é", '"é"'),
        ("a\nb\x1b\x85\u202e", '"a\\nb\\u001b\\u0085\\u202e"'),
        ("a" * 65, f'"{"a" * 64}..."'),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ({"a": "secret"}, "a mapping"),
        (["secret"], "a list"),
    ],
)
def test_values(value: Any, text: str) -> None:
    assert format_value(value) == text


def test_supported_values() -> None:
    assert supported_values(["a", "b c"]) == 'supported values: "a", "b c"'


def test_field_errors() -> None:
    assert str(FieldError(("a",), "Invalid value", "must be b", '"c"')) == 'a: Invalid value: "c": must be b'
    assert str(FieldError((), "Required value")) == "Required value"

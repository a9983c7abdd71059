"""Reading YAML manifests: conversion to JSON as in clients of the Kubernetes API, and rejected documents."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.kube.yaml_reader import MAX_DEPTH, YamlDocument, YamlError, resolve_scalar

BOMB = "a: &a [1]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n" for before, after in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, True) for word in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE")),
        *((word, False) for word in ("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE")),
        *((word, None) for word in ("~", "null", "Null", "NULL")),
        *((word, word) for word in ("yEs", "nULL", "yess", "100m", "1.5Gi", "1e", "0x", "0xg", "1.2.3", "+", ".")),
        *((word, word) for word in ("2026-01-01", "2026-01-01T00:00:00Z", "1:30", "190:20:30", "_1", "._5", "1e999")),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("0644", 420),
        ("-0644", -420),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0b101", -5),
        ("1_000", 1000),
        ("08", 8),
        ("1.0", 1),
        ("1e3", 1000),
        ("1E+3", 1000),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1.", 1),
        ("1.25", 1.25),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_scalars_without_quotes(text: str, value: Any) -> None:
    result = YamlDocument(f"a: {text}").value["a"]
    assert (type(result), result) == (type(value), value)
    assert YamlDocument(f"a: '{text}'").value["a"] == text
    assert YamlDocument(f"a: !!str {text}").value["a"] == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("---", None),
        ("%YAML 1.1\n--- {a: 1}\n...\n", {"a": 1}),
        ("on: 1\n2: 3\n1.5: 4\nno: 5\n'null': 6", {"true": 1, "2": 3, "1.5": 4, "false": 5, "null": 6}),
        ("a: &x {b: [1]}\nc: *x", {"a": {"b": [1]}, "c": {"b": [1]}}),
        ("a: {<<: {b: 1, c: 2}, b: 3}", {"a": {"b": 3, "c": 2}}),
        ("a: {<<: [{b: 1}, {b: 2, c: 2}]}", {"a": {"b": 1, "c": 2}}),
        ("'<<': {b: 1}", {"<<": {"b": 1}}),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
        (
            "a: !!int '5'\nb: !!float 1\nc: !!bool yes\nd: !!map {}\ne: !!seq []",
            {"a": 5, "b": 1, "c": True, "d": {}, "e": []},
        ),
    ],
)
def test_documents(text: str, value: Any) -> None:
    assert YamlDocument(text).value == value


def test_nothing_is_shared() -> None:
    value = YamlDocument("a: &x [1]\nb: *x").value
    assert value["a"] is not value["b"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3", 2, "duplicate key 'a'"),
        ("yes: 1\non: 2", 1, "duplicate key 'true'"),
        ("a:\n  b: 1\n  <<: {b: 2}", 2, "duplicate key 'b'"),
        ("a: {<<: 1}", 0, "merge key"),
        ("a: b: c", 0, "not YAML: mapping values are not allowed"),
        ("a: 1\n\tb: 2", 1, "not YAML: tabs are not allowed: indent with spaces"),
        ("a: @b", 0, "not YAML: while scanning"),
        ("a: *x", 0, "undefined alias"),
        ("a: \x07", 0, "not text"),
        ("a: 1\nb: .inf", 1, "not a number in JSON"),
        ("a: .NaN", 0, "not a number in JSON"),
        ("a: 18446744073709551616", 0, "more than 64 bits"),
        (f"a: {'9' * 5000}", 0, "more than 64 bits"),
        ("a: !!binary aGk=", 0, "binary"),
        ("a: !!int x", 0, "int"),
        ("a: !other {}", 0, "!other"),
        ("? [a]\n: 1", 0, "a key must be a string"),
        ("~: 1", 0, "a key must be a string"),
        ("&a [*a]", 0, "nested deeper"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), 0, "nested deeper"),
        ("[" * 100_000, 0, "nested deeper"),
        ("- " * 100_000, 0, "nested deeper"),
        ("{a: " * 100_000, 0, "nested deeper"),
        (BOMB, 0, "aliases repeat"),
    ],
)
def test_rejected_documents(text: str, line: int, message: str) -> None:
    with pytest.raises(YamlError, match=message.replace("(", "\\(")) as raised:
        YamlDocument(text)
    assert raised.value.line == line


def test_the_maximum_depth() -> None:
    assert YamlDocument("[" * MAX_DEPTH + "]" * MAX_DEPTH).value


@given(st.text(alphabet="0123456789.eE+-_xobnyYsfaIN", min_size=1))
def test_every_scalar_has_a_value(text: str) -> None:
    assert isinstance(resolve_scalar(text), str | int | float | None)

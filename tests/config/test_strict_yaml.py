"""Tests of strict YAML: values, duplicate keys, unsupported features, and limits."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhooks.config import strict_yaml
from webhooks.config.document import Document
from webhooks.config.strict_yaml import MAX_DEPTH, MAX_SIZE, MAX_VALUES
from webhooks.errors import ConfigurationError

FILE = Path("limits.yaml")


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], ids=["libyaml", "Python"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers: the one in Python is used if libyaml is not available."""
    monkeypatch.setattr(strict_yaml, "_Loader", getattr(yaml, request.param))


def parse(text: str | bytes) -> Document:
    return strict_yaml.parse(text if isinstance(text, bytes) else text.encode(), FILE)


def error(text: str | bytes) -> str:
    with pytest.raises(ConfigurationError) as raised:
        _ = parse(text).tree
    return str(raised.value)


# Values.


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, b: [x, {c: d}]}", {"a": 1, "b": ["x", {"c": "d"}]}),
        ("a: 1\nb:\n- x\n- c: d\n", {"a": 1, "b": ["x", {"c": "d"}]}),
        ('{"a": 1, "b": ["x", {"c": "d"}]}', {"a": 1, "b": ["x", {"c": "d"}]}),
        ('{"a":1,"b":["x"]}', {"a": 1, "b": ["x"]}),
        ("\ufeffa: 1", {"a": 1}),
        ("--- {a: 1}\n...\n", {"a": 1}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("{}", {}),
        ("[]", []),
        ("text", "text"),
        ("{1: a, yes: b, null: c, 1.5: d}", {"1": "a", "yes": "b", "null": "c", "1.5": "d"}),
        ('"<<": a', {"<<": "a"}),
        ('"\\0\\u00e9\\u263A"', "\0\u00e9\u263a"),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert parse(text).tree == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        (str(2**70), 2**70),
        ("1.5", 1.5),
        ("-1.5e+3", -1500.0),
        ("1e3", 1000.0),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("Yes", "Yes"),
        ("on", "on"),
        ("y", "y"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("0o10", "0o10"),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        (".5", ".5"),
        ("5.", "5."),
        (".inf", ".inf"),
        (".NaN", ".NaN"),
        ("50ms", "50ms"),
        ("=", "="),
        ("'1'", "1"),
        ('"true"', "true"),
        ("''", ""),
    ],
)
def test_plain_scalars(text: str, value: Any) -> None:
    result = parse(f"a: {text}").tree["a"]
    assert (result, type(result)) == (value, type(value))


texts = st.text("ab: -#'\"é\n", max_size=9)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@given(json_values.filter(lambda value: value is not None))
def test_json_is_read_as_json(value: Any) -> None:
    assert parse(json.dumps(value)).tree == value
    assert parse(json.dumps(value, indent=2, ensure_ascii=False)).tree == value


def accept_or_reject(raw: bytes) -> None:
    """Only a ConfigurationError may be raised."""
    with contextlib.suppress(ConfigurationError):
        _ = parse(raw).tree


@given(st.binary())
def test_bytes_are_accept_or_rejectd(raw: bytes) -> None:
    accept_or_reject(raw)


@given(
    st.lists(st.sampled_from(["a", "- ", ": ", "\n", "  ", "&x ", "*x", "[", "]", "{", "}", ", ", "? ", "'", "!!s "]))
)
def test_texts_are_accept_or_rejectd(parts: list[str]) -> None:
    accept_or_reject("".join(parts).encode())


def test_aliases() -> None:
    document = parse("a: &x {b: [1, 2]}\nc: *x\nd: &y text\ne: [*y, *x]\n")
    x = {"b": [1, 2]}
    assert document.tree == {"a": x, "c": x, "d": "text", "e": ["text", x]}
    assert document.place(("c",)) == (2, 4)
    assert document.place(("c", "b", 1)) == (1, 15)


# Duplicate keys.


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x: 1\ny: 2\nx: 1\n", ['3:1: x: Duplicate value: "x": the key is in line 1 already']),
        ("{\"x\": 1, 'x': 1, x: 1}", ['1:10: x: Duplicate value: "x": the key is in line 1 already'] * 2),
        (
            "a:\n- b: {c: 1, c: 2}\n- d: 1\n  d: 1\n",
            [
                '2:13: a[0].b.c: Duplicate value: "c": the key is in line 2 already',
                '4:3: a[1].d: Duplicate value: "d": the key is in line 3 already',
            ],
        ),
        ("{a.b: 1, 'a.b': 2}", ['1:10: [a.b]: Duplicate value: "a.b": the key is in line 1 already']),
    ],
)
def test_duplicate_keys(text: str, lines: list[str]) -> None:
    found = error(text).splitlines()
    assert len(found) == len(lines)
    assert found[0] == f"limits.yaml:{lines[0]}"
    assert [line.partition(" ")[2] for line in found] == [line.partition(" ")[2] for line in lines]


# Unsupported features, syntax errors and limits.


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": the file is empty"),
        ("# a comment\n", ": the file is empty"),
        ("---\n", ": the file is empty"),
        ("null", ": the file is empty"),
        ("a: 1\n---\nb: 1\n", ":2:1: only one document is allowed in a file"),
        ("a: [1\nb: 2\n", ":2:2: not YAML: "),
        ("a: {b: 1]", ":1:9: not YAML: "),
        ("a: b: c", ":1:5: not YAML: "),
        ("a: 'b", ":1:6: not YAML: "),
        ("a:\n\tb: 1\n", ":2:1: not YAML: tabs are not allowed: indent with spaces"),
        ("a: @b", ":1:4: not YAML: "),
        ("a: *nobody", ":1:4: the anchor &nobody is not defined"),
        ("a: &x [*x]", ":1:8: the anchor &x is not defined, or contains this alias"),
        ("a: &x 1\n*x : 2", ":2:1: a key must be a string"),
        ("? [a]\n: 1", ":1:3: a key must be a string"),
        ("{a: 1}: 1", ":1:1: a key must be a string"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", ":3:3: merge keys (<<) are not supported"),
        ("a: !!str 1", ':1:4: tags are not supported: "tag:yaml.org,2002:str"'),
        ("a: ! 1", ':1:4: tags are not supported: "!"'),
        ("!!python/object/apply:os.system [ls]", ":1:1: tags are not supported: "),
        ("a: !!map {}", ":1:4: tags are not supported: "),
        ("a: 1e999", ":1:4: the number is out of range"),
        ("a: " + "9" * 5000, ":1:4: the number is out of range"),
        (b"a: 1\nb: \xe9\n", ":2:4: not UTF-8: the byte 0xe9"),
        (b"\xef\xbb\xbfa: 1\n\xc3\xa9: \xff\n", ":2:4: not UTF-8: the byte 0xff"),
        ("a: 1".encode("utf-16"), ":1:1: not UTF-8: the byte 0xff"),
        ("a: 1\n\u00e9: \0", ":2:4: the character U+0000 is not allowed"),
        ("a: \x1b[31m", ":1:4: the character U+001B is not allowed"),
    ],
)
def test_errors(text: str | bytes, message: str) -> None:
    found = error(text)
    assert found.startswith(f"limits.yaml{message}")
    assert found.isprintable()


def levels(depth: int) -> dict[str, str]:
    return {
        "flow": "[" * depth + "]" * depth,
        "flow mappings": "{a: " * depth + "1" + "}" * depth,
        "block": "- " * depth + "a",
        "block mappings": "\n".join(f"{' ' * level}a:" for level in range(depth)) + " 1",
    }


@pytest.mark.parametrize("kind", levels(1))
def test_depth(kind: str) -> None:
    _ = parse(levels(MAX_DEPTH)[kind]).tree
    assert f"nested deeper than {MAX_DEPTH} levels" in error(levels(MAX_DEPTH + 1)[kind])


@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 200_000, '{"a":' * 200_000, "[{a: " * 100_000])
def test_extreme_depth(text: str) -> None:
    assert f"nested deeper than {MAX_DEPTH} levels" in error(text)


def test_size() -> None:
    text = "a: 1 #"
    assert parse(text.ljust(MAX_SIZE, "x")).tree == {"a": 1}
    assert error(text.ljust(MAX_SIZE + 1, "x")) == f"limits.yaml: more than {MAX_SIZE} bytes"


def alias_bomb(levels: int, width: int) -> str:
    lines = ["l0: &l0 [x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_copies_by_aliases_count() -> None:
    assert len(parse(alias_bomb(3, 10)).tree["l2"]) == 10
    message = error(alias_bomb(9, 9))
    assert f"more than {MAX_VALUES} values, including copies by aliases" in message
    assert message.startswith("limits.yaml:6:")


def test_number_of_values() -> None:
    assert len(parse(f"[{'a,' * (MAX_VALUES - 1)}]").tree) == MAX_VALUES - 1
    assert f"more than {MAX_VALUES} values" in error(f"[{'a,' * MAX_VALUES}]")


@pytest.mark.parametrize(
    "text",
    [
        alias_bomb(1000, 9),
        "{a: &a {b: c}, " + ", ".join(f"x{n}: &x{n} {{<<: [*a, *a]}}" for n in range(9)) + "}",
        "- {a: 1, a: 1}\n" * 20_000,
        "&a x: 1\n" * 100_000,
        "[" * 99 + "a, " * 300_000,
        "a: " + "1" * (MAX_SIZE - 3),
        "a: '" + "''" * (MAX_SIZE // 2 - 4) + "'",
        "#" * MAX_SIZE,
        "\n" * MAX_SIZE,
        "%" * MAX_SIZE,
        "-" * MAX_SIZE,
        "&" * MAX_SIZE,
        "a:\n" * (MAX_SIZE // 3),
        "? " * (MAX_SIZE // 2),
    ],
    ids=lambda text: text[:12],
)
def test_malicious_files_are_rejected_fast(text: str) -> None:
    start = time.monotonic()
    accept_or_reject(text.encode())
    assert time.monotonic() - start < 5


# Files.


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("x: 1")
    document = strict_yaml.read(file)
    assert (document.file, document.tree) == (file, {"x": 1})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.yaml", "nothing.yaml: cannot be read: No such file or directory"),
        (".", ": cannot be read: Is a directory"),
        ("a.yaml/b.yaml", "a.yaml/b.yaml: cannot be read: Not a directory"),
        ("a" * 300, ": cannot be read: File name too long"),
        ("a\0b", "a\\x00b: cannot be read: embedded null byte"),
        ("a\nb", "a\\nb: cannot be read: No such file or directory"),
        ("a.yaml", "a.yaml:1:5: not YAML: mapping values are not allowed in this context"),
    ],
)
def test_files_that_cannot_be_read(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: b: c")
    with pytest.raises(ConfigurationError) as raised:
        strict_yaml.read(tmp_path / name)
    assert str(raised.value).endswith(message)
    assert str(raised.value).isprintable()
    assert str(tmp_path) in str(raised.value)

"""Writing YAML: readers of YAML 1.1 and 1.2 must decode it to the same value."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhooks.kube.yaml_reader import YamlDocument
from webhooks.kube.yaml_writer import to_yaml, to_yaml_lines
from webhooks.objects.json_pointer import MAX_DEPTH

TRICKY = [
    *("yes", "1e3", "100m", "a: b", "a #b", "- a", "---", "~", "=", "1:30", "<<"),
    *("a\nb", "a\n", "a\n\n", "\na", " a\nb", "a \n b\n", "a\n---\nb"),
]
TEXTS = st.text() | st.sampled_from(TRICKY)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e6, 1e6) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"a": {"b": [1, {"c": "d", "e": []}]}}, "a:\n  b:\n  - 1\n  - c: d\n    e: []\n"),
        ({"a": [["b"], [], {}]}, "a:\n- - b\n- []\n- {}\n"),
        ({"image": "nginx:1.2", "cpu": "100m", "on": "yes"}, 'image: nginx:1.2\ncpu: 100m\n"on": "yes"\n'),
        ({"run": "a\n\nb\n", "more": ["c\nd"]}, "run: |\n  a\n\n  b\nmore:\n- |-\n  c\n  d\n"),
        ({"a": "\x1b[31m"}, 'a: "\\e[31m"\n'),
        ({"a": "\u2028\x85"}, 'a: "\\L\\N"\n'),
        ({"a": "\u202eb\u00a0"}, 'a: "\\U0000202eb\\U000000a0"\n'),
        ({"a": "\u200b\U000e0001"}, 'a: "\\U0000200b\\U000E0001"\n'),
        ({"a": "é"}, 'a: "é"\n'),
        ({"a": "b " * 200 + "c"}, f"a: {'b ' * 200}c\n"),
        ({"a": "- " * 200}, f'a: "{"- " * 200}"\n'),
        ({"a": "b\n\n"}, "a: |+\n  b\n\n"),
        ({"a": 1e-07, "b": 1e22, "c": -0.5}, "a: 1.0e-07\nb: 1.0e+22\nc: -0.5\n"),
        ({"a": None, "b": True, "c": 2**63}, "a: null\nb: true\nc: 9223372036854775808\n"),
        ([{"a": 1}] * 2, "- a: 1\n- a: 1\n"),
        ({}, "{}\n"),
        ([], "[]\n"),
        ("a", "a\n"),
        ("...", '"..."\n'),
        ("a\n...\n", "|\n  a\n  ...\n"),
        (None, "null\n"),
    ],
)
def test_output(tree: Any, text: str) -> None:
    assert to_yaml(tree) == text


@given(st.dictionaries(TEXTS, TREES, min_size=1))
def test_readers_decode_the_same_value(tree: Any) -> None:
    text = to_yaml(tree)
    assert YamlDocument(text).value == tree
    assert yaml.safe_load(text) == tree


@given(TREES)
def test_the_output_is_printable(tree: Any) -> None:
    assert to_yaml(tree).replace("\n", "").isprintable()
    assert to_yaml_lines(tree) == to_yaml(tree).splitlines()


def test_shared_values_are_repeated() -> None:
    labels = {"app": "web"}
    assert to_yaml({"a": labels, "b": labels}) == "a:\n  app: web\nb:\n  app: web\n"


def test_the_deepest_object() -> None:
    tree: Any = "leaf"
    for _ in range(MAX_DEPTH // 2):
        tree = {"a": [tree]}
    assert yaml.load(to_yaml(tree), Loader=yaml.CSafeLoader) == tree

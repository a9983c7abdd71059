"""Objects as YAML: what is read of it again is what was written."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhooks.kube.yaml_reader import Tree
from webhooks.kube.yaml_writer import written

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
        ({"a": "\x1b[31m"}, 'a: "\\u001b[31m"\n'),
        ({"a": "\u2028"}, 'a: "\\U00002028"\n'),
        ({}, "{}\n"),
    ],
)
def test_written(tree: Any, text: str) -> None:
    assert written(tree) == text


@given(st.dictionaries(TEXTS, TREES, min_size=1))
def test_read_again(tree: Any) -> None:
    text = written(tree)
    assert Tree(text).value == tree
    assert yaml.safe_load(text) == tree

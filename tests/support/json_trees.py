"""JSON trees for tests of patches."""

from hypothesis import strategies as st

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1.5, 2.0**70]),
    st.sampled_from([2**64, -(2**80)]),
    st.sampled_from(["", "a", "é", "1"]),
)
KEYS = st.sampled_from(["a", "b", "name", "", "/", "~", "~1", "0", "-", "é"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)
ELEMENTS = st.one_of(
    st.integers(0, 3),
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"image": st.sampled_from("xy")}),
    st.fixed_dictionaries({"port": st.integers(0, 2)}),
)
ARRAYS = st.lists(ELEMENTS, max_size=8)


def exact(tree):
    """A spelling in which only the same trees are the same: True is not 1 and 1 is not 1.0."""
    if isinstance(tree, dict):
        return {key: exact(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [exact(value) for value in tree]
    return type(tree).__name__, repr(tree)


def nested(levels, leaf):
    for level in range(levels):
        leaf = {"a": leaf} if level % 2 else [leaf]
    return leaf

"""Globs for names, namespaces, users and groups."""

from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.kube.globs import EVERYTHING, Globs


@pytest.mark.parametrize(
    ("texts", "fitting", "other"),
    [
        (None, ["", "a", "kube-system"], []),
        ([], [], ["", "a"]),
        (["a"], ["a"], ["", "b", "aa", "A"]),
        (["a", "b"], ["a", "b"], ["ab"]),
        (["kube-*"], ["kube-", "kube-system", "kube-\n"], ["kube", "xkube-", "KUBE-SYSTEM"]),
        (["*-prod"], ["a-prod", "-prod"], ["prod", "a-production"]),
        (["*"], ["", "a", "a/b"], []),
        (["a?c"], ["abc", "a.c"], ["ac", "abbc"]),
        (["[ab]"], ["a", "b"], ["c", "[ab]", "ab"]),
        (["[!a]"], ["b"], ["a", "", "bb"]),
        (["a.b"], ["a.b"], ["acb"]),
        (["a.*"], ["a.", "a.b"], ["ab"]),
        (
            ["system:serviceaccount:kube-system:*"],
            ["system:serviceaccount:kube-system:x"],
            ["system:serviceaccount:kube"],
        ),
        ([""], [""], ["a"]),
    ],
)
def test_globs_match_whole_names(texts: list[str] | None, fitting: list[str], other: list[str]) -> None:
    globs = Globs(texts)
    assert [name for name in fitting + other if globs.match(name)] == fitting
    assert globs.match_any([*other, *fitting]) == (bool(fitting) or texts is None)
    assert globs.match_any(fitting[:1]) == (bool(fitting) or texts is None)


def test_no_glob_matches_an_empty_list() -> None:
    assert not Globs(["*"]).match_any([])
    assert EVERYTHING.match_any([])


@pytest.mark.parametrize("texts", ["kube-*", "", 5, [5], [None], [["a"]]], ids=repr)
def test_invalid_globs_are_rejected(texts: Any) -> None:
    with pytest.raises(ConfigurationError):
        Globs(texts)

"""Tests of names that are imported when they are first used."""

from collections.abc import Callable
from typing import Any

import pytest

from webhooks._lazy import lazy_exports


@pytest.fixture
def namespace() -> dict[str, Any]:
    return {"__name__": "package"}


@pytest.fixture
def exports(namespace: dict[str, Any]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    return lazy_exports(namespace, {"loads": "json", "encode": "json:dumps"})


def test_a_name_is_imported_when_it_is_used(namespace: dict[str, Any], exports: Any) -> None:
    import json

    names, get, _ = exports
    assert names == ["loads", "encode"]
    assert "loads" not in namespace
    assert (get("loads"), get("encode")) == (json.loads, json.dumps)
    assert (namespace["loads"], namespace["encode"]) == (json.loads, json.dumps)


def test_unknown_names(exports: Any) -> None:
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'nothing'"):
        exports[1]("nothing")


def test_all_names_are_listed(exports: Any) -> None:
    assert exports[2]() == ["__name__", "encode", "loads"]

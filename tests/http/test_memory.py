import ctypes
from collections.abc import Callable

import pytest

from webhooks.http import memory


def test_memory_is_given_back() -> None:
    memory.give_back()


@pytest.mark.parametrize("library", [lambda _: object(), None], ids=["without it", "none"])
def test_other_libraries_keep_it(library: Callable[[None], object] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: None) -> object:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", library or none)
    assert memory._trimming()(0) is None

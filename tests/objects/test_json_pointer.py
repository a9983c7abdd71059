import pytest

from webhooks.errors import PatchError
from webhooks.objects.json_pointer import MAX_DEPTH, parse_pointer, pointer


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ((), ""),
        (("",), "/"),
        (("a", 0, "b"), "/a/0/b"),
        (("a/b", "m~n", "~1"), "/a~1b/m~0n/~01"),
        (("~0", "é", " "), "/~00/é/ "),
    ],
)
def test_a_pointer_and_its_tokens(tokens, text):
    assert pointer(*tokens) == text
    assert parse_pointer(text) == [str(token) for token in tokens]


@pytest.mark.parametrize("text", ["a", " /a", "/a~", "/a~2", "/~~1"])
def test_malformed_pointers_are_rejected(text):
    with pytest.raises(PatchError, match=r"^from is not a JSON Pointer$"):
        parse_pointer(text, "from")


def test_the_depth_of_a_pointer_is_limited():
    assert len(parse_pointer("/a" * MAX_DEPTH)) == MAX_DEPTH
    with pytest.raises(PatchError, match=r"^path is more than 200 levels deep$"):
        parse_pointer("/a" * (MAX_DEPTH + 1))

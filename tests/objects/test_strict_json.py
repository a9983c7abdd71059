import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.errors import MalformedReview
from webhooks.objects import strict_json
from webhooks.objects.strict_json import MAX_VALUES, LazyDocument, load, load_exactly

from ..support.builders import MAX_INT, MIN_INT, encode_body, nested_json, recorded_bodies

# A document is at level 2 of a body, which may have 200 levels.
DEPTH = 198

ACCEPTED = [
    ("null", None),
    ("true", True),
    ('{"a":1}', {"a": 1}),
    (' {\n\t"a" : [ 1 , 2 ] }\r\n', {"a": [1, 2]}),
    ("{}", {}),
    ("[]", []),
    ("9007199254740993", 9007199254740993),
    (str(MAX_INT), MAX_INT),
    (str(MIN_INT), MIN_INT),
    ("-0", 0),
    ("-0.0", -0.0),
    ("1.0", 1.0),
    ("1e2", 100.0),
    ("123456789012345678901234567890.5", 123456789012345678901234567890.5),
    ("1e-400", 0.0),
    (r'"\u003ca href=\u0022x\u0022\u003e \u0026amp;"', '<a href="x"> &amp;'),
    (r'"\u003C"', "<"),
    (r'"\\u003c"', r"\u003c"),
    (r'"\\\u003c"', r"\<"),
    (r'"\\\\u003c"', r"\\u003c"),
    (r'"\ud83d\ude00 \u2028 \/ \u0000"', "\U0001f600 \u2028 / \0"),
    ('"\u2028 \u00e9 \x7f"', "\u2028 \u00e9 \x7f"),
    ('{"":{"":{}}}', {"": {"": {}}}),
    ('{"a":{"b":1},"b":{"b":1}}', {"a": {"b": 1}, "b": {"b": 1}}),
]

REJECTED: list[tuple[str | bytes, int]] = [
    ("", 400),
    (" ", 400),
    ("nul", 400),
    ("{", 400),
    ("[1,]", 400),
    ('{"a":1,}', 400),
    ("{a:1}", 400),
    ("{'a':1}", 400),
    ("1 2", 400),
    ("01", 400),
    ("+1", 400),
    (".5", 400),
    ("0x10", 400),
    ("1_000", 400),
    ("\u0661", 400),
    ("\ufeff1", 400),
    ("1\u00a0", 400),
    ("NaN", 400),
    ("Infinity", 400),
    ('{"a":-Infinity}', 400),
    ("1e400", 400),
    ("-1e400", 400),
    ('"\n"', 400),
    ('"\x00"', 400),
    (r'"\x41"', 400),
    (r'"\ud800"', 400),
    (r'"\udc00\ud800"', 400),
    (r'{"\ud800":1}', 400),
    (b'"\xff"', 400),
    (b'"\xc0\xaf"', 400),
    (b'"\xed\xa0\x80"', 400),
    (b'{"a":"\xe2\x82"}', 400),
    ('{"a":1,"a":1}', 400),
    ('{"a":1,"b":2,"a":3}', 400),
    ('{"x":[{"a":{"b":1,"b":1}}]}', 400),
    (r'{"a":1,"\u0061":2}', 400),
    (r'{"<":1,"\u003c":2}', 400),
    (r'{"\u003c":1,"\u003c":2}', 400),
    (str(MAX_INT + 1), 422),
    (str(MIN_INT - 1), 422),
    ("18446744073709551615", 422),
    ("18446744073709551616", 422),
    ("[1" + "0" * 5000 + "]", 422),
    ("[" * 100_000, 422),
    ('{"a":' * 100_000, 422),
    (nested_json(DEPTH + 1), 422),
    (nested_json(1000), 422),
]


def encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def verdict(read: Callable[[bytes], Any], raw: bytes) -> Any:
    """Return the decoded document with the types of numbers and the order of keys, or the code of the error."""
    try:
        return repr(read(raw))
    except MalformedReview as error:
        return error.code


@pytest.fixture
def no_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(raw: bytes) -> None:
        pytest.fail(f"used the slow reader: {raw[:200]!r}")

    monkeypatch.setattr(strict_json, "load_exactly", fail)


@pytest.mark.parametrize("read", [load, load_exactly])
@pytest.mark.parametrize(("text", "tree"), ACCEPTED)
def test_valid_json_is_decoded(read: Callable[[bytes], Any], text: str, tree: Any) -> None:
    assert verdict(read, text.encode()) == repr(tree)


@pytest.mark.parametrize("read", [load, load_exactly])
@pytest.mark.parametrize(("text", "code"), REJECTED, ids=lambda value: repr(value)[:40])
def test_ambiguous_documents_are_rejected(read: Callable[[bytes], Any], text: str | bytes, code: int) -> None:
    assert verdict(read, encoded(text)) == code


@pytest.mark.parametrize("read", [load, load_exactly])
@pytest.mark.parametrize(("inner", "own"), [("1", 0), ('"<"', 0), ("null", 0), ("[]", 1), ("{}", 1), ("[[],1]", 2)])
@pytest.mark.parametrize(("start", "end"), [("", ""), ("[", "]"), ('{"a":', "}"), ("[{},", ",0]")])
def test_nesting_is_limited(read: Callable[[bytes], Any], inner: str, own: int, start: str, end: str) -> None:
    levels = DEPTH - own - bool(start)
    assert verdict(read, f"{start}{nested_json(levels, inner)}{end}".encode()) != 422
    assert verdict(read, f"{start}{nested_json(levels + 1, inner)}{end}".encode()) == 422


@pytest.mark.parametrize("inner", ["1", "[]", "{}", '""', "[1]", '"\\u003c"', str(MAX_INT)])
def test_both_readers_count_the_same_levels(inner: str) -> None:
    for levels in range(DEPTH - 4, DEPTH + 4):
        for text in (nested_json(levels, inner), f"[{nested_json(levels, inner)},1]"):
            assert verdict(load, text.encode()) == verdict(load_exactly, text.encode()), levels


def test_too_many_values_are_rejected() -> None:
    assert len(load(b"[" + b"0," * (MAX_VALUES - 1) + b"0]")) == MAX_VALUES
    assert verdict(load, b"[" + b"0," * MAX_VALUES + b"0,0]") == 422


def test_commas_in_a_string_are_not_counted() -> None:
    table = "9," * (MAX_VALUES + 1)
    assert load(encode_body({"data": {"table.csv": table}}).strip()) == {"data": {"table.csv": table}}


@pytest.mark.usefixtures("no_slow_reader")
@pytest.mark.parametrize(
    "body", recorded_bodies("/mutate", "/validate", "/audit").values(), ids=lambda body: body["kind"]
)
def test_recorded_documents_need_no_slow_reader(body: dict[str, Any]) -> None:
    for part in (body, body.get("request", {}).get("object"), body.get("request", {}).get("oldObject")):
        if "9007199254740993" not in (raw := encode_body(part).strip()).decode():
            assert repr(load(raw)) == repr(part)


@pytest.mark.usefixtures("no_slow_reader")
def test_go_escapes_need_no_slow_reader() -> None:
    assert load(rb'{"a":"\u003cb\u003e \u0026\u0026 \"c\" \\n"}') == {"a": r'<b> && "c" \n'}


def test_a_document_is_decoded_once_and_on_demand() -> None:
    document = LazyDocument(b'{"a":1}')
    assert document.raw == b'{"a":1}'
    assert document.tree == {"a": 1}
    assert document.tree is document.tree
    broken = LazyDocument(b'{"a":1,"a":2}')
    for _ in range(2):
        with pytest.raises(MalformedReview, match="duplicate key 'a'"):
            _ = broken.tree


def test_threads_are_independent() -> None:
    texts = [f'["{number}",{number}]'.encode() for number in range(1000)]
    repeated = [f'{{"{number}":1,"{number}":2}}'.encode() for number in range(1000)]
    with ThreadPoolExecutor(4) as pool:
        for number, tree in enumerate(pool.map(load, texts)):
            assert tree == [str(number), number]
        assert set(pool.map(lambda raw: verdict(load, raw), repeated)) == {400}


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(MIN_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["<", ">&", "\\u003c", "\\", '"', "\u2028"])
)
KEYS = st.text(max_size=2) | st.sampled_from(["<", "\\u003c", "\\"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
WRITERS: list[Callable[[Any], bytes]] = [
    encode_body,
    lambda tree: json.dumps(tree).encode(),
    lambda tree: json.dumps(tree, indent=2, ensure_ascii=False).encode(),
    lambda tree: json.dumps(tree, separators=(",", ":"), ensure_ascii=False).encode(),
]

# JSON and almost JSON, made of parts that could deceive the round-trip check of `load`.
SPACES = st.sampled_from(["", "", "", "", " ", "\n"])
NUMBER_TEXTS = (
    "0 -0 -0.0 1 1.0 1.10 1e5 1E5 1e-7 1e16 1e21 1e22 1e400 1e-400 0.1 5e-324 01 - 2.5 1e20 100000000000000000000 "
    "100000000000000000000.0 9007199254740991 9007199254740992 9007199254740993 9223372036854775807 "
    "9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551615 18446744073709551616"
)
PIECE_TEXTS = (
    'a b < & \\u003c \\u003C \\u003e \\u0026 \\\\ \\\\u003c \\" \\u0022 \\u005c \\ud800 \\udc00 \\ud83d\\ude00 '
    "\\u0000 \u00e9 \\u00e9 \u2028 \\u2028 \\/ / \x7f"
)
NUMBERS, PIECES = st.sampled_from(NUMBER_TEXTS.split(" ")), st.sampled_from(PIECE_TEXTS.split(" "))
STRINGS = st.lists(PIECES, max_size=3).map(lambda pieces: f'"{"".join(pieces)}"')
NAMES = STRINGS | st.sampled_from(['"a"', r'"\u0061"', '"b"', '"<"', r'"\u003c"'])
WORDS = st.sampled_from(["null", "true", "false", "NaN", "-Infinity", "True"])


def _joined(start: str, end: str, items: list[tuple[str, str]]) -> str:
    return start + ",".join(space + item for space, item in items) + end


TEXTS = st.recursive(
    NUMBERS | STRINGS | WORDS,
    lambda inner: (
        st.lists(st.tuples(SPACES, inner), max_size=3).map(lambda items: _joined("[", "]", items))
        | st.lists(st.tuples(SPACES, st.tuples(NAMES, inner).map(":".join)), max_size=3).map(
            lambda items: _joined("{", "}", items)
        )
    ),
    max_leaves=6,
)


@given(TREES)
@settings(max_examples=150)
def test_documents_of_other_encoders_are_decoded(tree: Any) -> None:
    for write in WRITERS:
        assert repr(load(write(tree))) == repr(tree)


@given(TEXTS)
@settings(max_examples=500)
def test_no_text_deceives_the_check(text: str) -> None:
    assert verdict(load, text.encode()) == verdict(load_exactly, text.encode())


@given(TREES, st.data())
@settings(max_examples=200)
def test_no_damaged_document_deceives_the_check(tree: Any, data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(WRITERS))(tree))
    place = data.draw(st.integers(0, len(raw)))
    patch = data.draw(st.binary(max_size=2) | st.sampled_from([b",", b'"', b"\\", b"0", b":", b"1e", b"\\u003c"]))
    raw[place : place + data.draw(st.integers(0, 2))] = patch
    assert verdict(load, bytes(raw)) == verdict(load_exactly, bytes(raw))


@given(st.dictionaries(KEYS, SCALARS, min_size=1, max_size=4), st.data())
@settings(max_examples=100)
def test_a_duplicate_key_is_always_found(members: dict[str, Any], data: st.DataObject) -> None:
    again = data.draw(st.sampled_from(sorted(members)))
    pairs = [*members.items(), (again, data.draw(SCALARS))]
    write = data.draw(st.sampled_from(WRITERS))
    parts = [write(key).strip() + b":" + write(value).strip() for key, value in pairs]
    assert verdict(load, b"{%b}" % b",".join(parts)) == 400

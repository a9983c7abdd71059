"""Envelopes are decoded strictly, and malformed bodies are identified."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhooks.errors import MalformedReview
from webhooks.objects.strict_json import load_exactly
from webhooks.reviews.envelope import RequestId, decode_fully, decode_partially, find_request_id

from ..support.builders import nested_json


class Inner(msgspec.Struct):
    uid: str
    flag: bool = False
    note: str | msgspec.UnsetType = msgspec.UNSET
    object: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    extra: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Thing(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815
    request: Inner


DECODER = msgspec.json.Decoder(Thing)
WIDE = " " * 40  # twice this is larger than a document that is checked with the envelope


def decode(body: str | bytes) -> Thing:
    return decode_partially(DECODER, body.encode() if isinstance(body, str) else body)


def thing(request: str, rest: str = "") -> str:
    return f'{{"kind":"Thing","apiVersion":"v1","request":{{"uid":"1",{request}}}{rest}}}'


def code_of(read: Callable[[bytes], Any], body: str | bytes) -> int:
    """Return 200 if a body is accepted, else the code of the error."""
    try:
        read(body.encode() if isinstance(body, str) else body)
    except MalformedReview as error:
        return error.code
    return 200


ACCEPTED = {
    "as servers write": thing('"flag":true,"note":"n","object":{"a":1},"extra":null'),
    "with the newline of servers": thing('"flag":true,"note":"n","object":{"a":1}') + "\n",
    "with more space": json.dumps(json.loads(thing('"flag":true,"note":"n","object":{"a":1}')), indent=2),
    "with space around": "\n\t " + thing('"flag":true,"note":"n","object":{"a":1}') + " \r\n\n",
    "in another order": (
        '{"request":{"object":{"a":1},"note":"n","flag":true,"uid":"1"},"apiVersion":"v1","kind":"Thing"}'
    ),
    "with unknown fields": thing(
        '"flag":true,"note":"n","new":[1,{"x":2}],"object":{"a":1}', ',"status":{"allowed":false}'
    ),
    "with escapes": thing(r'"flag":true,"note":"\u006e","object":{"a":1}').replace("Thing", r"\u0054hing"),
    "with a large object": thing('"flag":true,"note":"n","object":{"a":1,"b":"%s"}' % ("x" * 1000)),
    "with a large object beside what is unknown": thing(
        '"flag":true,"note":"n","object":{"b":"%s"},"c":0' % ("x" * 99)
    ),
}

REJECTED: dict[str, tuple[str | bytes, int]] = {
    "nothing": ("", 400),
    "no object": ("[]", 400),
    "null": ("null", 400),
    "a part": (thing('"flag":true')[:-1], 400),
    "more after it": (thing('"flag":true') + "{}", 400),
    "a missing field": ('{"kind":"Thing","apiVersion":"v1"}', 400),
    "a field of another type": (thing('"flag":1'), 400),
    "null for a text": (thing('"note":null'), 400),
    "a repeated field": (thing('"flag":true,"flag":true'), 400),
    "a repeated field outside": (thing('"flag":true', ',"kind":"Thing"'), 400),
    "a repeated field, escaped": (thing(r'"flag":true,"\u0066lag":true'), 400),
    "a repeated request": (thing('"flag":true', ',"request":{"uid":"2"}'), 400),
    "a repeated small object": (thing('"object":{"a":1},"object":{"a":1}'), 400),
    "a repeated large object": (thing(f'"object":{{"a":"{WIDE}{WIDE}"}},"object":{{"b":"{WIDE}{WIDE}"}}'), 400),
    "the same large object again": (thing(f'"object":{{"a":"{WIDE}{WIDE}"}},"object":{{"a":"{WIDE}{WIDE}"}}'), 400),
    "a repeated key in what is unknown": (thing('"new":{"a":1,"a":2}'), 400),
    "a repeated unknown field": (thing('"new":1,"new":2'), 400),
    "a repeated key beside a large object": (thing('"object":{"a":"%s"},"new":1,"new":2' % ("x" * 99)), 400),
    "NaN": (thing('"new":NaN'), 400),
    "an infinite number": (thing('"new":1e999'), 400),
    "a lone surrogate": (thing(r'"new":"\ud800"'), 400),
    "a lone surrogate in a field": (thing(r'"note":"\ud800"'), 400),
    "bad UTF-8": (thing('"new":"?"').encode().replace(b"?", b"\xff"), 400),
    "bad UTF-8 in a document": (thing('"object":{"a":"?"}').encode().replace(b"?", b"\xff"), 400),
    "overlong UTF-8": (thing('"note":"?"').encode().replace(b"?", b"\xc0\xaf"), 400),
    "a byte order mark": ("\ufeff" + thing('"flag":true'), 400),
    "another encoding": (thing('"flag":true').encode("utf-16"), 400),
    "an integer too large": (thing(f'"new":{2**63}'), 422),
    "nesting in what is unknown": (thing(f'"new":{nested_json(250)}'), 422),
    "nesting beyond any decoder": (thing(f'"new":{"[" * 100_000}'), 422),
    "nesting of a document beyond any decoder": (thing(f'"object":{nested_json(100_000)}'), 422),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_formatting_does_not_matter(body: str) -> None:
    envelope = decode(body)
    assert (envelope.kind, envelope.apiVersion, envelope.request.uid) == ("Thing", "v1", "1")
    assert (envelope.request.flag, envelope.request.note) == (True, "n")
    assert json.loads(bytes(envelope.request.object)) == json.loads(body)["request"]["object"]


@pytest.mark.parametrize(("body", "code"), REJECTED.values(), ids=REJECTED)
def test_envelopes_are_decoded_strictly(body: str | bytes, code: int) -> None:
    assert code_of(decode, body) == code


@pytest.mark.parametrize("bad", ['{"a":1,"a":2}', f'{{"a":{2**63}}}', nested_json(300)])
@pytest.mark.parametrize("space", ["", " "])
def test_large_documents_are_not_checked(bad: str, space: str) -> None:
    document = f'{{"a":{bad},"b":"{WIDE}{WIDE}"}}'
    raw = bytes(decode(space + thing(f'"object":{document}')).request.object)
    assert raw.decode() == document
    assert code_of(load_exactly, raw) in (400, 422)


@pytest.mark.parametrize(
    "document",
    [
        f'"{WIDE}:true,{WIDE}"',
        f'["{WIDE}:true,{WIDE}"]',
        f'{{"{WIDE}":"{WIDE}"}}',
        f'{{"a":1,"b":"{WIDE}"}}',
        f'" ,{WIDE}{WIDE}"',
        "1" * 80,
    ],
)
@pytest.mark.parametrize("where", ["object", "extra"])
def test_a_document_hides_no_error_beside_it(document: str, where: str) -> None:
    inside = document.strip('"')
    for beside in (
        f'"flag"{inside}"x":1,"flag":false',
        f'"flag":true,"x":{document},"flag":false',
        f'"flag":true,"x":[{document},{{"y":1,"y":2}}]',
        f'"flag":true,"x":{{{inside}}},"flag":false',
    ):
        assert code_of(decode, thing(f'"{where}":{document},{beside}')) != 200


FIELDS = st.sampled_from(
    [
        '"uid":"1"',
        '"flag":true',
        '"note":"n"',
        '"note":"<"',
        r'"note":"\u003c"',
        '"new":1',
        '"new":{"a":1}',
        '"new":NaN',
        f'"new":{nested_json(30)}',
        r'"\u006eew":2',
    ]
)
SPACES = st.sampled_from(["", "", " ", "\n"])


@given(st.lists(st.tuples(SPACES, FIELDS), max_size=4), SPACES)
@settings(max_examples=200)
def test_an_envelope_is_accepted_if_and_only_if_it_is_valid(fields: list[tuple[str, str]], end: str) -> None:
    inside = ",".join(space + field for space, field in fields)
    body = f'{{"kind":"Thing","apiVersion":"v1","request":{{{inside}}}}}{end}'
    is_valid = code_of(load_exactly, body) == 200 and any(field.startswith('"uid"') for _, field in fields)
    assert (code_of(decode, body) == 200) == is_valid


class Small(msgspec.Struct):
    a: int
    b: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "body", [b'{"a":1,"b":["x"]}', b' {"a": 1, "b": ["x"], "c": {}}\n', b'{"b":["\\u0078"],"a":1}\n']
)
def test_a_small_review_is_decoded_fully(body: bytes) -> None:
    assert decode_fully(Small, body) == Small(1, ("x",))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{}", 400),
        ("[]", 400),
        ("", 400),
        ('{"a":"1"}', 400),
        ('{"a":1.5}', 400),
        ('{"a":null}', 400),
        ('{"a":1,"b":"x"}', 400),
        ('{"a":1,"a":1}', 400),
        ('{"a":1,"c":{"d":1,"d":1}}', 400),
        (f'{{"a":{2**63}}}', 422),
        (f'{{"a":1,"c":{nested_json(300)}}}', 422),
    ],
)
def test_a_small_review_is_decoded_strictly(body: str, code: int) -> None:
    assert code_of(lambda raw: decode_fully(Small, raw), body) == code


@pytest.mark.parametrize(("inner", "own"), [("1", 0), ("[]", 1), ("{}", 1)])
@pytest.mark.parametrize("space", ["", " "])
def test_a_small_review_has_at_most_200_levels(inner: str, own: int, space: str) -> None:
    for levels, code in ((199, 200), (200, 422)):
        body = f'{{"a":{space}1,"c":{nested_json(levels - own, inner)}}}'
        assert code_of(lambda raw: decode_fully(Small, raw), body) == code


@pytest.mark.parametrize(("inner", "own"), [("1", 0), ("[]", 1)])
def test_unknown_fields_have_at_most_200_levels(inner: str, own: int) -> None:
    for levels, code in ((198, 200), (199, 422)):
        assert code_of(decode, thing(f'"new":{nested_json(levels - own, inner)}')) == code


HEAD = '{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"42"'
REQUEST_ID = RequestId("AdmissionReview", "admission.k8s.io/v1", "42")

REQUEST_IDS: dict[str, tuple[str | bytes, RequestId | None]] = {
    "a valid body": (HEAD + "}}", REQUEST_ID),
    "the end is missing": (HEAD + ',"name":"we', REQUEST_ID),
    "the end is no JSON": (HEAD + ",}}", REQUEST_ID),
    "the end is no UTF-8": ((HEAD + ',"name":"?"}}').encode().replace(b"?", b"\xff"), REQUEST_ID),
    "the end is too deep": (HEAD + ',"object":' + "[" * 100_000, REQUEST_ID),
    "the end is too long": (HEAD + ',"object":"' + "x" * 10_000, REQUEST_ID),
    "with space": (HEAD.replace('"', ' " ').replace(' " ', '"').replace(":", " : ").replace(",", " , "), REQUEST_ID),
    "another order, but is_valid": (
        '{"request":{"name":"x","uid":"42"},"apiVersion":"v","kind":"K"}',
        RequestId("K", "v", "42"),
    ),
    "the version first": ('{"apiVersion":"v","kind":"K","request":{"uid":"42",', RequestId("K", "v", "42")),
    "no kind": ('{"apiVersion":"v","request":{"uid":"42",', RequestId("", "v", "42")),
    "neither kind nor version": ('{"request":{"uid":"42",', RequestId("", "", "42")),
    "an empty uid": ('{"kind":"K","apiVersion":"v","request":{"uid":""}}', None),
    "a uid that is no text": ('{"kind":"K","apiVersion":"v","request":{"uid":5,"name":"x"}}', None),
    "no uid": ('{"kind":"K","apiVersion":"v","request":{"name":"x"', None),
    "a uid somewhere else": ('{"kind":"K","apiVersion":"v","metadata":{"uid":"42"},"request":{"na', None),
    "a uid that is not the first field": ('{"kind":"K","apiVersion":"v","request":{"name":"x","uid":"42",', None),
    "a uid in an object": ('{"kind":"K","apiVersion":"v","request":{"object":{"request":{"uid":"42"', None),
    "a uid in a text": (r'{"kind":"K","apiVersion":"{\"request\":{\"uid\":\"42\"","request":{"na', None),
    "a uid that is not all there": ('{"kind":"K","apiVersion":"v","request":{"uid":"42', None),
    "a uid with escapes in what is no JSON": (r'{"kind":"K","apiVersion":"v","request":{"uid":"4\u0032",', None),
    "a uid with a line in it": ('{"kind":"K","apiVersion":"v","request":{"uid":"4\n2",', None),
    "a uid of no length that any has": ('{"kind":"K","apiVersion":"v","request":{"uid":"%s",' % ("4" * 300), None),
    "a uid that is no UTF-8": (b'{"kind":"K","apiVersion":"v","request":{"uid":"\xff",', None),
    "a kind that is no UTF-8": (b'{"kind":"\xff","apiVersion":"v","request":{"uid":"42",', None),
    "beyond the head": (" " * 4096 + HEAD + ",", None),
    "nothing": ("", None),
    "an array": ("[" + HEAD + "}}]", None),
}


@pytest.mark.parametrize(("body", "request_id"), REQUEST_IDS.values(), ids=REQUEST_IDS)
def test_the_request_id_is_found(body: str | bytes, request_id: RequestId | None) -> None:
    assert find_request_id(body.encode() if isinstance(body, str) else body) == request_id


@given(st.integers(0, len(HEAD) + 20))
def test_the_request_id_of_a_truncated_body_is_found(length: int) -> None:
    body = (HEAD + ',"name":"web","namespace":"x"}}')[:length]
    assert find_request_id(body.encode()) == (REQUEST_ID if length >= len(HEAD) else None)


@given(st.binary(max_size=200))
def test_the_rest_of_the_body_does_not_change_the_request_id(rest: bytes) -> None:
    assert find_request_id(HEAD.encode() + b"," + rest) in (REQUEST_ID, find_request_id(HEAD.encode() + b"}}"))

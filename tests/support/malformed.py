"""Malformed reviews, with the responses to them."""

from collections.abc import Mapping
from typing import NamedTuple

from .pairs import GOOD, assert_is_status
from .servers import Reply

LIMIT = 7 * 1024 * 1024  # bytes
NO_REQUEST = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'
LARGE = b'"object":{"metadata":{},"value":"%b"}' % (b"x" * 100)


class Denied(NamedTuple):
    """HTTP 200 with a denial: the uid of the review could be read."""

    code: int
    close: bool = False


class Failed(NamedTuple):
    """An HTTP error."""

    code: int
    close: bool = False


Expected = Denied | Failed


def with_object(text: bytes) -> bytes:
    """Return a review with an object in JSON."""
    head, _, rest = GOOD.partition(b'"object":')
    return head + b'"object":' + text + b"," + rest[rest.index(b'"oldObject"') :]


def with_value(text: bytes) -> bytes:
    """Return a review with a value in JSON in its object."""
    return with_object(b'{"metadata":{"name":"web"},"value":%b}' % text)


def replaced(old: bytes, new: bytes, body: bytes = GOOD) -> bytes:
    """Return a review with a part replaced."""
    assert old in body
    return body.replace(old, new, 1)


def nested(levels: int) -> bytes:
    """Return a review with so many levels of nesting."""
    lists = levels - 3  # the body, the request and the object are levels too
    return with_value(b"[" * lists + b"1" + b"]" * lists)


def sized(size: int) -> bytes:
    """Return a review of so many bytes."""
    return with_value(b'"%b"' % (b"x" * (size - len(with_value(b'""')))))


BAD: Mapping[str, tuple[bytes, Expected]] = {
    # invalid JSON
    "empty": (b"", Failed(400)),
    "blank": (b" \n\t ", Failed(400)),
    "text": (b"allowed", Failed(400)),
    "zeros": (b"\0" * 100, Failed(400)),
    "a comment": (b"/* */" + GOOD, Failed(400)),
    "single quotes": (GOOD.replace(b'"', b"'"), Failed(400)),
    "cut before the uid": (GOOD[:60], Failed(400)),
    "cut after the uid": (GOOD[:120], Denied(400)),
    "cut at the end": (GOOD[:-1], Denied(400)),
    "twice": (GOOD * 2, Denied(400)),
    "rubbish behind": (GOOD + b"]", Denied(400)),
    "a trailing comma": (replaced(b'"options":null', b'"options":null,'), Denied(400)),
    "a comma in the object": (with_object(b'{"metadata":{},}'), Denied(400)),
    "NaN": (with_value(b"NaN"), Denied(400)),
    "Infinity": (with_value(b"Infinity"), Denied(400)),
    "-Infinity": (with_value(b"[-Infinity]"), Denied(400)),
    "a float beyond floats": (with_value(b"1e400"), Denied(400)),
    "a leading zero": (with_value(b"01"), Denied(400)),
    "a plus sign": (with_value(b"+1"), Denied(400)),
    "a control character": (with_value(b'"\x01"'), Denied(400)),
    # invalid UTF-8
    "bad UTF-8 in the object": (with_value(b'"\xff"'), Denied(400)),
    "bad UTF-8 in a key": (with_object(b'{"\xc3\x28":1}'), Denied(400)),
    "overlong UTF-8": (with_value(b'"\xc0\xaf"'), Denied(400)),
    "a surrogate in UTF-8": (with_value(b'"\xed\xa0\x80"'), Denied(400)),
    "bad UTF-8 in the envelope": (replaced(b'"name":"web"', b'"name":"\xff"'), Denied(400)),
    "bad UTF-8 in the uid": (replaced(b"uid-1", b"uid-\xff"), Failed(400)),
    "UTF-16": (GOOD.decode().encode("utf-16"), Failed(400)),
    "a byte order mark": (b"\xef\xbb\xbf" + GOOD, Failed(400)),
    "a lone surrogate": (with_value(b'"\\ud800"'), Denied(400)),
    "a lone low surrogate": (with_value(b'"\\udc00"'), Denied(400)),
    "a lone surrogate in a key": (with_object(b'{"\\ud800":1}'), Denied(400)),
    "a lone surrogate in the envelope": (replaced(b'"name":"web"', b'"name":"\\ud800"'), Denied(400)),
    "a lone surrogate in the user": (replaced(b'"username":"jane"', b'"username":"\\ud800"'), Denied(400)),
    "a lone surrogate in the uid": (replaced(b"uid-1", b"\\ud800"), Failed(400)),
    # duplicate keys
    "a key twice in the object": (with_object(b'{"metadata":{},"a":1,"a":1}'), Denied(400)),
    "a key twice in metadata": (with_object(b'{"metadata":{"name":"web","name":"denied"}}'), Denied(400)),
    "a key twice, once escaped": (with_object(b'{"metadata":{},"a":1,"\\u0061":2}'), Denied(400)),
    "a key twice in a list": (with_value(b'[{"a":1,"a":2}]'), Denied(400)),
    "a key twice in the user": (replaced(b'"username":"jane"', b'"username":"jane","username":"root"'), Denied(400)),
    "two objects": (replaced(b'"oldObject":null', b'"object":{},"oldObject":null'), Denied(400)),
    "two objects, the same": (replaced(LARGE, LARGE + b"," + LARGE, with_object(LARGE[9:])), Denied(400)),
    "two names": (replaced(b'"name":"web"', b'"name":"web","name":"web"'), Denied(400)),
    "two kinds": (replaced(b"{", b'{"kind":"AdmissionReview",'), Denied(400)),
    "two requests": (GOOD[:-1] + b',"request":' + GOOD.partition(b'"request":')[2], Denied(400)),
    "an unknown key twice": (GOOD[:-1] + b',"more":1,"more":1}', Denied(400)),
    # over the limits
    "nested over 200 levels": (nested(201), Denied(422)),
    "nested 5,000 levels": (nested(5_000), Denied(422)),
    "nested 1,000,000 levels": (nested(1_000_000), Denied(422)),
    "nested beside the request": (GOOD[:-1] + b',"more":' + b"[" * 300 + b"]" * 300 + b"}", Denied(422)),
    "nested, and never closed": (b"[" * 100_000, Failed(400)),
    "nested lists in objects": (with_value(b'{"a":[' * 150 + b"1" + b"]}" * 150), Denied(422)),
    "an integer over int64": (with_value(b"9223372036854775808"), Denied(422)),
    "an integer under int64": (with_value(b"-9223372036854775809"), Denied(422)),
    "an integer of 5,000 digits": (with_value(b"1" * 5_000), Denied(422)),
    "500,001 values": (with_value(b"[" + b"1," * 500_001 + b"1]"), Denied(422)),
    "a byte too many": (sized(LIMIT + 1), Denied(413, close=True)),
    "a byte too many, of no review": (b"x" * (LIMIT + 1), Failed(413, close=True)),
    "a MiB too many": (sized(LIMIT + 1024 * 1024), Denied(413, close=True)),
    # not a review
    "a string": (b'"AdmissionReview"', Failed(400)),
    "a list": (b"[%b]" % GOOD, Failed(400)),
    "null": (b"null", Failed(400)),
    "no members": (b"{}", Failed(400)),
    "no kind": (replaced(b'"kind":"AdmissionReview",', b""), Denied(400)),
    "another kind": (replaced(b'"AdmissionReview"', b'"TokenReview"'), Denied(400)),
    "a kind in lower case": (replaced(b'"AdmissionReview"', b'"admissionreview"'), Denied(400)),
    "a number as kind": (replaced(b'"AdmissionReview"', b"1"), Failed(400)),
    "another version": (replaced(b"k8s.io/v1", b"k8s.io/v2"), Denied(400)),
    "another group": (replaced(b"admission.k8s.io", b"admission.example.com"), Denied(400)),
    "no version": (replaced(b'"apiVersion":"admission.k8s.io/v1",', b""), Denied(400)),
    "no request": (NO_REQUEST, Failed(400)),
    "null as request": (replaced(b"}", b',"request":null}', NO_REQUEST), Failed(400)),
    "a list as request": (replaced(b"}", b',"request":[]}', NO_REQUEST), Failed(400)),
    "no uid": (replaced(b'"uid":"uid-1",', b""), Failed(400)),
    "an empty uid": (replaced(b'"uid":"uid-1"', b'"uid":""'), Failed(400)),
    "a number as uid": (replaced(b'"uid":"uid-1"', b'"uid":1'), Failed(400)),
    "no resource": (replaced(b'"resource":{"group":"","version":"v1","resource":"widgets"},', b""), Denied(400)),
    "no operation": (replaced(b'"operation":"CREATE",', b""), Denied(400)),
    "an unknown operation": (replaced(b"CREATE", b"create"), Denied(400)),
    "a list as operation": (replaced(b'"CREATE"', b'["CREATE"]'), Denied(400)),
    "a list as object": (with_object(b"[]"), Denied(400)),
    "a string as object": (with_object(b'"{}"'), Denied(400)),
    "a string as user": (
        replaced(b'{"username":"jane","groups":["dev","system:authenticated"]}', b'"jane"'),
        Denied(400),
    ),
    "a number among groups": (replaced(b'["dev",', b"[1,"), Denied(400)),
    "a string as dryRun": (replaced(b'"dryRun":false', b'"dryRun":"false"'), Denied(400)),
}


def assert_response(reply: Reply, expected: Expected) -> None:
    """Assert that a reply is the expected denial or error."""
    if isinstance(expected, Denied):
        assert reply.status == 200
        answer = reply.json()
        assert answer["response"]["uid"] == "uid-1"
        assert answer["response"]["allowed"] is False
        assert answer["response"]["status"]["code"] == expected.code
        assert answer["kind"]
        assert answer["apiVersion"].startswith("admission.")
    else:
        assert_is_status(reply, expected.code)
    assert reply.closes == expected.close

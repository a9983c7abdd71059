"""Random bodies: recorded ones with mutations, made-up ones, and noise. The same seed makes the same bodies."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from ..support.builders import encode_body, recorded_bodies

PATHS = {
    "/mutate": "/admission/mutate",
    "/validate": "/admission/validate",
    "/authorize": "/authorize",
    "/authenticate": "/authenticate",
    "/images": "/images",
    "/audit": "/audit",
}
RECORDED_REQUESTS = [(PATHS[path], encode_body(body)) for path in PATHS for body in recorded_bodies(path).values()]
_MAX_LENGTH = 10_000  # longer bodies would take most of the time
_BASE_REQUESTS = [(path, body) for path, body in RECORDED_REQUESTS if len(body) < _MAX_LENGTH]

# Fragments of valid and invalid JSON.
_TOKENS = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"\0", b"/**/"),
    *(b"null", b"true", b"false", b"NaN", b"-Infinity", b"undefined", b"'", b'""', b"{}", b"[]"),
    *(b"0", b"-0", b"01", b"1.", b".5", b"1e5", b"1e400", b"-1E-400", b"0.1e1", b"0x10"),
    *(b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"1" * 400),
    *(b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\\x"', b'"\\u12"', b'"\\u003c"'),
    *(b"\xff", b"\xc3\x28", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
    *('"ä€\U0001f600"'.encode(), '"e\u0301\u200e\ufeff\ufffe"'.encode(), b'"\x7f\xc2\x85"'),
    *(b'"uid":"other",', b'"kind":"Pod",', b'"allowed":true,', b'"__proto__":{},', b'"":0,', b'"request":{},'),
    *(b'"uid":"', b'"request":{"uid":"a"', b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",'),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**30),
    *(0.5, -0.0, 1e-7, 1e300, 123456789.125, float("nan"), float("inf")),
    *("", "a", "text", "CREATE", "DELETE", "*", "a\0b", "\ud800", "\U0001f600", "<&>\u2028", "../..", "x" * 300),
    *([], {}, [[]], [None], {"a": None}, {"": ""}, [{}, {}], {"a": {"b": {"c": []}}}, [1, "a", None, {}]),
)
_KEYS = (
    "uid",
    "kind",
    "metadata",
    "labels",
    "name",
    "spec",
    "containers",
    "image",
    "request",
    "object",
    "a",
    "",
    "\u00e4",
)


def make_request(random: Random) -> tuple[str, bytes]:
    """Return a path and a body."""
    path, body = random.choice(_MAKERS)(random)
    if random.random() < 0.05:
        path = random.choice([*PATHS.values()])
    return path, body


def _make_mutated(random: Random) -> tuple[str, bytes]:
    path, body = random.choice(_BASE_REQUESTS)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        body = random.choice(_MUTATIONS)(random, body)
    return path, body


def _make_reshaped(random: Random) -> tuple[str, bytes]:
    """Return a recorded body with values or members replaced, removed or renamed."""
    path, body = random.choice(_BASE_REQUESTS)
    tree = json.loads(body)
    for _ in range(random.choice((1, 1, 2))):
        _change_value(random, tree)
    return path, _dumps(random, tree)


def _change_value(random: Random, tree: Any) -> None:
    node = tree
    while True:
        keys: Sequence[Any] = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and random.random() < 0.7:
            node = node[key]
            continue
        change = random.random()
        if change < 0.6:
            node[key] = _random_value(random)
        elif change < 0.8 or isinstance(node, list):
            del node[key]
        else:
            node[random.choice(_KEYS)] = node.pop(key)
        return


def _make_random_members(random: Random) -> tuple[str, bytes]:
    """Return a review whose members may have any value."""
    path, body = random.choice(_BASE_REQUESTS)
    review = json.loads(body)
    content = next(name for name in ("request", "spec", "items") if name in review)
    members = review[content]
    if isinstance(members, dict):
        for name in random.sample(sorted(members), min(len(members), random.choice((0, 1, 2, 5)))):
            members[name] = _random_tree(random, 3)
    for name in ("kind", "apiVersion", "metadata", content):
        if random.random() < 0.05:
            review[name] = _random_tree(random, 2)
    return path, _dumps(random, review)


def _make_noise(random: Random) -> tuple[str, bytes]:
    length = random.choice((0, 1, 2, 10, 100))
    return random.choice([*PATHS.values()]), bytes(random.getrandbits(8) for _ in range(length))


def _make_tokens(random: Random) -> tuple[str, bytes]:
    tokens = [random.choice(_TOKENS) for _ in range(random.choice((1, 3, 10, 30)))]
    return random.choice([*PATHS.values()]), b"".join(tokens)


_MAKERS: Sequence[Callable[[Random], tuple[str, bytes]]] = (
    *([_make_mutated] * 10),
    *([_make_reshaped] * 5),
    *([_make_random_members] * 3),
    _make_noise,
    _make_tokens,
)


def _random_value(random: Random) -> Any:
    return deepcopy(random.choice(_VALUES))


def _random_tree(random: Random, levels: int) -> Any:
    if levels == 0 or random.random() < 0.5:
        return _random_value(random)
    inner = [_random_tree(random, levels - 1) for _ in range(random.choice((0, 1, 3)))]
    return inner if random.random() < 0.5 else {random.choice(_KEYS): value for value in inner}


def _dumps(random: Random, tree: Any) -> bytes:
    """Encode as JSON in a random style. A lone surrogate is an escape or invalid UTF-8."""
    compact = random.random() < 0.8
    text = json.dumps(
        tree,
        ensure_ascii=random.random() < 0.3,
        separators=(",", ":") if compact else None,
        indent=None if compact else random.choice((None, 1)),
    )
    return text.encode(errors="surrogatepass")


# Mutations of bodies.


def _flip_a_bit(random: Random, body: bytes) -> bytes:
    position = random.randrange(len(body) + 1)
    if position == len(body):
        return body
    return body[:position] + bytes([body[position] ^ 1 << random.randrange(8)]) + body[position + 1 :]


def _truncate(random: Random, body: bytes) -> bytes:
    return body[: random.randrange(len(body) + 1)]


def _insert_token(random: Random, body: bytes) -> bytes:
    position = random.randrange(len(body) + 1)
    return body[:position] + random.choice(_TOKENS) + body[position:]


def _replace_by_token(random: Random, body: bytes) -> bytes:
    start = random.randrange(len(body) + 1)
    return body[:start] + random.choice(_TOKENS) + body[start + random.choice((1, 2, 5, 20)) :]


def _delete_bytes(random: Random, body: bytes) -> bytes:
    start = random.randrange(len(body) + 1)
    return body[:start] + body[start + random.choice((1, 2, 10, 100)) :]


def _repeat_piece(random: Random, body: bytes) -> bytes:
    start = random.randrange(len(body) + 1)
    piece = body[start : start + random.choice((1, 10, 100, 1000))]
    return body[:start] + piece * random.choice((2, 3)) + body[start + len(piece) :]


def _find_all(body: bytes, pattern: bytes) -> list[int]:
    positions, position = [], body.find(pattern)
    while position >= 0:
        positions.append(position)
        position = body.find(pattern, position + 1)
    return positions


def _duplicate_key(random: Random, body: bytes) -> bytes:
    """Repeat the first key of an object, possibly with an escape, at the start or the end of the object."""
    positions = _find_all(body, b'{"')
    if not positions:
        return body
    position = random.choice(positions) + 1
    key = body[position : body.find(b'"', position + 1) + 1]
    if random.random() < 0.3 and len(key) > 2:
        key = b'"\\u%04x' % key[1] + key[2:]
    member = key + b":" + random.choice((b"null", b"0", b'"a"', b"{}", b"[]"))
    if random.random() < 0.5:
        return body[:position] + member + b"," + body[position:]
    end = body.find(b"}", position)
    return body[:end] + b"," + member + body[end:]


def _nest_value(random: Random, body: bytes) -> bytes:
    """Nest a value deeply, possibly without closing brackets."""
    positions = _find_all(body, b":")
    if not positions:
        return body
    position = random.choice(positions) + 1
    levels = random.choice((50, 150, 190, 195, 196, 197, 198, 199, 200, 250, 300, 1100, 20_000))
    left, right = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    middle = random.choice((b"", b"1")) if left == b"[" else b"1"
    closing = b"" if random.random() < 0.1 else right * levels
    end = min(place for place in (body.find(b",", position), body.find(b"}", position), len(body)) if place >= 0)
    return body[:position] + left * levels + middle + closing + body[end:]


def _replace_value(random: Random, body: bytes) -> bytes:
    """Replace a value by a fragment."""
    positions = _find_all(body, b'":')
    if not positions:
        return body
    position = random.choice(positions) + 2
    end = min(place for place in (body.find(b",", position), body.find(b"}", position), len(body)) if place >= 0)
    return body[:position] + random.choice(_TOKENS) + body[end:]


def _insert_blanks(random: Random, body: bytes) -> bytes:
    pattern = random.choice((b",", b":", b"{", b"}", b'"'))
    blank = random.choice((b" ", b"\n", b"\t\r", b"\0", b"\xc2\xa0", b"\x0b"))
    return body.replace(pattern, pattern + blank, random.choice((1, 3, -1)))


def _escape_letters(random: Random, body: bytes) -> bytes:
    """Escape letters that need no escape."""
    letter = random.choice(b"abcekmnrstu")
    return body.replace(bytes([letter]), b"\\u%04x" % letter, random.choice((1, 3, 10)))


_MUTATIONS: Sequence[Callable[[Random, bytes], bytes]] = (
    _flip_a_bit,
    _truncate,
    _insert_token,
    _replace_by_token,
    _delete_bytes,
    _repeat_piece,
    _duplicate_key,
    _duplicate_key,
    _nest_value,
    _replace_value,
    _replace_value,
    _insert_blanks,
    _escape_letters,
)

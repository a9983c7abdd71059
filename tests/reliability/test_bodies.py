"""Invalid bodies and requests: random, crafted and ambiguous ones."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from time import time_ns

import pytest

from ..fuzz.bodies import make_request
from ..fuzz.invariants import POLICIES as DENYING
from ..fuzz.invariants import check
from ..support.builders import access_body, encode_body, image_body, token_body
from ..support.malformed import BAD, Denied, Failed, assert_response
from ..support.pairs import GOOD, VALIDATE
from ..support.servers import POLICIES, REVIEWS, Connection, Reply, Server, chunked, request, review, serving
from .figures import Figure, Size

READING = """

@mutating("*/*", operations=["*"])
def reads_all_too(review):
    _ = review.object, review.old_object, review.user, review.options
    return Allow()
"""
ACCESS = encode_body(access_body(verb="get", resource="widgets", name="web")).strip()
TOKEN = encode_body(token_body("good")).strip()
IMAGES = encode_body(image_body("a@sha256:0")).strip()
WITHOUT_UID = {"/authorize": ACCESS, "/authenticate": TOKEN, "/images": IMAGES}


@pytest.fixture(scope="module")
def denying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose policies read the whole review and deny it."""
    with serving(tmp_path_factory.mktemp("denying"), "--log-level", "error", policies=DENYING) as server:
        yield server


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("usual"), policies=POLICIES + READING) as server:
        yield server


class Reconnecting:
    """A connection that is opened again after the server closes it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None

    def post_all(self, posts: list[tuple[str, bytes]]) -> Iterator[Reply]:
        """Send several requests together, and yield the responses."""
        while posts:
            connection = self._connection = self._connection or self._server.connect()
            connection.send(b"".join(request("POST", path, body, _length(body)) for path, body in posts))
            closes = False
            while posts and not closes:
                yield (reply := connection.reply())
                posts, closes = posts[1:], reply.closes
            if closes:
                self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _length(body: bytes) -> dict[str, str]:
    return {**REVIEWS, "Content-Length": str(len(body))}


def test_item_15_fuzzed_bodies(denying: Server, figure: Figure, size: Size) -> None:
    """With the invariants of `tests.fuzz`."""
    seed, bodies, together = time_ns(), size.of(20_000, 1_000_000), 16
    random, seen, connection = Random(seed), Counter[str](), Reconnecting(denying)
    print(f"seed {seed}")
    for _ in range(bodies // together):
        posts = [make_request(random) for _ in range(together)]
        for (path, body), reply in zip(posts, connection.post_all(posts), strict=True):
            seen[check(path, body, reply.status, reply.body)] += 1
    connection.close()
    lives = denying.process.poll() is None
    figure(
        15,
        f"{seen.total():,} fuzzed bodies",
        f"{seen.total() - sum(seen[f'HTTP {code}'] for code in (400, 413, 422)):,} denied, the others HTTP 400 to 422; "
        f"{'no crash' if lives else 'crashed'}",
        "no 5xx, no crash, none allowed",
    )
    assert lives
    assert seen.total() == bodies
    assert len(seen) > 3, seen
    assert denying.logs() == []  # of errors


# Crafted bodies.


def crafted() -> Iterator[tuple[str, str, bytes, Denied | Failed]]:
    """Yield the description, the path, the body and the expected response."""
    for name, (body, expected) in BAD.items():
        yield name, VALIDATE, body, expected
        yield name, "/admission/mutate", body, expected
        code = 422 if name.startswith("nested") else expected.code
        for path in WITHOUT_UID:
            yield name, path, body, Failed(code, expected.close)
    for path, good in WITHOUT_UID.items():
        for name, (old, new, code) in TWISTS.items():
            yield name, path, good.replace(old, new, 1) if old else good + new, Failed(code)


# Changes to valid reviews of kinds without a uid.
TWISTS = {
    "a key twice": (b'"spec":{', b'"spec":{},"spec":{', 400),
    "a key twice, once escaped": (b'"spec":{', b'"sp\\u0065c":{},"spec":{', 400),
    "no kind": (b'"kind":', b'"kin":', 400),
    "another version": (b"io/v1", b"io/v9", 400),
    "another group": (b".k8s.io", b".example.com", 400),
    "no spec": (b'"spec":', b'"spe":', 400),
    "null as spec": (b'"spec":{', b'"spec":null,"more":{', 400),
    "a list as spec": (b'"spec":{', b'"spec":[],"more":{', 400),
    "NaN": (b'"spec":{', b'"more":NaN,"spec":{', 400),
    "bad UTF-8": (b'"spec":{', b'"more":"\xff","spec":{', 400),
    "a lone surrogate": (b'"spec":{', b'"more":"\\ud800","spec":{', 400),
    "an integer over int64": (b'"spec":{', b'"more":9223372036854775808,"spec":{', 422),
    "nested over 200 levels": (b'"spec":{', b'"more":' + b"[" * 300 + b"]" * 300 + b',"spec":{', 422),
    "rubbish behind": (b"", b"]", 400),
    "twice": (b"", b"{}", 400),
}


def test_item_16_crafted_bodies(usual: Server, figure: Figure) -> None:
    wrong, cases = [], list(crafted())
    for name, path, body, expected in cases:
        reply = usual.post(path, body, _length(body))
        try:
            assert_response(reply, expected)
        except (AssertionError, KeyError) as error:
            wrong.append(f"{name} to {path}: {reply.status} {reply.body[:200]!r}, not {expected} ({error!r:.80})")
    figure(16, "crafted bodies", f"{len(cases) - len(wrong)} of {len(cases)} as expected", "all")
    assert wrong == [], "\n".join(wrong)
    assert usual.post(VALIDATE, GOOD).json()["response"]["allowed"] is True


# Requests whose end is ambiguous, and data that is not HTTP.

TIMEOUTS = ("--header-timeout", "500ms", "--body-timeout", "500ms")  # for requests that are not complete
LINE = b"POST /admission/validate HTTP/1.1"
HEAD = LINE + b"\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SMUGGLED = request("POST", VALIDATE, review(uid="smuggled"))
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)


def headed(*lines: bytes, body: bytes = GOOD) -> bytes:
    """Return a review with these header lines."""
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def in_chunks(size: bytes, data: bytes = GOOD, end: bytes = b"\r\n0\r\n\r\n") -> bytes:
    """Return a review in one chunk with this size line."""
    return HEAD + CHUNKED + b"\r\n" + size + b"\r\n" + data + end


HEX = b"%x" % len(GOOD)
TEN = b"%d" % len(GOOD)
AMBIGUOUS = {
    "a length and chunks": headed(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=chunked(GOOD)),
    "chunks and a length": headed(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=chunked(GOOD)),
    "two lengths": headed(b"Content-Length: 0", b"Content-Length: " + TEN),
    "two lengths in one": headed(b"Content-Length: 0, " + TEN),
    "a length with a sign": headed(b"Content-Length: +" + TEN),
    "a negative length": headed(b"Content-Length: -1"),
    "a length with a blank": headed(b"Content-Length: 1 2"),
    "a length in hex": headed(b"Content-Length: 0x5"),
    "a length with a separator": headed(b"Content-Length: 1_0"),
    "a length with a null byte": headed(b"Content-Length: 5\0"),
    "a length with a point": headed(b"Content-Length: 5.0"),
    "a length of other digits": headed("Content-Length: \u0661\u0660".encode()),
    "a length beyond 64 bits": headed(b"Content-Length: 18446744073709551621"),
    "no length in it": headed(b"Content-Length:"),
    "two encodings": headed(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity", body=chunked(GOOD)),
    "twice chunked": headed(b"Transfer-Encoding: chunked, chunked", body=chunked(GOOD)),
    "chunked, then identity": headed(b"Transfer-Encoding: chunked, identity", body=chunked(GOOD)),
    "identity, then chunked": headed(b"Transfer-Encoding: identity, chunked", body=chunked(GOOD)),
    "nearly chunked": headed(b"Transfer-Encoding: xchunked", body=chunked(GOOD)),
    "chunked in quotes": headed(b'Transfer-Encoding: "chunked"', body=chunked(GOOD)),
    "chunked behind a comma": headed(b"Transfer-Encoding: ,chunked", body=chunked(GOOD)),
    "chunked before a comma": headed(b"Transfer-Encoding: chunked,", body=chunked(GOOD)),
    "chunked with a parameter": headed(b"Transfer-Encoding: chunked;a=b", body=chunked(GOOD)),
    "chunked with a control character": headed(b"Transfer-Encoding: \x0bchunked", body=chunked(GOOD)),
    "chunked with a null byte": headed(b"Transfer-Encoding: chunked\0", body=chunked(GOOD)),
    "an encoding without one": headed(b"Transfer-Encoding:", body=chunked(GOOD)),
    "chunks in HTTP/1.0": headed(b"Transfer-Encoding: chunked", body=chunked(GOOD)).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a blank before a colon": headed(b"Content-Length : " + TEN),
    "a tab before a colon": headed(b"Transfer-Encoding\t: chunked", body=chunked(GOOD)),
    "a line that is folded": headed(b"X: y", b" Transfer-Encoding: chunked", body=chunked(GOOD)),
    "a first line that is folded": LINE + b"\r\n Host: localhost\r\n" + LENGTH + b"\r\n" + GOOD,
    "a line without a colon": headed(b"Content-Length", LENGTH[:-2]),
    "a name that is empty": headed(b": 5", LENGTH[:-2]),
    "a name with a blank": headed(b"X Y: 5", LENGTH[:-2]),
    "a name with a bracket": headed(b"X(Y: 5", LENGTH[:-2]),
    "a name with a null byte": headed(b"Content-Length\0: 5", LENGTH[:-2]),
    "a name beyond ASCII": headed(b"Content-L\xffngth: 5", LENGTH[:-2]),
    "a value with a null byte": headed(b"X: a\0b", LENGTH[:-2]),
    "a value with a lone CR": headed(b"X: a\rTransfer-Encoding: chunked", LENGTH[:-2]),
    "lines that end in LF": headed(LENGTH[:-2]).replace(b"\r\n", b"\n"),
    "lines that end in CR": headed(LENGTH[:-2]).replace(b"\r\n", b"\r"),
    "a head that ends in LF": HEAD + LENGTH + b"\n" + GOOD,
    "no host": LINE + b"\r\n" + LENGTH + b"\r\n" + GOOD,
    "two hosts": headed(b"Host: localhost", LENGTH[:-2]),
    "a chunk with a sign": in_chunks(b"+" + HEX),
    "a negative chunk": in_chunks(b"-1"),
    "a chunk in 0x": in_chunks(b"0x" + HEX),
    "a chunk with a separator": in_chunks(HEX[:1] + b"_" + HEX[1:]),
    "a chunk with a blank before it": in_chunks(b" " + HEX),
    "a chunk beyond 64 bits": in_chunks(b"1" + b"0" * 16 + HEX),
    "a chunk of no size": in_chunks(b""),
    "a chunk of another size": in_chunks(b"xyz"),
    "a chunk that is longer": in_chunks(HEX, GOOD + b"12345"),
    "a chunk that is shorter": in_chunks(HEX, GOOD[:-5]),
    "a chunk without an end": in_chunks(HEX, GOOD, b"0\r\n\r\n"),
    "a chunk that ends in LF": in_chunks(HEX, GOOD, b"\n0\r\n\r\n"),
    "a chunk that ends in CR": in_chunks(HEX, GOOD, b"\r0\r\n\r\n"),
    "a size that ends in LF": HEAD + CHUNKED + b"\r\n" + HEX + b"\n" + GOOD + b"\r\n0\r\n\r\n",
    "an extension that ends in LF": HEAD + CHUNKED + b"\r\n" + HEX + b";a\n" + GOOD + b"\r\n0\r\n\r\n",
    "an extension with a null byte": in_chunks(HEX + b";a=\0"),
    "a trailer without a colon": in_chunks(HEX, GOOD, b"\r\n0\r\nX\r\n\r\n"),
    "no method": b" /admission/validate HTTP/1.1\r\n" + LENGTH + b"\r\n" + GOOD,
    "a method in lower case": headed(LENGTH[:-2]).replace(b"POST", b"post"),
    "an unknown method": headed(LENGTH[:-2]).replace(b"POST", b"SMUGGLE"),
    "a method behind a null byte": b"\0" + headed(LENGTH[:-2]),
    "no path": headed(LENGTH[:-2]).replace(b"/admission/validate", b""),
    "a path with a blank": headed(LENGTH[:-2]).replace(b"/admission/", b"/admission /"),
    "a path with a null byte": headed(LENGTH[:-2]).replace(b"/admission/", b"/admission\0/"),
    "a path without a slash": headed(LENGTH[:-2]).replace(b"/admission/", b"admission/"),
    "tabs between": headed(LENGTH[:-2]).replace(b"POST /admission/validate ", b"POST\t/admission/validate\t"),
    "HTTP/0.9": b"GET /livez\r\n",
    "HTTP/1.2": headed(LENGTH[:-2]).replace(b"HTTP/1.1", b"HTTP/1.2"),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP in lower case": headed(LENGTH[:-2]).replace(b"HTTP/1.1", b"http/1.1"),
    "HTTP/1.1 and more": headed(LENGTH[:-2]).replace(b"HTTP/1.1", b"HTTP/1.1 x"),
    "TLS within": b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
    "SOCKS": b"\x05\x01\x00",
    "zeros": b"\0" * 100,
}


def read_replies(connection: Connection) -> Iterator[Reply]:
    """Yield all responses until the server closes the connection."""
    while True:
        try:
            yield connection.reply()
        except (EOFError, ConnectionResetError):
            return


def test_item_17_ambiguous_requests(tmp_path: Path, figure: Figure) -> None:
    """A valid review follows each request. It must not be processed: it would be smuggled."""
    wrong = []
    with serving(tmp_path, *TIMEOUTS) as server:
        for name, payload in AMBIGUOUS.items():
            with server.connect() as connection:
                connection.send(payload + SMUGGLED)
                try:
                    replies = [(reply.status, b"smuggled" in reply.body) for reply in read_replies(connection)]
                except TimeoutError:
                    replies = [(0, False)]
                if not all(400 <= status < 500 and not smuggled for status, smuggled in replies):
                    wrong.append(f"{name}: {replies}")
        with server.connect() as connection:  # after an unambiguous request it is processed
            connection.send(headed(LENGTH[:-2]) + SMUGGLED)
            assert [connection.reply().json()["response"]["uid"] for _ in range(2)] == ["uid-1", "smuggled"]
    figure(
        17,
        "smuggling, and requests that are not HTTP",
        f"{len(AMBIGUOUS) - len(wrong)} of {len(AMBIGUOUS)} got 4xx or were closed",
        "all",
    )
    assert wrong == [], "\n".join(wrong)


CLOSE = {**REVIEWS, "Connection": "close"}
REQUESTS = (
    request("POST", VALIDATE, GOOD, CLOSE),
    request("POST", "/authorize?timeout=10s", ACCESS, CLOSE),
    request("POST", VALIDATE, GOOD) + request("POST", "/images", IMAGES, CLOSE),
    request("POST", "/admission/mutate", chunked(GOOD[:9], GOOD[9:]), {**CLOSE, "Transfer-Encoding": "chunked"}),
    request(
        "POST",
        VALIDATE,
        b"%x;a=b\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(GOOD), GOOD),
        {**CLOSE, "Transfer-Encoding": "chunked"},
    ),
    request("POST", "/authenticate", TOKEN, {**CLOSE, "Expect": "100-continue"}),
)
TOKENS = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b";",
        b",",
        b"\xff",
        b"0\r\n\r\n",
        b"-1",
        b"0x",
        b"f" * 17,
    ),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: other\r\n"),
    *(b"Expect: 100-continue\r\n", b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n", b"Content-Encoding: gzip\r\n"),
    *(b"HTTP/1.0", b"HTTP/1.1", b"HTTP/2.0", b"POST ", b"PUT ", b"OPTIONS * ", b"http://localhost/", b"//", b"%2e%2e/"),
    *(b"x" * 300, b"X: " + b"y" * 40_000 + b"\r\n", b"X: y\r\n" * 150),
)
RUBBISH = b"\0" * 8192  # completes an unfinished body, and is not a request


def broken(random: Random) -> bytes:
    """Return one or two valid requests with random changes."""
    text = random.choice(REQUESTS)
    for _ in range(random.choice((1, 1, 2, 4))):
        head = text.find(b"\r\n\r\n")
        at = random.randrange(max(head, 1) if random.random() < 0.8 else len(text) + 1)
        change = random.randrange(6)
        if change == 0:
            text = text[:at] + bytes([random.randrange(256)]) + text[at + 1 :]
        elif change == 1:
            text = text[:at] + random.choice(TOKENS) + text[at:]
        elif change == 2:
            text = text[:at] + random.choice(TOKENS) + text[at + random.choice((1, 5, 20)) :]
        elif change == 3:
            text = text[:at] + text[at + random.choice((1, 2, 10, 100)) :]
        elif change == 4:
            lines = text.split(b"\r\n")
            lines.insert(random.randrange(len(lines)), random.choice(lines))
            text = b"\r\n".join(lines)
        elif random.random() < 0.3:
            text = text[:at]
    return text


def outcome(server: Server, text: bytes) -> str:
    """Send a request and return the first response. The server must close the connection in the end."""
    results = []
    with server.connect() as connection:
        connection.send(text)
        for reply in read_replies(connection):
            if reply.status == 200:
                assert b'"allowed":true' not in reply.body
                assert b'"authenticated":true' not in reply.body
            else:
                assert reply.status == 100 or 400 <= reply.status < 500, (reply, text)
            if reply.status != 100:
                results.append(f"HTTP {reply.status}")
                if not reply.closes:
                    connection.send(RUBBISH)
    return results[0] if results else "closed"


def test_item_17_broken_requests(tmp_path: Path, figure: Figure, size: Size) -> None:
    seed, requests = time_ns(), size.of(2_000, 30_000)
    random, seen = Random(seed), Counter[str]()
    print(f"seed {seed}")
    with serving(tmp_path, *TIMEOUTS, policies=DENYING) as server, ThreadPoolExecutor(16) as pool:
        seen.update(pool.map(lambda text: outcome(server, text), (broken(random) for _ in range(requests))))
        lives = server.process.poll() is None
        assert server.post("/images", IMAGES).json()["status"]["allowed"] is False
        server.stop()
        server.errors.all()
        assert {record["level"] for record in server.logs()} <= {"warning"}
    figure(
        17,
        f"{requests:,} requests that are broken at random",
        ", ".join(f"{what} {count:,}" for what, count in sorted(seen.items())) + ("" if lives else ", crashed"),
        "4xx, closed, or a denial of what is still a review",
    )
    assert lives
    assert seen.total() == requests
    assert {"closed", "HTTP 400"} <= seen.keys()

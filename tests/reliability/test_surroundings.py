"""The environment of the server: logs that are not read, full disks, malicious texts and files."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..support.api_server import accept_admission, accept_images
from ..support.builders import access_body, admission_body, encode_body, image_body, pod, token_body
from ..support.clients import metric_samples
from ..support.load import Client, Load
from ..support.servers import REVIEWS, Connection, Reply, Server, await_true, request, review, serving, webhooks
from .figures import Figure, Size

VALIDATE = "/admission/validate"
EVERYTHING = ("--decision-log", "all")
DROPPED = "webhooks_log_records_dropped_total"


def post_often(server: Server, times: int, body: bytes, together: int = 20) -> int:
    """Post reviews, and return the number of successful responses."""
    answered = 0
    with server.connect() as connection:
        for _ in range(times // together):
            connection.send(request("POST", VALIDATE, body) * together)
            answered += sum(connection.reply().status == 200 for _ in range(together))
    return answered


# The log.


def test_item_25_a_log_that_nobody_reads(tmp_path: Path, figure: Figure) -> None:
    bad, number = review().replace(b'"CREATE"', b'"create"'), 8_000  # each has two records
    with serving(tmp_path, *EVERYTHING) as server:
        server.errors.pause()
        answered = post_often(server, number, bad)
        dropped = metric_samples(server, DROPPED).get("", 0)
        allowed = server.post(VALIDATE, review()).json()["response"]["allowed"]
        start = time.monotonic()
        code = server.stop()
        seconds = time.monotonic() - start
    figure(
        25,
        "a log pipe that nobody reads",
        f"{answered:,} of {number:,} answered, {dropped:,.0f} records dropped; SIGTERM ended it in {seconds:.1f} s",
        "all answered, ended",
    )
    assert (answered, allowed, code) == (number, True, 0)
    assert dropped > 0


def mounted(folder: Path, size: str) -> bool:
    """Mount a disk of a size; return whether it succeeded, which needs privileges."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@contextmanager
def full(kind: str, folder: Path) -> Iterator[tuple[Path, Sequence[str]]]:
    """Return a log file that becomes full, and the command that redirects standard error to it."""
    log, disk = folder / "log", folder / "disk"
    if kind == "no room at all":
        yield Path("/dev/full"), ("sh", "-c", 'exec "$0" "$@" 2>/dev/full')
    elif kind == "a limit for files":
        yield log, ("sh", "-c", f'ulimit -f 64; exec "$0" "$@" 2>>{log}')
    elif not mounted(disk, "64k"):
        pytest.skip("no disk can be mounted here")
    else:
        try:
            yield disk / "log", ("sh", "-c", f'exec "$0" "$@" 2>>{disk}/log')
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("kind", ["no room at all", "a limit for files", "a small disk"])
def test_item_25_a_disk_that_is_full(kind: str, tmp_path: Path, figure: Figure) -> None:
    number = 1_000
    with full(kind, tmp_path) as (log, within), serving(tmp_path, *EVERYTHING, within=within) as server:
        answered = post_often(server, number, review())
        await_true(lambda: metric_samples(server, DROPPED).get("", 0) > 0, "records are dropped")
        lines = [] if kind == "no room at all" else log.read_text().splitlines()
        if kind == "a small disk":
            os.truncate(log, 0)  # the disk has space again
            assert post_often(server, 40, review()) == 40
            await_true(lambda: b"records have been dropped" in log.read_bytes(), "it is told what was lost")
            assert [json.loads(line) for line in log.read_text().splitlines() if line]
        code = server.stop()
    whole = [json.loads(line) for line in lines[:-1]]  # the last one may be incomplete
    figure(25, f"a disk that is full: {kind}", f"{answered:,} of {number:,} answered", "all answered")
    assert (answered, code) == (number, 0)
    assert bool(whole) == (kind != "no room at all")


# Texts that imitate something else.

INJECTED = 'x\r\n{"level": "forged", "message": "forged"}\n\x1b[31m\x00\x7f\x85\u2028\U0001f600'
INJECTING = f"""\
import logging

from webhooks import *

INJECTED = {INJECTED!r}


@validating("*/*")
def says(review):
    logging.getLogger(INJECTED).warning(INJECTED, extra={{"uid": INJECTED}})
    logging.getLogger("author").warning("%d items", INJECTED)
    return Deny(INJECTED, reason="Forbidden", audit={{INJECTED: INJECTED}}, warnings=[INJECTED])


@validating("*/*")
def raises(review):
    raise ValueError(INJECTED)


@authorizing("*", paths=["*"])
def authorizes(access):
    return Deny(f"{{access.path}} {{access.user}} {{INJECTED}}")


@authenticating
def authenticates(review):
    return Unauthenticated(INJECTED)


@image_policy
def images(review):
    return Deny(INJECTED, audit={{INJECTED: INJECTED}})
"""


def injections() -> Iterator[tuple[str, bytes]]:
    """Reviews with texts that imitate log records, wherever a text can be."""
    for field in ("uid", "name", "namespace", "operation"):
        yield VALIDATE, encode_body(admission_body(obj=pod(), **{field: INJECTED}))
    for field in ("username", "uid"):
        yield VALIDATE, encode_body(admission_body(obj=pod(), userInfo={"username": "jane", field: INJECTED}))
    for field in ("group", "version", "resource"):
        named = {"group": "", "version": "v1", "resource": "pods", field: INJECTED}
        yield (
            VALIDATE,
            encode_body(admission_body(obj=pod(), subResource=INJECTED)).replace(
                encode_body({"group": "", "version": "v1", "resource": "pods"}).strip(), encode_body(named).strip()
            ),
        )
    yield VALIDATE, encode_body({**admission_body(obj=pod()), "kind": INJECTED})
    yield VALIDATE, encode_body({**admission_body(obj=pod()), "apiVersion": INJECTED})
    yield (
        VALIDATE,
        encode_body(admission_body(obj=pod())).replace(b'"object":{', b'"object":{"a\\n{\\"level\\"":1,' * 2),
    )
    yield (
        "/authorize",
        encode_body(access_body(user=INJECTED, nonResourceAttributes={"path": INJECTED, "verb": INJECTED})),
    )
    for field in ("verb", "group", "version", "resource", "subresource", "name", "namespace"):
        yield "/authorize", encode_body(access_body(**{"verb": "get", "resource": "pods", field: INJECTED}))
    yield "/authenticate", encode_body(token_body(INJECTED, [INJECTED]))
    yield "/images", encode_body(image_body(INJECTED, namespace=INJECTED, annotations={INJECTED: INJECTED}))
    yield f"{VALIDATE}?timeout=%0a%7b%22level%22:%22forged%22%7d", review()
    yield "/%0a%7b%22level%22:%22forged%22%7d", review()


def test_item_25_injection_into_the_log(tmp_path: Path, figure: Figure) -> None:
    sent = 0
    (tmp_path / "tokens.yaml").write_text(json.dumps([{"token": "good", "user": INJECTED.replace("\U0001f600", "")}]))
    with serving(tmp_path, *EVERYTHING, "--token-file", tmp_path / "tokens.yaml", policies=INJECTING) as server:
        for path, body in injections():
            for token in ("good", "bad\t{level: forged}"):
                server.post(path, body, {**REVIEWS, "Authorization": f"Bearer {token}", "User-Agent": "{}"})
                sent += 1
        assert server.stop() == 0
        lines = server.errors.all()
    records = [json.loads(line) for line in lines]
    forged = [each for each in records if "forged" in (each["level"], each["message"])]
    figure(
        25,
        "texts that imitate log records",
        f"{sent} requests, {len(records)} records, {len(forged)} forged",
        "a line of JSON a record, none forged",
    )
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert forged == []
    assert sum("forged" in line for line in lines) > sent / 2  # which says that they were there
    assert any("invalid log call" in each["message"] for each in records)


KEYS = [
    "",
    "a b",
    "a/b",
    "ä",
    "x" * 300,
    ".",
    "-a-",
    "a\r\nb",
    "\x00",
    "__proto__",
    "webhooks.svc.io/a",
    "A" * 63,
    INJECTED,
]
TEXTS = ["", " ", "a\r\nWarning: 299 - forged", "\x00\x1b[31m", "\u2028", "ä" * 300, "x" * 100_000, INJECTED]
ANNOTATING = f"""\
from webhooks import *

KEYS, TEXTS = {KEYS!r}, {TEXTS!r}
AUDIT = {{f"{{key}}{{number}}" if number else key: text for key in KEYS for number, text in enumerate(TEXTS)}}

validates = validating("*/*", name="validates")(lambda review: Allow(warnings=TEXTS * 20, audit=AUDIT))
again = validating("*/*", name="again")(lambda review: Allow(warnings=TEXTS * 20, audit=dict.fromkeys(AUDIT, "other")))
mutates = mutating("*/*", name="mutates")(lambda review: Allow(warnings=TEXTS[::-1], audit=AUDIT))
images_ = image_policy(name="images")(lambda review: Allow(audit=AUDIT))
"""


def test_item_25_injection_into_annotations_and_warnings(tmp_path: Path, figure: Figure) -> None:
    with serving(tmp_path, policies=ANNOTATING) as server:
        body, images = admission_body(obj=pod()), image_body("web")
        replies = [server.post(path, encode_body(body)) for path in (VALIDATE, "/admission/mutate")]
        answers = [
            accept_admission(body, replies[0].body, mutating=False),
            accept_admission(body, replies[1].body, mutating=True),
            accept_images(images, server.post("/images", encode_body(images)).body),
        ]
    sizes = [len(answer["auditAnnotations"]) for answer in answers]
    longest = max(len(value) for answer in answers for value in answer["auditAnnotations"].values())
    figure(
        25,
        "annotations and warnings with unusual names and texts",
        f"{sum(sizes)} annotations, the longest {longest} characters, which the API server accepts",
        "nothing that it drops",
    )
    assert all(answer["allowed"] for answer in answers)
    assert min(sizes) >= len(KEYS)
    assert longest <= 4096


# Bombs.

GLOBS = """\
from webhooks import *


@authorizing("*", paths=["/a/*/*/*/*/*/b", "*a*a*a*a*a*a*a*a*b", "*[ab]*[ab]*[ab]*c", "*?*?*?*?*?*?*x"])
def authorizes(access):
    return Allow()


@validating("*/*", names=["*a*a*a*a*a*a*a*a*b"], namespaces=["*a*a*a*b"], users=["*a*a*a*a*b"], groups=["*a*a*a*b"])
def validates(review):
    return Deny("never")


@mutating("*/*")
def mutates(review):
    return Patch([{"op": "add", "path": "/a" * 100_000, "value": 1}])
"""


def test_item_25_path_bombs(tmp_path: Path, figure: Figure, size: Size) -> None:
    long = "a/" * 500_000
    some = admission_body(obj=pod(), name=long, namespace=long, userInfo={"username": long, "groups": [long] * 3})
    targets = [
        "/" * 30_000,
        "/.." * 10_000,
        "/%2e%2e" * 4_000,
        "/a" * 15_000,
        "/%00" * 7_000,
        f"{VALIDATE}/{'a' * 30_000}",
    ]
    with serving(tmp_path, policies=GLOBS) as server:
        seconds = []

        def post(path: str, body: bytes) -> Reply:
            start = time.monotonic()
            reply = server.post(path, body)
            seconds.append(time.monotonic() - start)
            return reply

        access = [
            post("/authorize", encode_body(access_body(nonResourceAttributes={"path": f"/{long}", "verb": "get"})))
        ]
        access.append(post("/authorize", encode_body(access_body(nonResourceAttributes={"path": "/" + "a" * 10**6}))))
        assert [reply.json()["status"]["allowed"] for reply in access] == [False, False]
        assert post(VALIDATE, encode_body(some)).json()["response"]["allowed"] is True
        assert post("/admission/mutate", encode_body(admission_body(obj=pod()))).json()["response"]["allowed"] is False
        codes = [post(target, review()).status for target in targets]
        lives = server.process.poll() is None
    figure(
        25,
        "paths and names of a megabyte against shell patterns, pointers of 100,000 steps, paths of 30,000 characters",
        f"the slowest took {1000 * max(seconds):.0f} ms",
        "answered, 500 ms",
    )
    assert lives
    assert all(code in (400, 404, 431) for code in codes), codes
    assert max(seconds) <= size.of(3.0, 0.5)


BOMBS = {
    "deep lists": b"[" * 200_000,
    "deep objects": b"{a: " * 200_000,
    "deep blocks": b"".join(b" " * level + b"-\n" for level in range(1_000)),
    "deep on one line": b"- " * 400_000,
    "deep keys": b"? " * 400_000,
    "aliases": b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"a%d: &a%d [%b]\n" % (each, each, b",".join([b"*a%d" % (each - 1)] * 9)) for each in range(1, 10)),
    "merges": b"a0: &a0 {x: 1}\n"
    + b"".join(
        b"a%d: &a%d {<<: [%b]}\n" % (each, each, b",".join([b"*a%d" % (each - 1)] * 9)) for each in range(1, 10)
    ),
    "an alias of itself": b"a: &a [*a]\n",
    "many anchors": b"".join(b"- &a%d x\n" % each for each in range(90_000)),
    "many values": b"[" + b"0," * 500_000 + b"]",
    "a huge file": b"a: " + b"x" * 2**21,
    "a huge number": b"a: " + b"9" * 1_000_000,
    "a huge key": b"? " + b"x" * 1_000_000 + b"\n: x\n",
    "a tag that calls": b'!!python/object/apply:os.system ["touch harm"]\n',
    "zeros": b"\0" * 1_000_000,
    "no UTF-8": b"\xff" * 1_000_000,
}
KEEN = ("deep lists", "aliases", "merges", "an alias of itself", "many values", "a tag that calls")


def bombs(size: Size) -> dict[str, bytes]:
    """Return all files, or the worst at the reduced size: each takes a second or two."""
    return size.of({name: BOMBS[name] for name in KEEN}, BOMBS)


def test_item_25_yaml_bombs_for_a_running_server(tmp_path: Path, figure: Figure, size: Size) -> None:
    """They replace the token file, which the server watches."""
    file = tmp_path / "tokens.yaml"
    file.write_text("[{token: good, user: jane}]")
    headers = {**REVIEWS, "Authorization": "Bearer good"}
    failures = "webhooks_token_file_reload_failures_total"
    with serving(tmp_path, "--token-file", file) as server:
        right = server.post(VALIDATE, review(), headers)

        def ask(connection: Connection) -> Reply:
            reply = connection.post(VALIDATE, review(), headers)
            assert reply.body == right.body
            return reply

        with Load([Client(server.connect, ask)]).running() as load:
            for number, bomb in enumerate(bombs(size).values(), 1):
                new = file.with_name("new")
                new.write_bytes(bomb)
                new.replace(file)
                await_true(lambda number=number: metric_samples(server, failures) == {"": number}, "it is refused")
        slowest = max(load.clients[0].durations)
        assert server.process.poll() is None
    figure(
        25,
        f"{len(bombs(size))} YAML bombs for the token file",
        f"all refused; {load.answered:,} reviews answered meanwhile, {len(load.failures)} failed, the slowest in "
        f"{1000 * slowest:.0f} ms",
        "refused, none fails",
    )
    assert load.failures == []
    assert right.json()["response"]["allowed"] is True
    assert slowest <= size.of(3.0, 1.0)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("command", ["serve", "review"])
def test_item_25_yaml_bombs_for_commands(command: str, tmp_path: Path, figure: Figure, size: Size) -> None:
    (tmp_path / "policies.py").write_text(GLOBS)
    slowest, wrong = 0.0, []
    for name, bomb in bombs(size).items():
        file = tmp_path / "bomb.yaml"
        file.write_bytes(bomb)
        line = webhooks("serve", "--admission-config", file, "--certs-dir", tmp_path, "--port", 0, "--ops-port", 0)
        if command == "review":
            line = webhooks("review", "--policies", tmp_path / "policies.py", file)
        start = time.monotonic()
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, timeout=60)
        slowest = max(slowest, time.monotonic() - start)
        if done.returncode != 2 or b"Traceback" in done.stderr or len(done.stderr) > 20_000:
            wrong.append(f"{name}: {done.returncode} {done.stderr[-500:]!r}")
    figure(
        25,
        f"{len(bombs(size))} YAML bombs for webhooks {command}",
        f"{len(bombs(size)) - len(wrong)} refused, the slowest in {slowest:.1f} s",
        "all refused, 10 s",
    )
    assert wrong == [], "\n".join(wrong)
    assert slowest <= size.of(30.0, 10.0)
    assert not (tmp_path / "harm").exists()

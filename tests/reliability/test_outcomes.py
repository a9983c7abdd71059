"""Outcomes of policies: invalid ones are denied, failures have the expected result, and results are repeatable."""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from webhooks.reviews.kinds import Kind

from ..fuzz.bodies import PATHS as RECORDED_PATHS
from ..support.api_server import accept_admission, accept_authentication, accept_authorization, accept_images
from ..support.builders import (
    Json,
    access_body,
    admission_body,
    encode_body,
    image_body,
    pod,
    recorded_bodies,
    token_body,
)
from ..support.clients import metric_samples
from ..support.policies import INVALID_CHANGES, INVALID_VALUES, invalid_outcomes
from ..support.servers import Connection, Gate, Reply, Server, await_true, review, serving
from .figures import Figure, Size

ROOT = Path(__file__).parents[2]
KINDS: tuple[Kind, ...] = get_args(Kind)
PATHS: Mapping[Kind, str] = {
    "mutating": "/admission/mutate",
    "validating": "/admission/validate",
    "image_policy": "/images",
    "authorizing": "/authorize",
    "authenticating": "/authenticate",
}


def asked(kind: Kind, about: str) -> Json:
    """Return a review of a kind about an object with a name."""
    if kind == "authorizing":
        return access_body(verb="get", resource="widgets", name=about)
    if kind == "authenticating":
        return token_body(about)
    if kind == "image_policy":
        return image_body(about)
    return admission_body("CREATE", pod(), resource="v1/widgets", name=about, uid="uid-1")


ACCEPT: Mapping[Kind, Callable[[Json, bytes], Json]] = {
    "mutating": partial(accept_admission, mutating=True),
    "validating": partial(accept_admission, mutating=False),
    "image_policy": accept_images,
    "authorizing": accept_authorization,
    "authenticating": accept_authentication,
}


def came_to(kind: Kind, sent: Json, reply: Reply) -> str:
    """Return the verdict in a response in one or two words."""
    if reply.status != 200:
        status = reply.json()
        assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", reply.status)
        assert (reply.headers.get("retry-after") == "1") == (reply.status in (429, 503))
        return f"HTTP {reply.status}"
    answer = ACCEPT[kind](sent, reply.body)
    if kind == "authenticating":
        said = "unauthenticated" if "error" in answer else "no opinion"
        return "authenticated" if answer["authenticated"] else said
    if kind == "authorizing":
        said = "denied" if answer.get("denied") else "no opinion"
        return "allowed" if answer["allowed"] else said
    if answer["allowed"]:
        ignored = "ignored" in answer.get("auditAnnotations", {}).values()
        assert kind == "image_policy" or ignored == any("ignored" in said for said in answer.get("warnings", []))
        return "ignored" if ignored else "allowed"
    return "denied" if kind == "image_policy" else f"denied {answer['status']['code']}"


# Invalid outcomes. The name of the object is the number of the outcome.

RUBBISH_POLICIES = """\
from tests.reliability.test_outcomes import KINDS, rubbish
from webhooks import *

OUTCOMES = {kind: rubbish(kind) for kind in KINDS}


def answered(kind, about):
    return OUTCOMES[kind][int(about)] if about.isdigit() else Allow()


@mutating("*/*", operations=["*"], isolation=ISOLATION)
def mutates(review):
    return Patch([{"op": "add", "path": "/a", "value": 1}]) if review.name == "a" else answered("mutating", review.name)


@validating("*/*", isolation=ISOLATION)
def validates(review):
    return answered("validating", review.name)


@authorizing("*/*", isolation=ISOLATION)
def authorizes(access):
    return answered("authorizing", access.name)


@authenticating(isolation=ISOLATION)
def authenticates(review):
    return answered("authenticating", review.token)


@image_policy(isolation=ISOLATION)
def images(review):
    return answered("image_policy", review.images[0])
"""


def rubbish(kind: Kind) -> list[Any]:
    """Return the invalid outcomes of a kind."""
    return [
        *INVALID_VALUES.values(),
        *invalid_outcomes(kind),
        *(INVALID_CHANGES.values() if kind == "mutating" else ()),
    ]


@pytest.mark.parametrize("isolation", [False, True], ids=["in the server", "isolated"])
def test_item_13_bad_answers_of_policies(isolation: bool, tmp_path: Path, figure: Figure) -> None:
    policies = RUBBISH_POLICIES.replace("ISOLATION", str(isolation))
    wrong, sent, patches = [], 0, 0
    with serving(tmp_path, policies=policies, PYTHONPATH=str(ROOT)) as server, server.connect() as connection:
        for kind in KINDS:
            refused = {"authorizing": "HTTP 500", "authenticating": "HTTP 500", "image_policy": "denied"}
            for number, outcome in enumerate(rubbish(kind)):
                body = asked(kind, str(number))
                reply = connection.post(PATHS[kind], encode_body(body))
                sent, patches = sent + 1, patches + (b'"patch"' in reply.body)
                if (found := came_to(kind, body, reply)) != refused.get(kind, "denied 500"):
                    wrong.append(f"{kind}: {outcome!a}: {found}")
        assert metric_samples(server, "webhooks_isolated_process_exits_total") == {}
        for operation, obj in (("DELETE", None), ("CREATE", pod())):
            body = admission_body(operation, obj, old=pod(), resource="v1/widgets", name="a")
            reply = connection.post(PATHS["mutating"], encode_body(body))
            changed = came_to("mutating", body, reply), b'"patch"' in reply.body
            assert changed == (("denied 500", False) if operation == "DELETE" else ("allowed", True))
    place = "isolated" if isolation else "in the server"
    figure(
        13,
        f"invalid outcomes and patches of policies {place}",
        f"{sent - len(wrong)} of {sent} denied, {patches} inapplicable patches sent",
        "all denied, none sent",
    )
    assert wrong == []
    assert patches == 0


# The matrix.

TABLE = """
what happens                      | on_error | mutating    | validating  | images      | access     | tokens
----------------------------------|----------|-------------|-------------|-------------|------------|----------------
a policy raises                   | unset    | denied 500  | denied 500  | denied      | HTTP 500   | HTTP 500
                                  | deny     | denied 500  | denied 500  | denied      | denied     | unauthenticated
                                  | allow    | ignored     | ignored     | ignored     | no opinion |
a policy answers rubbish          | unset    | denied 500  | denied 500  | denied      | HTTP 500   | HTTP 500
                                  | deny     | denied 500  | denied 500  | denied      | denied     | unauthenticated
                                  | allow    | ignored     | ignored     | ignored     | no opinion |
a policy is late                  | unset    | denied 504  | denied 504  | denied      | HTTP 500   | HTTP 500
                                  | deny     | denied 504  | denied 504  | denied      | denied     | unauthenticated
                                  | allow    | ignored     | ignored     | ignored     | no opinion |
a policy's process dies           | unset    | denied 500  | denied 500  | denied      | HTTP 500   | HTTP 500
                                  | deny     | denied 500  | denied 500  | denied      | denied     | unauthenticated
                                  | allow    | ignored     | ignored     | ignored     | no opinion |
the body is cut                   | any      | denied 400  | denied 400  | HTTP 400    | HTTP 400   | HTTP 400
the body is no review             | any      | HTTP 400    | HTTP 400    | HTTP 400    | HTTP 400   | HTTP 400
the body is nested too deep       | any      | denied 422  | denied 422  | HTTP 422    | HTTP 422   | HTTP 422
the body is too large             | any      | denied 413  | denied 413  | HTTP 413    | HTTP 413   | HTTP 413
the body is of another media type | any      | HTTP 415    | HTTP 415    | HTTP 415    | HTTP 415   | HTTP 415
too many reviews wait             | any      | HTTP 429    | HTTP 429    | HTTP 429    | HTTP 429   | HTTP 429
there is no turn in time          | any      | denied 503  | denied 503  | denied      | HTTP 503   | HTTP 503
the server itself fails           | any      | denied 500  | denied 500  | HTTP 500    | HTTP 500   | HTTP 500
"""
MODES = ("unset", "deny", "allow")
COLUMNS: tuple[Kind, ...] = ("mutating", "validating", "image_policy", "authorizing", "authenticating")
MOST = 65536  # bytes of a body

MATRIX_POLICIES = """\
import asyncio
import os
import time

import msgspec

from webhooks import *
from webhooks.reviews.kinds import CODECS

MODE = {}


def answered(about, well):
    if about == "a policy raises":
        raise ValueError("a secret detail")
    if about == "a policy answers rubbish":
        return True
    if about == "a policy is late":
        time.sleep(1)
    if about == "the server itself fails":
        return msgspec.structs.replace(well, audit={"fails": "yes"})
    return well


def dies(about, well):
    if about == "a policy's process dies":
        os._exit(1)
    return well


def said(access):
    return Allow() if access.name == "well" else NoOpinion()


PLAIN = {"timeout": 0.3, **MODE}
ISOLATED = {"isolation": True, **MODE}
TOKENS = {"on_error": None} if MODE == {"on_error": "allow"} else MODE  # which do not have it

mutates = mutating("widgets", name="mutates", **PLAIN)(lambda review: answered(review.name, Allow()))
mutates_apart = mutating("widgets", name="mutates_apart", **ISOLATED)(lambda review: dies(review.name, Allow()))
validates = validating("widgets", name="validates", **PLAIN)(lambda review: answered(review.name, Allow()))
validates_apart = validating("widgets", name="validates_apart", **ISOLATED)(lambda review: dies(review.name, Allow()))
images_ = image_policy(name="images", **PLAIN)(lambda review: answered(review.images[0], Allow()))
images_apart = image_policy(name="images_apart", **ISOLATED)(lambda review: dies(review.images[0], Allow()))
access = authorizing("*", name="access", **PLAIN)(lambda access: answered(access.name, said(access)))
access_apart = authorizing("*", name="access_apart", **ISOLATED)(lambda access: dies(access.name, NoOpinion()))
tokens = authenticating(name="tokens", **PLAIN | TOKENS)(lambda review: answered(review.token, Authenticated("jane")))
tokens_apart = authenticating(name="tokens_apart", **ISOLATED | TOKENS)(lambda review: dies(review.token, NoOpinion()))


@validating("gates")
async def waits(review):
    reader, writer = await asyncio.open_unix_connection(review.object["gate"])
    await reader.read()
    writer.close()
    return Allow()


def fail_at_the_end(codec):
    encode = codec.encode

    def encoded(review, outcome, *patch):
        if "fails" in outcome.audit:
            raise RuntimeError("a secret detail")
        return encode(review, outcome, *patch)

    codec.encode = encoded


for codec in set(CODECS.values()):
    fail_at_the_end(codec)
"""


def cells(mode: str) -> Iterator[tuple[str, Kind, str]]:
    """Yield the failure, the kind of review and the expected verdict for a mode."""
    what = ""
    for line in TABLE.strip().splitlines()[2:]:
        happens, on_error, *expected = (cell.strip() for cell in line.split("|"))
        what = happens or what
        if on_error in (mode, "any"):
            yield from ((what, kind, each) for kind, each in zip(COLUMNS, expected, strict=True) if each)


def spoilt(what: str, body: bytes) -> bytes:
    """Return a body with a failure."""
    more = {"nested too deep": b"[" * 300 + b"]" * 300, "too large": b'"%b"' % (b"x" * MOST)}
    for each, value in more.items():
        if each in what:
            return body[:-1] + b',"more":%b}' % value
    return {"the body is cut": body[:-1], "the body is no review": b"{}"}.get(what, body)


def happens(what: str, kind: Kind, server: Server) -> Reply:
    """Return the response to a review with a failure."""
    body = encode_body(asked(kind, what)).strip()
    if what in ("too many reviews wait", "there is no turn in time"):
        return crowd(server, what, PATHS[kind], body)
    media_type = "application/yaml" if "media type" in what else "application/json"
    with server.connect() as connection:
        reply = connection.post(PATHS[kind], spoilt(what, body), {"Content-Type": media_type})
        assert reply.closes == ("too large" in what or "media type" in what)
        return reply


def crowd(server: Server, what: str, path: str, body: bytes) -> Reply:
    """Return the response to a review that waits too long for a slot, or to one that is rejected by the full queue."""
    with Gate() as gate, server.connect() as first, server.connect() as second:
        first.request("POST", PATHS["validating"], review(resource="gates", gate=gate.path))
        gate.await_policy()
        second.request("POST", f"{path}?timeout=1s", body)
        await_true(lambda: metric_samples(server, "webhooks_reviews_queued") == {"": 1}, "one waits")
        third = server.post(path, body)
        late = second.reply()
        gate.open()
        assert first.reply().json()["response"]["allowed"] is True
        return third if what == "too many reviews wait" else late


def test_item_14_the_matrix_of_failures(tmp_path: Path, figure: Figure) -> None:
    def wrong(mode: str, server: Server) -> tuple[int, list[str]]:
        checked = list(cells(mode))
        found = []
        for what, kind, expected in checked:
            reply = happens(what, kind, server)
            assert b"secret" not in reply.body
            if (came := came_to(kind, asked(kind, what), reply)) != expected:
                found.append(f"{what}, {kind}, {mode}: {came}, not {expected}")
        for kind in COLUMNS:
            assert came_to(kind, asked(kind, "well"), happens("well", kind, server)) in ("allowed", "authenticated")
        return len(checked), found

    with ExitStack() as stack, ThreadPoolExecutor(len(MODES)) as pool:
        servers = []
        for mode in MODES:
            (tmp_path / mode).mkdir()
            given = {} if mode == "unset" else {"on_error": mode}
            policies = MATRIX_POLICIES.replace("MODE = {}", f"MODE = {given}")
            options = ("--max-in-flight", 1, "--max-queue", 1, "--max-body", MOST)
            servers.append(stack.enter_context(serving(tmp_path / mode, *options, policies=policies)))
        results = list(pool.map(wrong, MODES, servers))
    number = sum(count for count, _ in results)
    found = [each for _, some in results for each in some]
    figure(
        14,
        "12 failures, 5 kinds of reviews, 3 modes of on_error",
        f"{number - len(found)} of {number} cells as configured",
        "every one",
    )
    assert found == [], found


# Repeated reviews.

READY = """\
from webhooks import *

# First the policies that add containers, then those that change them.
proxy = bundled("inject_sidecar").bind(container={"name": "proxy", "image": "docker.io/proxy:1"}, namespaces=["*"])
labels = bundled("add_labels").bind(labels={"region": "eu-1", "example.com/team": "web"})
resources = bundled("default_resources").bind(limits={"memory": "128Mi"})
seccomp = bundled("default_seccomp")
pulled = bundled("image_pull_policy")
mirror = bundled("rewrite_registry").bind(registries={"docker.io": "mirror.example.com/hub"})


@mutating("*/*")
def patched(review):
    if "patched" in review.annotations:
        return Allow()
    some = {"patched": "yes"}
    return Patch([{"op": "add", "path": "/metadata/annotations", "value": {**review.annotations, **some}}])


one = validating("*/*", name="one")(lambda review: Deny("one says no", audit={"one": "no"}, warnings=["one", "all"]))
two = validating("*/*", name="two")(lambda review: Deny(", ".join(sorted({"b", "a", review.name}))))
three = validating("*/*", name="three")(lambda review: 1 / 0)
access = authorizing("*/*", paths=["*"], name="access")(lambda access: Deny(f"{access.user} may not"))
more = authorizing("*/*", paths=["*"], name="more")(lambda access: Deny(", ".join(access.groups)))
tokens = authenticating(name="tokens")(lambda review: Authenticated("jane", groups=["a", "b"], extra={"a": ["b"]}))
images_ = image_policy(name="images")(lambda review: Deny(", ".join(review.images), audit={"a": "b"}))
"""


def replayed(connection: Connection, path: str, body: bytes, times: int) -> set[bytes]:
    """Return the different responses to the same review, sent repeatedly."""
    return {connection.post(path, body).body for _ in range(times)}


def test_item_24_the_same_review_again(tmp_path: Path, figure: Figure, size: Size) -> None:
    """Policies move from threads to inline in the meantime, and two processes have different hash seeds."""
    times, answers = size.of(2_000, 10_000), {}
    with ExitStack() as stack:
        for seed in ("1", "2"):
            (tmp_path / seed).mkdir()
            server = stack.enter_context(serving(tmp_path / seed, policies=READY, PYTHONHASHSEED=seed))
            connection = stack.enter_context(server.connect())
            for kind in KINDS:
                body = encode_body(asked(kind, "web"))
                answers.setdefault(kind, set()).update(replayed(connection, PATHS[kind], body, times // 2))
    most = max(map(len, answers.values()))
    figure(
        24,
        f"the same review of each kind, {times:,} times",
        f"{most} answer" + "s" * (most > 1),
        "the same answer always",
    )
    assert {kind: len(found) for kind, found in answers.items()} == dict.fromkeys(KINDS, 1)


def test_item_24_called_again(tmp_path: Path, figure: Figure) -> None:
    """Recorded reviews, sent again with the patched object."""
    first, second, wrong = 0, 0, []
    with serving(tmp_path, policies=READY) as server, server.connect() as connection:
        assert RECORDED_PATHS["/mutate"] == PATHS["mutating"]
        for name, body in recorded_bodies("/mutate").items():
            answer = accept_admission(body, connection.post(PATHS["mutating"], encode_body(body)).body, mutating=True)
            if not answer["allowed"] or "operations" not in answer:
                continue
            first += 1
            again = {**body, "request": {**body["request"], "object": answer["object"]}}
            reply = connection.post(PATHS["mutating"], encode_body(again))
            response = json.loads(reply.body)["response"]
            if response != {"uid": body["request"]["uid"], "allowed": True}:
                wrong.append(name)
                second += "patch" in response
    figure(24, "reinvocation with bundled policies that mutate", f"{first} patches, then {second}", "then none")
    assert first > 10
    assert wrong == []

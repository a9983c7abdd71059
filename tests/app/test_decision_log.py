"""The decision log: the record of each review, and the data that a record never contains."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from webhooks import (
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Policy,
    Replace,
    Unauthenticated,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.app.decision_log import DecisionLog, DecisionRecord
from webhooks.auth.client import Client
from webhooks.errors import MalformedReview
from webhooks.http.responses import JsonResponse
from webhooks.observability.log_writer import MAX_LINE
from webhooks.reviews.kinds import CODECS
from webhooks.settings import Limits

from ..support.builders import RECORDED, Json, access_body, admission_body, encode_body, image_body, pod, token_body
from ..support.reviews import build_reviews
from ..support.servers import Server, await_true, review, serving

AnyPolicy = Policy[Any, Any]
VALIDATE, MUTATE = "/admission/validate", "/admission/mutate"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
POD = {
    "kind": "AdmissionReview",
    "uid": UID,
    "operation": "CREATE",
    "resource": "v1/pods",
    "namespace": "team-a",
    "name": "web",
    "user": "jane",
}


@mutating("pods", names=["new"])
def labelled(review: Any) -> Any:
    return Replace({**review.object, "metadata": {**review.object["metadata"], "labels": {"a": "b"}}})


@validating("*/*", operations=["*"])
def choosy(review: Any) -> Any:
    if review.name == "raises":
        raise ValueError("a detail")
    return Deny("no such name", code=422) if review.name == "bad" else Allow()


@validating("pods", names=["bad"])
def strict(review: Any) -> Any:
    return Deny("nor by me")


@validating("pods", names=["late"], timeout=0.01)
async def late(review: Any) -> Any:
    await asyncio.sleep(30)


@authorizing("*/*", paths=["*"])
def rbac(access: Any) -> Any:
    if access.verb == "raise":
        raise ValueError
    return {"get": Allow(reason="free"), "delete": Deny("kept")}.get(access.verb, NoOpinion())


@authenticating
def tokens(review: Any) -> Any:
    if review.token.startswith("raise"):
        raise ValueError(f"the token {review.token} is bad")
    if review.token == "echoed":
        return Unauthenticated(f"unknown token {review.token}")
    return Authenticated("jane") if review.token == "good" else Authenticated(review.token)


@image_policy
def pinned(review: Any) -> Any:
    return Allow() if all("@" in image for image in review.images) else Deny("not pinned")


POLICIES = (labelled, choosy, strict, late, rbac, tokens, pinned)


def lines(
    path: str,
    body: bytes,
    *policies: AnyPolicy,
    client: Client | None = None,
    denials_only: bool = False,
) -> list[bytes]:
    """Return the lines that are written for a body."""
    written_lines: list[bytes] = []
    reviews = build_reviews(
        policies or POLICIES, decision_log=DecisionLog(written_lines.append, denials_only=denials_only)
    )

    async def wait() -> JsonResponse:
        response = reviews.endpoint(path).answer(body, b"", *([client] if client else []))
        return response if isinstance(response, JsonResponse) else await response

    asyncio.run(wait())
    for line in written_lines:
        assert len(line) <= MAX_LINE
        assert line.isascii()
        assert line.decode().isprintable()
    return written_lines


def record_of(path: str, body: Any, *policies: AnyPolicy, **options: Any) -> Json:
    """Return the record of a review, without its time."""
    [line] = lines(path, body if isinstance(body, bytes) else encode_body(body), *policies, **options)
    record: Json = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record.pop("level") == "info"
    assert record.pop("logger") == "webhooks.decisions"
    return record


def without_timings(record: Json) -> Json:
    """Return a record with the names of the policies in place of their timings."""
    assert 0 <= record.pop("ms") < 60_000
    durations = record.pop("policies_ms", {})
    assert all(0 <= duration < 60_000 for duration in durations.values())
    return {**record, "policies": list(durations)}


def request_for(pod_name: str, **request: Any) -> Json:
    return admission_body("CREATE", pod(pod_name), **{"name": pod_name, **request})


@pytest.mark.parametrize(
    ("path", "body", "record"),
    [
        (VALIDATE, request_for("web"), {**POD, "verdict": "allow", "code": 200, "message": "", "policies": ["choosy"]}),
        (
            VALIDATE,
            request_for("bad"),
            {
                **POD,
                "name": "bad",
                "verdict": "deny",
                "code": 422,
                "message": "choosy: no such name; strict: nor by me",
                "deciding": {"choosy": "deny", "strict": "deny"},
                "policies": ["choosy", "strict"],
            },
        ),
        (
            VALIDATE,
            request_for("raises"),
            {
                **POD,
                "name": "raises",
                "verdict": "deny",
                "code": 500,
                "message": "policy 'choosy' failed",
                "deciding": {"choosy": "policyfailure"},
                "policies": ["choosy"],
            },
        ),
        (
            VALIDATE,
            request_for("late"),
            {
                **POD,
                "name": "late",
                "verdict": "deny",
                "code": 504,
                "message": "policy 'late' timed out",
                "deciding": {"late": "policytimeout"},
                "policies": ["choosy", "late"],
            },
        ),
        (
            MUTATE,
            request_for("new", dryRun=True),
            {
                **POD,
                "name": "new",
                "dry_run": True,
                "verdict": "patch",
                "code": 200,
                "message": "",
                "deciding": {"labelled": "replace"},
                "policies": ["labelled"],
            },
        ),
        (
            MUTATE,
            request_for("old"),
            {**POD, "name": "old", "verdict": "allow", "code": 200, "message": "", "policies": []},
        ),
        (
            VALIDATE,
            admission_body(
                "CONNECT", resource="v1/pods", subResource="exec", namespace=..., userInfo=..., dryRun=..., options=...
            ),
            {
                "kind": "AdmissionReview",
                "uid": UID,
                "operation": "CONNECT",
                "resource": "v1/pods/exec",
                "name": "web",
                "verdict": "allow",
                "code": 200,
                "message": "",
                "policies": ["choosy"],
            },
        ),
        (
            VALIDATE,
            admission_body("CREATE", {"metadata": {"generateName": "web-"}}, resource="apps/v1/deployments", name=...),
            {
                **POD,
                "resource": "apps/v1/deployments",
                "name": "web-",
                "verdict": "allow",
                "code": 200,
                "message": "",
                "policies": ["choosy"],
            },
        ),
        (
            "/authorize",
            access_body(verb="get", resource="pods", subresource="log", version="v1", namespace="team-a", name="web"),
            {
                "kind": "SubjectAccessReview",
                "operation": "get",
                "resource": "v1/pods/log",
                "namespace": "team-a",
                "name": "web",
                "user": "jane",
                "verdict": "allow",
                "code": 200,
                "message": "free",
                "deciding": {"rbac": "allow"},
                "policies": ["rbac"],
            },
        ),
        (
            "/authorize",
            access_body(nonResourceAttributes={"path": "/healthz", "verb": "list"}),
            {
                "kind": "SubjectAccessReview",
                "operation": "list",
                "resource": "/healthz",
                "user": "jane",
                "verdict": "noopinion",
                "code": 200,
                "message": "",
                "policies": ["rbac"],
            },
        ),
        (
            "/authorize",
            access_body(nonResourceAttributes={"path": "/healthz", "verb": "raise"}),
            {
                "kind": "SubjectAccessReview",
                "operation": "raise",
                "resource": "/healthz",
                "user": "jane",
                "verdict": "failed",
                "code": 500,
                "message": "",
                "deciding": {"rbac": "policyfailure"},
                "policies": ["rbac"],
            },
        ),
        (
            "/authenticate",
            token_body("good"),
            {
                "kind": "TokenReview",
                "user": "jane",
                "verdict": "authenticated",
                "code": 200,
                "message": "",
                "deciding": {"tokens": "authenticated"},
                "policies": ["tokens"],
            },
        ),
        (
            "/images",
            image_body("a", "b@c"),
            {
                "kind": "ImageReview",
                "namespace": "team-a",
                "images": ["a", "b@c"],
                "verdict": "deny",
                "code": 403,
                "message": "not pinned",
                "deciding": {"pinned": "deny"},
                "policies": ["pinned"],
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_records(path: str, body: Json, record: Json) -> None:
    assert without_timings(record_of(path, body)) == record


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_denials_that_are_not_enforced_are_recorded(mode: str) -> None:
    lines: list[bytes] = []
    policies = [replace(validating("pods")(function), mode=mode) for function in (_one, _other)]
    endpoint = build_reviews(policies, decision_log=DecisionLog(lines.append)).endpoint(VALIDATE)
    asyncio.run(_awaited(endpoint.answer(json.dumps(admission_body(obj=pod())).encode(), b"")))
    [record] = map(json.loads, lines)
    assert (record["verdict"], record["message"]) == ("allow", "_one: no; _other: never")
    assert record["deciding"] == {"_one": "deny", "_other": "deny"}


def _one(review: Any) -> Deny:
    return Deny("no")


def _other(review: Any) -> Deny:
    return Deny("never")


async def _awaited(answer: Any) -> Any:
    return await answer


@pytest.mark.parametrize(
    ("path", "body", "uid", "code"),
    [
        (VALIDATE, {"request": {"uid": UID}}, UID, 400),
        (VALIDATE, {"request": {}}, None, 400),
        (VALIDATE, admission_body("EAT", pod()), UID, 400),
        (VALIDATE, b"{", None, 400),
        ("/authorize", {}, None, 400),
    ],
)
def test_a_malformed_body(path: str, body: Any, uid: str | None, code: int) -> None:
    record = record_of(path, body)
    assert (record["verdict"], record["code"], record.get("uid")) == ("malformed", code, uid)
    assert record["message"].startswith("malformed review: ")


def test_a_body_that_is_too_large() -> None:
    found: list[bytes] = []
    endpoint = build_reviews(POLICIES, decision_log=DecisionLog(found.append)).endpoint(VALIDATE)
    endpoint.reject(MalformedReview("too large", code=413), encode_body(request_for("web"))[:200], Client("apiserver"))
    record = json.loads(found[0])
    assert (record["verdict"], record["code"], record["client"]) == ("malformed", 413, "apiserver")


def test_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CODECS["validating"], "encode", lambda *_: 1 / 0)
    record = record_of(VALIDATE, request_for("web"))
    assert (record["verdict"], record["code"], record["uid"]) == ("error", 500, UID)
    assert "zero" not in json.dumps(record)


def test_reviews_without_a_slot() -> None:
    """One review finds the queue full, and one gets no slot in time."""
    found: list[bytes] = []
    limits = Limits(max_in_flight=1, max_queue=1)
    reviews = build_reviews(POLICIES, limits=limits, decision_log=DecisionLog(found.append))
    endpoint = reviews.endpoint(VALIDATE)

    async def overload() -> None:
        bodies = [encode_body(request_for("late", uid=uid)) for uid in ("first", "late", "shed")]
        responses = [endpoint.answer(body, b"timeout=100ms") for body in bodies]
        waiting = [response for response in responses if not isinstance(response, JsonResponse)]
        assert len(waiting) == 2
        await asyncio.gather(*waiting)

    asyncio.run(overload())
    records = {record["uid"]: record for record in map(json.loads, found)}
    assert (records["shed"]["verdict"], records["shed"]["code"]) == ("shed", 429)
    assert len(records) == 3


def test_the_client_is_recorded() -> None:
    assert record_of(VALIDATE, request_for("web"), client=Client("apiserver", "jane"))["client"] == "apiserver as jane"


@pytest.mark.parametrize(
    ("path", "body", "is_recorded"),
    [
        (VALIDATE, request_for("web"), False),
        (MUTATE, request_for("new"), False),
        ("/authorize", access_body(verb="get", resource="pods"), False),
        ("/authorize", access_body(verb="list", resource="pods"), False),
        ("/authenticate", token_body("good"), False),
        (VALIDATE, request_for("bad"), True),
        (VALIDATE, {}, True),
        ("/authorize", access_body(verb="delete", resource="pods"), True),
        ("/authorize", access_body(verb="raise", resource="pods"), True),
        ("/authenticate", token_body("echoed"), True),
        ("/images", image_body("a"), True),
    ],
)
def test_denials_only(path: str, body: Json, is_recorded: bool) -> None:
    assert len(lines(path, encode_body(body), denials_only=True)) == is_recorded


# Data that is never written.


@pytest.mark.parametrize("token", ["raises-3f9a", "echoed", "someone-7c"])
def test_tokens_are_masked(token: str) -> None:
    """Even if a policy's message contains them."""
    [line] = lines("/authenticate", encode_body(token_body(token)))
    assert token.encode() not in line


@validating("secrets", operations=["*"])
def quotes(review: Any) -> Any:
    obj = review.target
    return Deny(f"refused: {obj.get('data')} {obj.get('stringData')} {obj['metadata']}")


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_the_values_of_secrets_are_masked(operation: str) -> None:
    encoded = b64encode(b"hunter2").decode()
    obj = {
        "kind": "Secret",
        "metadata": {"name": "web", "annotations": {"last": '{"password":"hunter2"}'}},
        "data": {"password": encoded, "odd": 1},
        "stringData": {"key": 'a\n"b"'},
    }
    kind = {"group": "", "version": "v1", "kind": "Secret"}
    objects = {"obj": None, "old": obj} if operation == "DELETE" else {"obj": obj, "old": {"kind": "Secret"}}
    record = record_of(VALIDATE, admission_body(operation, **objects, resource="v1/secrets", kind=kind), quotes)
    assert record["verdict"] == "deny"
    assert record["message"].startswith("refused: {'password': '***'")
    for hidden in ("hunter2", encoded, 'a\\n"b"'):
        assert hidden not in record["message"]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_no_content_of_objects_is_recorded(operation: str) -> None:
    canary = {"canary": "canary"}
    obj = {"kind": "Pod", "metadata": {"labels": canary, "annotations": canary}, "spec": canary, "canary": "canary"}
    body = admission_body(operation, obj, old=obj, options=canary, userInfo={"username": "jane", "extra": canary})
    assert b"canary" not in lines(VALIDATE, encode_body(body))[0]


@pytest.mark.parametrize("file", sorted(RECORDED.glob("*.json")), ids=lambda file: file.stem)
def test_the_requests_of_an_api_server(file: Path) -> None:
    """Every review has a record with nothing but names."""
    body = json.loads(file.read_bytes())["body"]
    if body["kind"] == "EventList":
        return
    record = record_of(PATHS[body["kind"]], body)
    assert record.keys() <= {*DecisionRecord.__struct_fields__}
    request = body.get("request", {})
    assert record.get("uid") == request.get("uid")
    assert record.get("name", "") == request.get("name", record.get("name", ""))


PATHS = {
    "AdmissionReview": VALIDATE,
    "SubjectAccessReview": "/authorize",
    "TokenReview": "/authenticate",
    "ImageReview": "/images",
}


# Values from clients.


@pytest.mark.parametrize(
    "text", ["two\nlines", '"},{"level":"error', "\x7f\x1b[31m", "\x85\u2028", "\U0001f600", "Grüße"], ids=ascii
)
def test_text_cannot_break_out_of_its_field(text: str) -> None:
    record = record_of(VALIDATE, request_for("web", namespace=text, userInfo={"username": text}))
    assert (record["namespace"], record["user"], record["uid"]) == (text, text, UID)


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_long_values_are_cut(field: str) -> None:
    record = record_of(VALIDATE, request_for("web", **{field: "x" * 1_000_000}))
    assert record["uid"] == UID
    assert "1000000 characters" in record[field]
    assert record_of("/images", image_body(*(f"image-{n}" for n in range(1000))))["images"][0] == "image-0"


@pytest.mark.parametrize("user", [{"username": 1}, {"username": None}, [], None, "jane"])
def test_unreadable_users_are_left_out(user: Any) -> None:
    record = record_of(VALIDATE, request_for("web", userInfo=user))
    assert (record["uid"], "user" in record) == (UID, False)


def test_unreadable_names_are_left_out() -> None:
    body = admission_body("CREATE", {"metadata": {"name": 1}}, name="")
    assert record_of(VALIDATE, body, validating("nodes", name="other")(lambda review: Allow()))["uid"] == UID


# A running server.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), "--decision-log", "all", "--workers", 2) as server:
        yield server


def decisions(server: Server, start: int = 0) -> list[Json]:
    return [record for record in server.logs(start) if record["logger"] == "webhooks.decisions"]


def test_every_review_of_several_processes_has_its_record(server: Server) -> None:
    uids = {f"uid-{number}" for number in range(100)}
    for uid in uids:
        server.post(VALIDATE, review(uid=uid))
    await_true(lambda: len(decisions(server)) >= len(uids), "all records")
    assert {record["uid"] for record in decisions(server)} == uids


def test_the_decision_and_the_failure_have_the_same_uid(server: Server) -> None:
    start = len(server.errors.lines)
    server.post(VALIDATE, review("raises", uid="fails"))
    await_true(lambda: len(server.logs(start)) == 2, "both records")
    assert {record["logger"]: record["uid"] for record in server.logs(start)} == {
        "webhooks.policies": "fails",
        "webhooks.decisions": "fails",
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_the_last_records_are_written_at_shutdown(workers: int, tmp_path: Path) -> None:
    with serving(tmp_path, "--decision-log", "all", "--workers", workers) as server:
        for number in range(20):
            server.post(VALIDATE, review(uid=f"uid-{number}"))
        assert server.stop() == 0
        server.errors.all()
        assert len(decisions(server)) == 20


def test_a_flag_selects_the_reviews_that_are_logged(tmp_path: Path) -> None:
    with serving(tmp_path, "--decision-log", "denials") as server:
        for name in ("web", "denied", "web"):
            server.post(VALIDATE, review(name, uid=name))
        assert server.stop() == 0
        server.errors.all()
        assert [record["uid"] for record in decisions(server)] == ["denied"]

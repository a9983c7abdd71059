"""The response of the endpoints to each result, without HTTP."""

import asyncio
import gc
import json
import logging
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from webhooks import (
    AdmissionReview,
    Allow,
    Authenticated,
    Deny,
    Policy,
    Replace,
    Unauthenticated,
    authenticating,
    authorizing,
    image_policy,
    mutating,
    validating,
)
from webhooks.app import prometheus
from webhooks.app.endpoints import Endpoint
from webhooks.errors import MalformedReview
from webhooks.http.responses import JsonResponse
from webhooks.settings import Limits

from ..support.api_server import accept_admission, accept_authentication, accept_authorization, accept_images
from ..support.builders import access_body, admission_body, encode_body, image_body, make_inline, pod, token_body
from ..support.reviews import build_reviews

AnyPolicy = Policy[Any, Any]

BODIES = {
    "/admission/mutate": admission_body("CREATE", pod()),
    "/admission/validate": admission_body("CREATE", pod()),
    "/authorize": access_body(verb="get", resource="pods"),
    "/authenticate": token_body(),
    "/images": image_body("a"),
}
PATHS = tuple(BODIES)
DECORATORS: dict[str, Callable[..., Any]] = {
    "/admission/mutate": lambda **options: mutating("pods", **options),
    "/admission/validate": lambda **options: validating("pods", **options),
    "/authorize": lambda **options: authorizing("pods", **options),
    "/authenticate": authenticating,
    "/images": image_policy,
}


def post(path: str, *policies: AnyPolicy, body: bytes | None = None, query: bytes = b"") -> JsonResponse:
    """Return the response of an endpoint."""
    endpoint = build_reviews(policies).endpoint(path)

    async def wait() -> JsonResponse:
        response = endpoint.answer(encode_body(BODIES[path]) if body is None else body, query)
        return response if isinstance(response, JsonResponse) else await response

    return asyncio.run(wait())


def parsed(path: str, response: JsonResponse) -> Any:
    """Parse a response as an API server does."""
    assert response.code == 200
    sent = BODIES[path]
    match path:
        case "/authorize":
            return accept_authorization(sent, response.body)
        case "/authenticate":
            return accept_authentication(sent, response.body)
        case "/images":
            return accept_images(sent, response.body)
        case _:
            return accept_admission(sent, response.body, mutating=path.endswith("mutate"))


def policy_for(path: str, outcome: Any, *, is_async: bool = False, **options: Any) -> AnyPolicy:
    """Return a policy that returns a value, or raises it."""

    def policy(review: Any) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def async_policy(review: Any) -> Any:
        return policy(review)

    decorated: AnyPolicy = DECORATORS[path](name="policy", **options)(async_policy if is_async else policy)
    return decorated


# Verdicts.


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("path", "outcome", "expected"),
    [
        ("/admission/mutate", Allow(), {"allowed": True}),
        ("/admission/mutate", Replace(pod(labels={"a": "b"})), {"allowed": True, "object": pod(labels={"a": "b"})}),
        ("/admission/mutate", Deny("no"), {"allowed": False}),
        (
            "/admission/validate",
            Allow(warnings=["w"], audit={"k": "v"}),
            {"warnings": ["w"], "auditAnnotations": {"k": "v"}},
        ),
        (
            "/admission/validate",
            Deny("no", "Invalid", 422),
            {"status": {"message": "no", "reason": "Invalid", "code": 422}},
        ),
        ("/authorize", Allow(reason="r"), {"allowed": True, "reason": "r"}),
        ("/authorize", Deny("no"), {"allowed": False, "denied": True, "reason": "no"}),
        (
            "/authenticate",
            Authenticated("jane", groups=["a"]),
            {"authenticated": True, "user": {"username": "jane", "groups": ["a"]}},
        ),
        ("/authenticate", Unauthenticated("no"), {"authenticated": False, "error": "no"}),
        ("/images", Allow(), {"allowed": True}),
        ("/images", Deny("no"), {"allowed": False, "reason": "no"}),
    ],
)
def test_verdicts(path: str, outcome: Any, expected: Any, is_async: bool) -> None:
    result = parsed(path, post(path, policy_for(path, outcome, is_async=is_async)))
    assert {name: result.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admission/mutate", ("allowed", True)),
        ("/admission/validate", ("allowed", True)),
        ("/authorize", ("allowed", False)),
        ("/authenticate", ("authenticated", False)),
        ("/images", ("allowed", True)),
    ],
)
def test_no_policies(path: str, expected: tuple[str, bool]) -> None:
    result = parsed(path, post(path))
    assert result[expected[0]] is expected[1]
    assert not result.get("denied")


def test_one_policy_alone() -> None:
    policies = [
        policy_for("/admission/validate", Deny("first")).with_name("first"),
        policy_for("/admission/validate", Deny("second")).with_name("second"),
    ]
    body = encode_body(BODIES["/admission/validate"])
    response = post("/admission/validate/second", *policies, body=body)
    assert json.loads(response.body)["response"]["status"]["message"] == "second"
    other = encode_body(admission_body("CREATE", pod(), resource="v1/nodes"))
    assert json.loads(post("/admission/validate/second", *policies, body=other).body)["response"]["allowed"] is True


def test_one_policy_alone_by_its_name_in_dns() -> None:
    """API servers allow no underscore there. The exact name of another policy comes first."""
    body = encode_body(BODIES["/admission/validate"])
    names = ("Owner_Label", "two_words", "two-words")
    policies = [policy_for("/admission/validate", Deny(name)).with_name(name) for name in names]
    for path, name in [*((name, name) for name in names), ("owner-label", "Owner_Label")]:
        response = json.loads(post(f"/admission/validate/{path}", *policies, body=body).body)
        assert response["response"]["status"]["message"] == name


# Failures of policies.

SECRET = "details that clients must not see"
FAILURES = {
    "raises": ValueError(SECRET),
    "asserts": AssertionError(SECRET),
    "exits": SystemExit(SECRET),
    "is interrupted": KeyboardInterrupt(SECRET),
    "runs out of memory": MemoryError(SECRET),
    "recurses": RecursionError(SECRET),
    "is cancelled": asyncio.CancelledError(SECRET),
    "stops": StopIteration(SECRET),
    "returns None": None,
    "returns True": True,
    "returns a text": SECRET,
    "returns a class": Allow,
    "returns a dict": {"allowed": True},
    "returns a bad message": Deny(1),  # type: ignore[arg-type]
    "returns a bad code": Deny(SECRET, code=200),
}


def assert_failed(path: str, response: JsonResponse, code: int = 500) -> None:
    """Assert that a failure does not allow, denies only where it may, and does not reveal its details."""
    assert SECRET not in response.body.decode()
    if path in ("/authorize", "/authenticate"):
        assert response.code == 500
        assert json.loads(response.body)["kind"] == "Status"
        return
    result = parsed(path, response)
    assert result["allowed"] is False
    assert path == "/images" or result["status"]["code"] == code


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("failure", FAILURES)
def test_failures(failure: str, path: str, is_async: bool) -> None:
    response = post(path, policy_for(path, FAILURES[failure], is_async=is_async))
    assert_failed(path, response)


@pytest.mark.parametrize(
    ("path", "outcome"),
    [
        ("/admission/validate", Replace({})),
        ("/admission/mutate", Authenticated("jane")),
        ("/images", Replace({})),
        ("/authorize", Authenticated("jane")),
        ("/authenticate", Allow()),
        ("/authenticate", Authenticated("")),
        ("/authenticate", Authenticated("jane", groups="admins")),
    ],
)
def test_outcomes_of_another_kind(path: str, outcome: Any) -> None:
    assert_failed(path, post(path, policy_for(path, outcome)))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_async", [False, True])
def test_failures_that_deny(path: str, is_async: bool) -> None:
    result = parsed(path, post(path, policy_for(path, ValueError(SECRET), is_async=is_async, on_error="deny")))
    assert result.get("allowed", False) is result.get("authenticated", False) is False
    if path == "/authorize":
        assert result["denied"] is True
    assert SECRET not in json.dumps(result)


@pytest.mark.parametrize("path", ["/admission/mutate", "/admission/validate", "/images"])
def test_ignored_failures_are_noted(path: str) -> None:
    result = parsed(path, post(path, policy_for(path, ValueError(SECRET), on_error="allow")))
    assert result["allowed"] is True
    assert result["auditAnnotations"] == {"policy.failed": "ignored"}
    assert path == "/images" or result["warnings"] == ["policy 'policy' failed and was ignored"]


def test_authorizers_whose_failure_is_ignored_have_no_opinion() -> None:
    result = parsed("/authorize", post("/authorize", policy_for("/authorize", ValueError(), on_error="allow")))
    assert result == {"allowed": False, "reason": "policy 'policy' failed"}


# Deadlines.


def sleeping(path: str, **options: Any) -> AnyPolicy:
    async def sleeps(review: Any) -> Any:
        await asyncio.sleep(30)

    decorated: AnyPolicy = DECORATORS[path](name="sleeps", **options)(sleeps)
    return decorated


@pytest.mark.parametrize("path", PATHS)
def test_a_policy_that_times_out(path: str) -> None:
    assert_failed(path, post(path, sleeping(path, timeout=0.01)), code=504)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [(b"timeout=100ms", 0.1), (b"a=b&timeout=200ms", 0.2), (b"timeout=1s", 1), (b"timeout=0.1s", 0.1)],
)
def test_the_timeout_of_the_client(query: bytes, seconds: float) -> None:
    started = time.monotonic()
    assert_failed("/images", post("/images", sleeping("/images"), query=query))
    assert time.monotonic() - started < seconds + 0.2


@pytest.mark.parametrize(
    "query", [b"timeout=", b"timeout=x", b"timeout=-1s", b"timeout=\xff", b"timeout=10", b"timeout"]
)
def test_an_invalid_timeout(query: bytes) -> None:
    """The policy's own timeout applies."""
    assert_failed("/images", post("/images", sleeping("/images", timeout=0.05), query=query))


# Internal errors, and bodies that are not reviews.


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*arguments: Any) -> Any:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("webhooks.engine.dispatcher.Dispatcher.decide", explode)


@pytest.mark.parametrize("path", PATHS)
def test_an_internal_error(path: str, broken: None) -> None:
    response = post(path)
    assert SECRET not in response.body.decode()
    if path.startswith("/admission"):
        status = parsed(path, response)["status"]
        assert (status["code"], status["reason"]) == (500, "InternalError")
    else:
        assert response.code == 500


@pytest.mark.parametrize("path", PATHS)
def test_an_error_of_a_decoder(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(body: bytes) -> Any:
        raise RuntimeError(SECRET)

    endpoint = build_reviews([]).endpoint(path)
    assert isinstance(endpoint, Endpoint)
    monkeypatch.setattr(endpoint._codec, "decode", explode)
    response = endpoint.answer(encode_body(BODIES[path]), b"")
    assert isinstance(response, JsonResponse)
    assert response.code == (200 if path.startswith("/admission") else 500)
    assert b'"allowed":true' not in response.body
    assert SECRET not in response.body.decode()


@pytest.mark.parametrize("path", PATHS)
def test_bodies_that_are_not_reviews(path: str) -> None:
    for body in (b"", b"{", b"[]", b'{"kind":"AdmissionReview","apiVersion":"v1","request":{}}'):
        response = post(path, body=body)
        status = json.loads(response.body)
        assert (response.code, status["kind"], status["code"], status["reason"]) == (400, "Status", 400, "BadRequest")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("more", "code", "reason"),
    [
        (b'"more":}', 400, "BadRequest"),
        (b'"more":NaN}', 400, "BadRequest"),
        (b'"more":' + b"[" * 300 + b"]" * 300 + b"}", 422, "Invalid"),
        (b'"more":9223372036854775808}', 422, "Invalid"),
    ],
    ids=["no JSON", "NaN", "deep", "large"],
)
def test_malformed_reviews(path: str, more: bytes, code: int, reason: str) -> None:
    """The reason matches the code: clients use either."""
    response = post(path, body=encode_body(BODIES[path]).strip().removesuffix(b"}") + b"," + more)
    if path.startswith("/admission"):
        denial = json.loads(response.body)["response"]
        assert (response.code, denial["uid"], denial["allowed"]) == (200, BODIES[path]["request"]["uid"], False)
        status = denial["status"]
    else:
        assert response.code == code
        status = json.loads(response.body)
    assert (status["code"], status["reason"]) == (code, reason)


@pytest.mark.parametrize(
    "value", [b"NaN", b"Infinity", b"01", b"{", b'"\xff"', b'"\xed\xa0\x80"', b'"\x01"', b"'a'", b"1,}"], ids=ascii
)
def test_fields_that_no_policy_reads_must_be_json(value: bytes) -> None:
    @validating("pods")
    def reads_nothing(review: Any) -> Allow:
        return Allow()

    body = encode_body(BODIES["/admission/validate"]).replace(b'"registry.k8s.io/app:1"', value)
    response = json.loads(post("/admission/validate", reads_nothing, body=body).body)["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


def test_bodies_that_are_too_large() -> None:
    endpoint = build_reviews([]).endpoint("/admission/validate")
    denied = endpoint.reject(MalformedReview("too large", code=413), encode_body(BODIES["/admission/validate"])[:4096])
    status = json.loads(denied.body)["response"]["status"]
    assert (denied.code, denied.close, status["code"], status["reason"]) == (200, True, 413, "RequestEntityTooLarge")
    rejected = endpoint.reject(MalformedReview("too large", code=413), b"x")
    assert (rejected.code, rejected.close) == (413, True)


@pytest.mark.parametrize(
    "request_",
    [
        {"obj": {"metadata": "text"}},
        {"obj": {"metadata": []}},
        {"obj": {"metadata": {"labels": "text"}}},
        {"obj": {"metadata": {"annotations": ["text"]}}},
        {"userInfo": "text"},
        {"userInfo": {"username": 1}},
        {"userInfo": {"groups": "text"}},
        {"userInfo": {"extra": {"a": "text"}}},
        {"options": 9223372036854775808},
    ],
    ids=str,
)
def test_fields_of_a_wrong_type_are_malformed(request_: dict[str, Any]) -> None:
    """They are denied, although failures of this policy are ignored."""

    @validating("pods", on_error="allow")
    def reads(review: Any) -> Allow:
        _ = review.labels, review.annotations, review.user, review.options
        return Allow()

    body = encode_body(admission_body("CREATE", **{"obj": pod(), **request_}))
    response = json.loads(post("/admission/validate", reads, body=body).body)["response"]
    assert response["allowed"] is False
    assert response["status"]["code"] in (400, 422)


# Overload.


def waiting(path: str) -> tuple[AnyPolicy, asyncio.Event]:
    """Return a policy that returns when the event is set."""
    event = asyncio.Event()

    async def policy(review: Any) -> Any:
        await event.wait()
        return Authenticated("jane") if path == "/authenticate" else Allow()

    decorated: AnyPolicy = DECORATORS[path](name="waiting")(policy)
    return decorated, event


def is_positive(path: str, response: JsonResponse) -> Any:
    """Return whether a response allows or authenticates."""
    assert response.code == 200
    result = parsed(path, response)
    return result["authenticated" if path == "/authenticate" else "allowed"]


@pytest.mark.parametrize("path", PATHS)
def test_overload(path: str) -> None:
    """One review has a slot, one waits and gets it, one waits in vain, and one is rejected before it is decoded."""

    async def overload() -> None:
        policy, event = waiting(path)
        endpoint = build_reviews([policy], limits=Limits(max_in_flight=1, max_queue=2)).endpoint(path)
        body = encode_body(BODIES[path])
        running, queued, late = (endpoint.answer(body, query) for query in (b"", b"", b"timeout=100ms"))
        assert not isinstance(running, JsonResponse)
        assert not isinstance(queued, JsonResponse)
        assert not isinstance(late, JsonResponse)
        tasks = [asyncio.ensure_future(response) for response in (running, queued)]
        shed = endpoint.answer(b"not decoded", b"")
        assert isinstance(shed, JsonResponse)
        assert (shed.code, shed.close, json.loads(shed.body)["reason"]) == (429, False, "TooManyRequests")
        rejected = await late
        if path in ("/authorize", "/authenticate"):  # a denial would be cached
            assert (rejected.code, json.loads(rejected.body)["reason"]) == (503, "ServiceUnavailable")
        else:
            assert is_positive(path, rejected) is False
            status = json.loads(rejected.body).get("response", {}).get("status", {"code": 503})
            assert status["code"] == 503
        event.set()
        for task in tasks:
            assert is_positive(path, await task) is True

    asyncio.run(overload())


@pytest.mark.parametrize("path", PATHS)
def test_inline_reviews_are_never_rejected(path: str) -> None:
    async def overload() -> None:
        slow = "/authorize" if path != "/authorize" else "/images"
        policy, event = waiting(slow)
        quick = policy_for(path, Authenticated("jane") if path == "/authenticate" else Allow())
        reviews = build_reviews([policy, quick], limits=Limits(max_in_flight=1, max_queue=0))
        make_inline(reviews.executor, quick)
        running = reviews.endpoint(slow).answer(encode_body(BODIES[slow]), b"")
        assert not isinstance(running, JsonResponse)
        response = reviews.endpoint(path).answer(encode_body(BODIES[path]), b"")
        assert isinstance(response, JsonResponse)
        assert is_positive(path, response) is True
        event.set()
        await running

    asyncio.run(overload())


def test_overload_is_counted() -> None:
    async def overload() -> None:
        policy, event = waiting("/authorize")
        reviews = build_reviews([policy], limits=Limits(max_in_flight=1, max_queue=1))
        endpoint, body = reviews.endpoint("/authorize"), encode_body(BODIES["/authorize"])
        running, late = endpoint.answer(body, b""), endpoint.answer(body, b"timeout=10ms")
        assert not isinstance(running, JsonResponse)
        assert not isinstance(late, JsonResponse)
        endpoint.answer(body, b"")
        text = prometheus.render(reviews.metrics.snapshot).decode()
        assert "webhooks_reviews_in_flight 1.0\n" in text
        assert "webhooks_reviews_queued 1.0\n" in text
        await late
        event.set()
        await running
        text = prometheus.render(reviews.metrics.snapshot).decode()
        assert "webhooks_reviews_in_flight 0.0\n" in text
        assert "webhooks_reviews_queued 0.0\n" in text
        for code in (429, 503):
            assert f'{{code="{code}",kind="SubjectAccessReview",verdict="shed"}} 1.0' in text

    asyncio.run(overload())


def test_a_review_leaves_nothing_for_the_garbage_collector() -> None:
    """An object consists of thousands of values. Collecting garbage would delay other reviews."""

    @mutating("pods")
    def uses_all(review: AdmissionReview) -> Any:
        for container in review.containers():
            container.spec["imagePullPolicy"] = f"{review.user.username}{review.labels}{container.image}"
        return Replace(review.object)

    reviews = build_reviews([uses_all])
    make_inline(reviews.executor, uses_all)
    endpoint, body = reviews.endpoint("/admission/mutate"), encode_body(admission_body("CREATE", pod()))
    endpoint.answer(body, b"")
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            endpoint.answer(body, b"")
        assert gc.collect() == 0
    finally:
        gc.enable()


class _Large:
    """An object that a policy has in a local variable when it fails."""


@pytest.mark.parametrize("failure", [ValueError("x"), MalformedReview("x"), SystemExit(1)])
@pytest.mark.parametrize("mode", ["inline", "thread", "coroutine"])
@pytest.mark.parametrize("path", PATHS)
def test_a_failure_leaves_nothing_for_the_garbage_collector(path: str, mode: str, failure: BaseException) -> None:
    references = []

    def fail() -> Any:
        large = _Large()
        references.append(weakref.ref(large))
        try:
            raise KeyError(large)
        except KeyError:
            raise type(failure)(*failure.args) from None

    def call(review: Any) -> Any:
        return fail()

    async def call_async(review: Any) -> Any:
        return fail()

    policy = DECORATORS[path](name="p")(call_async if mode == "coroutine" else call)
    reviews = build_reviews([policy])
    if mode == "inline":
        make_inline(reviews.executor, policy)
    endpoint = reviews.endpoint(path)

    async def wait() -> bool:
        response = endpoint.answer(encode_body(BODIES[path]), b"")
        if not isinstance(response, JsonResponse):
            await response
        await asyncio.sleep(0)  # callbacks release what they refer to
        return references[-1]() is None

    logging.disable()  # a captured record would refer to the traceback
    gc.disable()
    try:
        assert asyncio.run(wait()) or _await_released(references[-1])
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


def _await_released(reference: Callable[[], Any]) -> bool:
    """Wait until a thread has released the object too. The garbage collector is disabled."""
    deadline = time.monotonic() + 2
    while reference() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return reference() is None

"""Request bodies as API servers send them, the reviews in them, and verdicts without a server."""

import asyncio
import json
from pathlib import Path
from typing import Any

from webhooks.engine.concurrency import ConcurrencyLimiter
from webhooks.engine.dispatcher import Dispatcher, Verdict
from webhooks.engine.executor import InlineState, PolicyExecutor
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy.model import Policy
from webhooks.policy.registry import Registry
from webhooks.reviews import admission, admission_codec, authentication, authorization, images
from webhooks.reviews.kinds import CODECS, Kind
from webhooks.settings import Limits

Json = dict[str, Any]
AnyPolicy = Policy[Any, Any]

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
GROUPS = ("k8s.io", "svc.io")
MAX_INT, MIN_INT = 2**63 - 1, -(2**63)


def encode_body(value: Any) -> bytes:
    """Encode a body as API servers do: compact, HTML characters escaped, a newline at the end."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{text}\n".encode()


def nested_json(levels: int, inner: str = "1") -> str:
    """Return JSON text with this number of alternating arrays and objects around a value."""
    pairs = [('{"a":', "}") if level % 2 else ("[", "]") for level in range(levels)]
    return "".join(start for start, _ in pairs) + inner + "".join(end for _, end in reversed(pairs))


def recorded_bodies(*paths: str) -> dict[str, Json]:
    """Return the bodies that a real API server sent to these paths, by the names of their files."""
    requests = {file.stem: json.loads(file.read_bytes()) for file in sorted(RECORDED.glob("*.json"))}
    return {name: request["body"] for name, request in requests.items() if request["path"].partition("?")[0] in paths}


def with_api_version(body: Json, group: str, version: str | None = None) -> Json:
    """Return a body with another group, such as ``svc.io``, and optionally another version."""
    word, _, rest = body["apiVersion"].partition(".")
    return {**body, "apiVersion": f"{word}.{group}/{version or rest.partition('/')[2]}"}


def pod(name: str = "web", *, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata = {"name": name} if labels is None else {"name": name, "labels": labels}
    containers = [{"name": "app", "image": "registry.k8s.io/app:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def admission_body(
    operation: str = "CREATE", obj: Any = None, *, old: Any = None, resource: str = "v1/pods", **request: Any
) -> Json:
    """Return an AdmissionReview; the value ``...`` omits a field."""
    *group, version, plural = resource.split("/")
    fields = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "".join(group), "version": version, "kind": "Pod"},
        "resource": {"group": "".join(group), "version": version, "resource": plural},
        "name": "web",
        "namespace": "team-a",
        "operation": operation,
        "userInfo": {"username": "jane", "groups": ["dev", "system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": None,
        **request,
    }
    sent = {key: value for key, value in fields.items() if value is not ...}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": sent}


def admission_review(
    operation: str = "CREATE", obj: Any = None, *, old: Any = None, resource: str = "v1/pods", **request: Any
) -> admission.AdmissionReview:
    return admission_codec.CODEC.decode(
        encode_body(admission_body(operation, obj, old=old, resource=resource, **request))
    )


def access_body(**spec: Any) -> Json:
    """Return a SubjectAccessReview; attributes of the resource may be given directly."""
    attributes = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
    resource = {key: spec.pop(key) for key in attributes if key in spec}
    if resource:
        spec["resourceAttributes"] = resource
    return {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None},
        "spec": {"user": "jane", "groups": ["dev"], **spec},
        "status": {"allowed": False},
    }


def access_review(**spec: Any) -> authorization.AccessReview:
    return authorization.CODEC.decode(encode_body(access_body(**spec)))


def token_body(token: str = "secret", audiences: list[str] | None = None) -> Json:
    return {
        "kind": "TokenReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": None},
        "spec": {"token": token} if audiences is None else {"token": token, "audiences": audiences},
        "status": {"user": {}},
    }


def token_review(token: str = "secret", audiences: list[str] | None = None) -> authentication.TokenReview:
    return authentication.CODEC.decode(encode_body(token_body(token, audiences)))


def image_body(*names: str, **spec: Any) -> Json:
    return {
        "kind": "ImageReview",
        "apiVersion": "imagepolicy.k8s.io/v1alpha1",
        "metadata": {"creationTimestamp": None},
        "spec": {"containers": [{"image": name} for name in names], "namespace": "team-a", **spec},
        "status": {"allowed": False},
    }


def image_review(*names: str, **spec: Any) -> images.ImageReview:
    return images.CODEC.decode(encode_body(image_body(*names, **spec)))


def ignore_change(policy: str, pace: InlineState) -> None:
    """Ignore the change of an `InlineState`."""


def make_inline(runner: PolicyExecutor, *policies: AnyPolicy) -> None:
    """Run policies inline from now on, as if they had been fast many times."""
    for policy in policies:
        runner.inline_states[policy].is_inline = True
    runner._inline.update(policies)
    assert runner.are_inline(policies)


def build_dispatcher(*policies: AnyPolicy, **limits: int) -> Dispatcher:
    """Return a dispatcher with its own executor and limits."""
    registry, meters = Registry(policies), MetricRegistry()
    return Dispatcher(
        registry, PolicyExecutor(registry, ignore_change, meters), ConcurrencyLimiter(Limits(**limits), meters)
    )


def decide(review: Any, *policies: AnyPolicy, timeout: float | None = None, inline: bool = False) -> Verdict:
    """Return the verdict of policies of one kind on a review."""
    dispatcher = build_dispatcher(*policies)
    if inline:
        make_inline(dispatcher.executor, *policies)

    async def wait() -> Verdict:
        return await decided  # type: ignore[misc]

    decided = dispatcher.decide(policies[0].kind, review, timeout)
    return decided if isinstance(decided, Verdict) else asyncio.run(wait())


def encode_response(kind: Kind, review: Any, verdict: Verdict) -> bytes:
    """Encode the response to a review."""
    patch = () if verdict.patch is None else (verdict.patch,)
    body: bytes = CODECS[kind].encode(review, verdict.outcome, *patch)
    return body

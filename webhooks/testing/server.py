"""A server without sockets. It has the endpoints of a real server; its results are plain data."""

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import msgspec
import orjson

from webhooks.app.endpoints import PATHS, build_endpoints
from webhooks.app.review_metrics import ReviewMetrics
from webhooks.auth.client import Client
from webhooks.config import file
from webhooks.engine.invocation import Result as PolicyResult
from webhooks.engine.standalone import build_dispatcher, run_admission
from webhooks.http.responses import JsonResponse
from webhooks.observability.metrics import MetricRegistry
from webhooks.policy import loader
from webhooks.policy.model import AnyPolicy, Policy
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.authentication import TokenReview
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.images import ImageReview
from webhooks.reviews.kinds import CODECS, Kind
from webhooks.reviews.outcomes import NoOpinion

Source: TypeAlias = str | Path | AnyPolicy
Review: TypeAlias = AdmissionReview | AccessReview | TokenReview | ImageReview
T = TypeVar("T")

_CONFIGURATION_SUFFIXES = (".yaml", ".yml", ".json")
_KINDS: Mapping[str, Kind] = {codec.kind: kind for kind, codec in CODECS.items()}
_PATHS = {kind: path for path, kind in PATHS}
_API_VERSIONS = {
    "AdmissionReview": "admission.k8s.io/v1",
    "SubjectAccessReview": "authorization.k8s.io/v1",
    "TokenReview": "authentication.k8s.io/v1",
    "ImageReview": "imagepolicy.k8s.io/v1alpha1",
}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a review: plain data that is the same in each run, for snapshots and `dataclasses.asdict`.

    Attributes:
        allowed: whether the request is allowed, or the token is valid; None if no policy has an opinion, and for an
            HTTP error.
        code: the code of a denied AdmissionReview or of an HTTP error; else 200.
        message: the message for the user; for authorization also the reason why a request is allowed.
        reason: the machine-readable reason that belongs to the code.
        patch: the JSON Patch operations; empty if nothing is changed.
        object: the object with all changes; None if nothing is changed.
        warnings: the warnings for the user.
        audit: the annotations for the audit log.
        user: the user of a token, as in the response.
        policies: the names of the policies that were evaluated, in order.
        failures: the failures of policies, which the response does not contain.
    """

    allowed: bool | None
    code: int = 200
    message: str = ""
    reason: str = ""
    patch: list[dict[str, Any]] = field(default_factory=list)
    object: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    audit: dict[str, str] = field(default_factory=dict)
    user: dict[str, Any] | None = None
    policies: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """The outcome: ``allowed``, ``patched``, ``denied``, ``no opinion``, or ``error`` for an HTTP error."""
        if self.allowed is None:
            return "no opinion" if self.code == 200 else "error"
        return "denied" if not self.allowed else "patched" if self.patch else "allowed"


class Server:
    """Reviews requests with policies, as a real server does. Use it in a ``with`` statement, or close it.

    For an AdmissionReview, mutating policies are evaluated first, then validating policies on the changed object.

    Args:
        policies: policy files, folders, ``library:NAME``, configuration files (``*.yaml``, ``*.yml``, ``*.json``;
            their server settings are ignored), and policies.
        folder: the folder that relative paths start from; None for the current one.

    Raises:
        ConfigurationError: policies cannot be loaded, or contradict each other.
    """

    def __init__(self, *policies: Source, folder: Path | None = None) -> None:
        registry = MetricRegistry()
        self._recorder = _Recorder(registry)
        loaded = (policy for source in policies for policy in _load(source, folder or Path()))
        policy_dispatcher = build_dispatcher(loaded, self._recorder.on_mode_change, registry)
        self._executor = policy_dispatcher.executor
        self._endpoints = build_endpoints(policy_dispatcher, self._recorder)
        # One event loop for all reviews, because policies may keep objects of it. It runs in a thread, because a test
        # may already run on an event loop.
        self._loop = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="server")
        try:
            self._run(self._executor.start())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads and processes of the policies."""
        self._run(self._executor.close())
        self._thread.submit(self._loop.close).result()
        self._thread.shutdown()

    def review(self, review: Review | Mapping[str, Any]) -> Result:
        """Review a request.

        Args:
            review: a review from `webhooks.testing`, or a body as API servers send it; its apiVersion is optional.

        Raises:
            ValueError: the body is of an unknown kind.
        """
        body = dict(review) if isinstance(review, Mapping) else orjson.loads(msgspec.json.encode(review._envelope))
        review_kind = body.get("kind")
        if review_kind not in list(_KINDS):  # a dict lookup would fail for values that are not hashable
            raise ValueError(f"kind: must be one of {', '.join(_KINDS)}, not {review_kind!r}")
        body.setdefault("apiVersion", _API_VERSIONS[review_kind])
        kind = _KINDS[review_kind]
        return self._run(self._review_admission(body) if kind == "validating" else self._evaluate(kind, body))

    async def _review_admission(self, body: Mapping[str, Any]) -> Result:
        phases, final_object = await run_admission(body, self._evaluate)
        last = phases[-1]
        patch = phases[0].patch if last.allowed else []
        return replace(
            last,
            patch=patch,
            object=final_object if patch else None,
            warnings=list(dict.fromkeys(warning for phase in phases for warning in phase.warnings)),
            audit={key: value for phase in phases for key, value in phase.audit.items()},
            policies=[policy for phase in phases for policy in phase.policies],
            failures=[failure for phase in phases for failure in phase.failures],
        )

    async def _evaluate(self, kind: Kind, body: Mapping[str, Any]) -> Result:
        self._recorder.verdict, self._recorder.results = "", ()
        response = self._endpoints[_PATHS[kind]].answer(orjson.dumps(body), b"")
        return _to_result(kind, response if isinstance(response, JsonResponse) else await response, self._recorder)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.submit(self._loop.run, coroutine).result()


class _Recorder(ReviewMetrics):
    """Records the last verdict and the results of its policies, which responses do not contain."""

    verdict = ""
    results: Sequence[PolicyResult] = ()

    def record(
        self, kind: str, verdict: str, code: int, client: Client, results: Iterable[PolicyResult], seconds: float
    ) -> None:
        """Record a verdict."""
        self.verdict, self.results = verdict, tuple(results)
        super().record(kind, verdict, code, client, self.results, seconds)


def _load(source: Source, folder: Path) -> Iterable[AnyPolicy]:
    if isinstance(source, Policy):
        return [source]
    name = str(source)
    if name.endswith(_CONFIGURATION_SUFFIXES):
        return file.read(folder / name).load()
    return loader.load([name if name.startswith("library:") else str(folder / name)])


def _to_result(kind: Kind, response: JsonResponse, recorder: _Recorder) -> Result:
    body = orjson.loads(response.body)
    if response.code == 200:
        result = _PARSERS[kind](body, recorder.verdict)
    else:
        result = Result(None, response.code, body["message"], body["reason"])
    failures = [f"{item.policy.name}: {item.failure}" for item in recorder.results if item.failure is not None]
    return replace(result, policies=[item.policy.name for item in recorder.results], failures=failures)


def _parse_admission(body: Any, _verdict: str) -> Result:
    response = body["response"]
    status = response.get("status", {})
    return Result(
        allowed=response["allowed"],
        code=status.get("code", 200),
        message=status.get("message", ""),
        reason=status.get("reason", ""),
        patch=orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else [],
        warnings=response.get("warnings", []),
        audit=response.get("auditAnnotations", {}),
    )


def _parse_access(body: Any, _verdict: str) -> Result:
    status = body["status"]
    allowed = status["allowed"]
    return Result(allowed if allowed or status.get("denied") else None, message=status.get("reason", ""))


def _parse_token(body: Any, verdict: str) -> Result:
    status = body["status"]
    # The response is the same for an invalid token and for one that no policy has an opinion about.
    is_valid = None if verdict == NoOpinion.__name__.lower() else status["authenticated"]
    return Result(is_valid, message=status.get("error", ""), user=status.get("user"))


def _parse_images(body: Any, _verdict: str) -> Result:
    status = body["status"]
    return Result(status["allowed"], message=status.get("reason", ""), audit=status.get("auditAnnotations", {}))


_PARSERS: Mapping[Kind, Callable[[Any, str], Result]] = {
    "mutating": _parse_admission,
    "validating": _parse_admission,
    "authorizing": _parse_access,
    "authenticating": _parse_token,
    "image_policy": _parse_images,
}

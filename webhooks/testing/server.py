"""A server without sockets: the very paths that a server answers at, and what their answers say, as plain data."""

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

from webhooks.app.endpoints import PATHS, endpoints
from webhooks.app.review_metrics import Metrics
from webhooks.auth.client import Client
from webhooks.config import file
from webhooks.engine.invocation import Result as PolicyResult
from webhooks.engine.standalone import admit, dispatcher
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
T = TypeVar("T")

Review: TypeAlias = AdmissionReview | AccessReview | TokenReview | ImageReview


@dataclass(frozen=True, slots=True)
class Result:
    """What a server answers to a review: plain data, the same at each run, for snapshots and `dataclasses.asdict`.

    Attributes:
        allowed: whether it may pass, or the token is good; None where no policy has an opinion, and where the answer is
            an HTTP error.
        code: the code that goes with a denial of an AdmissionReview or with an HTTP error; else 200.
        message: what the user is told, or why it may pass where authorization says so.
        reason: the machine-readable reason that goes with the code.
        patch: the JSON Patch operations; none where nothing is changed.
        object: the object as the patch leaves it; None where nothing is changed.
        warnings: shown to the user.
        audit: annotations for the audit record.
        user: who holds a token, as the answer says it.
        asked: the names of the policies that were asked, in order.
        failures: what policies failed of, which the user is not told.
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
    asked: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """In a word or two: ``allowed``, ``patched``, ``denied``, ``no opinion``, ``no answer``."""
        if self.allowed is None:
            return "no opinion" if self.code == 200 else "no answer"
        return "denied" if not self.allowed else "patched" if self.patch else "allowed"


class Server:
    """Answers reviews by policies, as a server does between its sockets. Use it in a ``with``, or close it.

    An AdmissionReview is asked as API servers ask: first mutating policies, then validating ones on what those left.

    Args:
        policies: files, folders, ``library:NAME``, configurations (``*.yaml``, ``*.yml``, ``*.json``), of which the
            policies count and not how they would be served, and policies themselves.
        folder: where paths begin.

    Raises:
        ConfigurationError: something does not load, or does not fit together.
    """

    def __init__(self, *policies: Source, folder: Path | None = None) -> None:
        meters = MetricRegistry()
        self._witness = _Witness(meters)
        loaded = (policy for source in policies for policy in _loaded(source, folder or Path()))
        asked = dispatcher(loaded, self._witness.paced, meters)
        self._runner = asked.runner
        self._endpoints = endpoints(asked, self._witness)
        # A loop that stays, for policies that keep something on it, and a thread for tests that are on a loop already.
        self._loop = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="server")
        try:
            self._run(self._runner.start())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End what it runs policies on."""
        self._run(self._runner.close())
        self._thread.submit(self._loop.close).result()
        self._thread.shutdown()

    def review(self, review: Review | Mapping[str, Any]) -> Result:
        """Answer a review.

        Args:
            review: one of `webhooks.testing`, or a body as API servers send it. A body can leave out its apiVersion.

        Raises:
            ValueError: a body of a kind that is none of the four.
        """
        body = dict(review) if isinstance(review, Mapping) else orjson.loads(msgspec.json.encode(review._envelope))
        named = body.get("kind")
        if named not in list(_KINDS):  # whatever it may be
            raise ValueError(f"kind is one of {', '.join(_KINDS)}, not {named!r}")
        body.setdefault("apiVersion", _VERSIONS[named])
        kind = _KINDS[named]
        return self._run(self._admit(body) if kind == "validating" else self._ask(kind, body))

    async def _admit(self, body: Mapping[str, Any]) -> Result:
        stages, object_ = await admit(body, self._ask)
        last = stages[-1]
        patch = stages[0].patch if last.allowed else []
        return replace(
            last,
            patch=patch,
            object=object_ if patch else None,
            warnings=list(dict.fromkeys(warning for each in stages for warning in each.warnings)),
            audit={key: value for each in stages for key, value in each.audit.items()},
            asked=[policy for each in stages for policy in each.asked],
            failures=[failure for each in stages for failure in each.failures],
        )

    async def _ask(self, kind: Kind, body: Mapping[str, Any]) -> Result:
        self._witness.verdict, self._witness.results = "", ()
        answer = self._endpoints[_PATHS[kind]].answer(orjson.dumps(body), b"")
        return _read(kind, answer if isinstance(answer, JsonResponse) else await answer, self._witness)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.submit(self._loop.run, coroutine).result()


class _Witness(Metrics):
    """Keeps the last verdict's name and the policies' results, for what answers do not tell."""

    verdict = ""
    results: Sequence[PolicyResult] = ()

    def record(
        self, kind: str, verdict: str, code: int, client: Client, results: Iterable[PolicyResult], seconds: float
    ) -> None:
        """Keep a verdict."""
        self.verdict, self.results = verdict, tuple(results)
        super().record(kind, verdict, code, client, self.results, seconds)


def _loaded(source: Source, folder: Path) -> Iterable[AnyPolicy]:
    if isinstance(source, Policy):
        return [source]
    name = str(source)
    if name.endswith(_CONFIGURATIONS):
        return file.read(folder / name).load()
    return loader.load([name if name.startswith("library:") else str(folder / name)])


def _read(kind: Kind, answer: JsonResponse, witness: _Witness) -> Result:
    reply = orjson.loads(answer.body)
    if answer.code == 200:
        result = _READ[kind](reply, witness.verdict)
    else:  # after which the caller goes by its own failure policy
        result = Result(None, answer.code, reply["message"], reply["reason"])
    failures = [f"{each.policy.name}: {each.failure}" for each in witness.results if each.failure is not None]
    return replace(result, asked=[each.policy.name for each in witness.results], failures=failures)


def _admission(reply: Any, _verdict: str) -> Result:
    response = reply["response"]
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


def _access(reply: Any, _verdict: str) -> Result:
    status = reply["status"]
    allowed = status["allowed"]
    return Result(allowed if allowed or status.get("denied") else None, message=status.get("reason", ""))


def _token(reply: Any, verdict: str) -> Result:
    status = reply["status"]
    good = None if verdict == _UNKNOWN else status["authenticated"]  # which answers do not tell from bad
    return Result(good, message=status.get("error", ""), user=status.get("user"))


def _images(reply: Any, _verdict: str) -> Result:
    status = reply["status"]
    return Result(status["allowed"], message=status.get("reason", ""), audit=status.get("auditAnnotations", {}))


_CONFIGURATIONS = (".yaml", ".yml", ".json")
_KINDS: Mapping[str, Kind] = {codec.kind: kind for kind, codec in CODECS.items()}
_PATHS = {kind: path for path, kind in PATHS}
_UNKNOWN = NoOpinion.__name__.lower()
_VERSIONS = {
    "AdmissionReview": "admission.k8s.io/v1",
    "SubjectAccessReview": "authorization.k8s.io/v1",
    "TokenReview": "authentication.k8s.io/v1",
    "ImageReview": "imagepolicy.k8s.io/v1alpha1",
}
_READ: Mapping[Kind, Callable[[Any, str], Result]] = {
    "mutating": _admission,
    "validating": _admission,
    "authorizing": _access,
    "authenticating": _token,
    "image_policy": _images,
}

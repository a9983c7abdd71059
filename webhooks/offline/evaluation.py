"""What the policies of a server would make of a manifest: asked as a server asks them, told in full."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from webhooks.engine.dispatcher import Verdict
from webhooks.engine.invocation import Result
from webhooks.engine.standalone import STAGES, Json, admit, dispatcher
from webhooks.engine.verdicts import denies, passed_over
from webhooks.errors import ConfigurationError, MalformedReview, PatchError, PolicyFailure
from webhooks.offline.requests import NotReviewable, Requests, encoded
from webhooks.offline.sources import Manifest, Problem
from webhooks.policy.model import AnyPolicy, Mode
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.admission_codec import CODEC
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import CHANGES, Deny


@dataclass(frozen=True, slots=True)
class Message:
    """What a policy said, or its operator says for it. Without a policy it is the server that says it."""

    policy: str
    text: str

    def __str__(self) -> str:
        return f"{self.policy}: {self.text}" if self.policy else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """A manifest, and what became of it.

    Attributes:
        manifest: what was reviewed.
        request: what was asked about it.
        asked: the policies that were asked, in order.
        denials: why it may not be stored; it may if there are none.
        warnings: what its user would be warned of, denials of the mode ``warn`` among it.
        audited: denials of the mode ``audit``, of which the audit record alone would tell.
        exempted: the policies that were not asked since the object is exempt, and why it is.
        audit: what the audit record would keep.
        changed_by: the policies that changed it.
        patch: all their changes, as JSON Patch operations.
        result: the object as it would be stored; None where it was denied, and on DELETE.
    """

    manifest: Manifest
    request: Mapping[str, Any]
    asked: Sequence[str]
    denials: Sequence[Message]
    warnings: Sequence[Message]
    audited: Sequence[Message]
    exempted: Sequence[Message]
    audit: Mapping[str, str]
    changed_by: Sequence[str]
    patch: Sequence[Mapping[str, Any]]
    result: Any

    @property
    def verdict(self) -> str:
        """In a word: denied, changed or allowed."""
        return "denied" if self.denials else "changed" if self.patch else "allowed"

    @property
    def asides(self) -> Iterator[tuple[str, Message]]:
        """What was said beside the verdict, each with a word for it: warning, audit or exempt."""
        for word, said in (("warning", self.warnings), ("audit", self.audited), ("exempt", self.exempted)):
            for remark in said:
                yield word, remark

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.request["kind"]["kind"])

    @property
    def name(self) -> str:
        """The namespace and name of the object."""
        metadata = (self.request.get("object") or self.request.get("oldObject") or {}).get("metadata") or {}
        name = self.request.get("name") or metadata.get("name") or f"{metadata.get('generateName') or ''}*"
        namespace = self.request.get("namespace")
        return f"{namespace}/{name}" if namespace and self.kind != "Namespace" else str(name)


class Reviewer:
    """Asks policies about manifests.

    Args:
        policies: the policies.
        requests: what is asked.

    Attributes:
        runner: what runs the policies; it is to be started before, and closed at the end.

    Raises:
        ConfigurationError: none of the policies decides about objects, or they do not fit together.
    """

    def __init__(self, policies: Iterable[AnyPolicy], requests: Requests) -> None:
        self._dispatcher = dispatcher(policies)
        self.runner = self._dispatcher.runner
        if not any(policy.kind in STAGES for policy in self._dispatcher.registry):
            raise ConfigurationError("none of these policies is mutating or validating, so none is asked about objects")
        self._requests = requests

    async def review(self, manifest: Manifest) -> ReviewResult | Problem:
        """Review a manifest: mutating policies first, then validating ones on what those left."""
        try:
            body = self._requests.body(manifest)
            review = CODEC.decode(encoded(body))
        except (NotReviewable, MalformedReview) as error:
            return Problem(manifest.file, manifest.line, str(error))

        async def ask(kind: Kind, asked: Json) -> _Stage:
            try:
                return await self._stage(kind, review if asked is body else CODEC.decode(encoded(asked)))
            except MalformedReview as malformed:
                return _Stage(Verdict(None), [Message("", f"the review was not understood: {malformed}")])
            except (PolicyFailure, PatchError, NotReviewable) as error:
                return _Stage(Verdict(None), [Message("", str(error))])

        return _reviewed(manifest, body["request"], *await admit(body, ask))

    async def _stage(self, kind: Kind, review: AdmissionReview) -> "_Stage":
        decided = self._dispatcher.decide(kind, review)
        verdict = decided if isinstance(decided, Verdict) else await decided
        patch = [] if verdict.patch is None else orjson.loads(verdict.patch)
        return _Stage(verdict, list(_denied(verdict.results, "enforce")), patch)


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the policies of one kind came to."""

    verdict: Verdict
    denials: Sequence[Message]
    patch: Sequence[Mapping[str, Any]] = ()

    @property
    def allowed(self) -> bool:
        return not self.denials


def _reviewed(manifest: Manifest, request: Mapping[str, Any], stages: Sequence[_Stage], tree: Any) -> ReviewResult:
    verdicts = [stage.verdict for stage in stages]
    results = [result for verdict in verdicts for result in verdict.results]
    audit: dict[str, str] = {}
    for verdict in verdicts:
        audit |= verdict.outcome.audit if verdict.outcome is not None else {}
    patch = stages[0].patch
    return ReviewResult(
        manifest=manifest,
        request=request,
        asked=[result.policy.name for result in results],
        denials=stages[-1].denials,
        warnings=[remark for verdict in verdicts for remark in _warnings(verdict)],
        audited=list(_denied(results, "audit")),
        exempted=[remark for verdict in verdicts for remark in _exempted(verdict)],
        audit=audit,
        changed_by=[result.policy.name for result in results if isinstance(result.outcome, CHANGES)] if patch else [],
        patch=patch,
        result=tree,
    )


def _denied(results: Iterable[Result], mode: Mode) -> Iterator[Message]:
    """The denials of policies of a mode."""
    for result in results:
        if result.policy.mode == mode and denies(result):
            said = result.outcome.message if isinstance(result.outcome, Deny) else f"failed: {result.failure}"
            yield Message(result.policy.name, said)


def _warnings(verdict: Verdict) -> Iterator[Message]:
    for policy, exemption in verdict.exemptions:
        if exemption.is_expired:
            yield Message(policy, exemption.expiry_notice)
    for result in verdict.results:
        if result.outcome is not None:
            yield from (Message(result.policy.name, text) for text in result.outcome.warnings)
        elif passed_over(result):
            yield Message(result.policy.name, f"failed and was passed over: {result.failure}")
        yield from _denied([result], "warn")


def _exempted(verdict: Verdict) -> Iterator[Message]:
    for policy, exemption in verdict.exemptions:
        if not exemption.is_expired:
            yield Message(policy, exemption.reason)

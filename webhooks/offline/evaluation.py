"""Evaluates policies on manifests, as a server evaluates them on requests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from webhooks.engine.dispatcher import Verdict
from webhooks.engine.invocation import Result
from webhooks.engine.standalone import PHASES, Json, build_dispatcher, run_admission
from webhooks.engine.verdicts import is_denial, is_ignored_failure
from webhooks.errors import ConfigurationError, MalformedReview, PatchError, PolicyFailure
from webhooks.offline.requests import NotReviewable, RequestBuilder, encode
from webhooks.offline.sources import Manifest, Problem
from webhooks.policy.model import AnyPolicy, Mode
from webhooks.reviews.admission import AdmissionReview
from webhooks.reviews.admission_codec import CODEC
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import CHANGES, Deny


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a policy, or of the operator about a policy.

    Attributes:
        policy: the name of the policy; empty for a message of the server.
        text: the message.
    """

    policy: str
    text: str

    def __str__(self) -> str:
        return f"{self.policy}: {self.text}" if self.policy else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """The result of the review of a manifest.

    Attributes:
        manifest: the manifest.
        request: the request that was evaluated.
        policies: the names of the policies that were evaluated, in order.
        denials: the reasons for the denial; none if the request is allowed.
        warnings: the warnings for the user, including denials by policies in mode ``warn``.
        audited: denials by policies in mode ``audit``, which only appear in the audit log.
        exemptions: the policies for which the object is exempt, with the reasons.
        audit: the annotations for the audit log.
        changed_by: the names of the policies that changed the object.
        patch: all changes, as JSON Patch operations.
        final_object: the object with all changes; None if it is denied, and for DELETE.
    """

    manifest: Manifest
    request: Mapping[str, Any]
    policies: Sequence[str]
    denials: Sequence[Message]
    warnings: Sequence[Message]
    audited: Sequence[Message]
    exemptions: Sequence[Message]
    audit: Mapping[str, str]
    changed_by: Sequence[str]
    patch: Sequence[Mapping[str, Any]]
    final_object: Any

    @property
    def verdict(self) -> str:
        """The verdict: ``denied``, ``changed`` or ``allowed``."""
        return "denied" if self.denials else "changed" if self.patch else "allowed"

    @property
    def notes(self) -> Iterator[tuple[str, Message]]:
        """All messages but denials, each with its type: ``warning``, ``audit`` or ``exempt``."""
        for type_, messages in (("warning", self.warnings), ("audit", self.audited), ("exempt", self.exemptions)):
            for message in messages:
                yield type_, message

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.request["kind"]["kind"])

    @property
    def name(self) -> str:
        """The namespace and name of the object; ``*`` is a part that the API server generates."""
        metadata = (self.request.get("object") or self.request.get("oldObject") or {}).get("metadata") or {}
        name = self.request.get("name") or metadata.get("name") or f"{metadata.get('generateName') or ''}*"
        namespace = self.request.get("namespace")
        return f"{namespace}/{name}" if namespace and self.kind != "Namespace" else str(name)


ReportItem: TypeAlias = ReviewResult | Problem


class Reviewer:
    """Evaluates policies on manifests.

    Args:
        policies: the policies.
        requests: builds the request for each manifest.

    Attributes:
        executor: runs the policies. Start it before the first review, and close it after the last one.

    Raises:
        ConfigurationError: no policy is mutating or validating, or two policies have the same name.
    """

    def __init__(self, policies: Iterable[AnyPolicy], requests: RequestBuilder) -> None:
        self._dispatcher = build_dispatcher(policies)
        self.executor = self._dispatcher.executor
        if not any(policy.kind in PHASES for policy in self._dispatcher.registry):
            raise ConfigurationError("no policy is mutating or validating; other policies do not review manifests")
        self._requests = requests

    async def review(self, manifest: Manifest) -> ReportItem:
        """Review a manifest: evaluate mutating policies, then validating policies on the changed object."""
        try:
            body = self._requests.build(manifest)
            review = CODEC.decode(encode(body))
        except (NotReviewable, MalformedReview) as error:
            return Problem(manifest.file, manifest.line, str(error))

        async def evaluate(kind: Kind, current_body: Json) -> _Phase:
            try:
                current = review if current_body is body else CODEC.decode(encode(current_body))
                return await self._evaluate(kind, current)
            except MalformedReview as error:
                return _Phase(Verdict(None), [Message("", f"malformed review: {error}")])
            except (PolicyFailure, PatchError, NotReviewable) as error:
                return _Phase(Verdict(None), [Message("", str(error))])

        phases, final_object = await run_admission(body, evaluate)
        return _combine(manifest, body["request"], phases, final_object)

    async def _evaluate(self, kind: Kind, review: AdmissionReview) -> "_Phase":
        decision = self._dispatcher.decide(kind, review)
        verdict = decision if isinstance(decision, Verdict) else await decision
        patch = [] if verdict.patch is None else orjson.loads(verdict.patch)
        return _Phase(verdict, list(_list_denials(verdict.results, "enforce")), patch)


@dataclass(frozen=True, slots=True)
class _Phase:
    """The result of the policies of one kind."""

    verdict: Verdict[Any]
    denials: Sequence[Message]
    patch: Sequence[Mapping[str, Any]] = ()

    @property
    def allowed(self) -> bool:
        return not self.denials


def _combine(
    manifest: Manifest, request: Mapping[str, Any], phases: Sequence[_Phase], final_object: Any
) -> ReviewResult:
    verdicts = [phase.verdict for phase in phases]
    results = [result for verdict in verdicts for result in verdict.results]
    audit: dict[str, str] = {}
    for verdict in verdicts:
        audit |= verdict.outcome.audit if verdict.outcome is not None else {}
    patch = phases[0].patch
    changed_by = [result.policy.name for result in results if isinstance(result.outcome, CHANGES)]
    return ReviewResult(
        manifest=manifest,
        request=request,
        policies=[result.policy.name for result in results],
        denials=phases[-1].denials,
        warnings=[message for verdict in verdicts for message in _list_warnings(verdict)],
        audited=list(_list_denials(results, "audit")),
        exemptions=[message for verdict in verdicts for message in _list_exemptions(verdict)],
        audit=audit,
        changed_by=changed_by if patch else [],
        patch=patch,
        final_object=final_object,
    )


def _list_denials(results: Iterable[Result], mode: Mode) -> Iterator[Message]:
    """Yield the denials by policies in a mode."""
    for result in results:
        if result.policy.mode == mode and is_denial(result):
            text = result.outcome.message if isinstance(result.outcome, Deny) else f"failed: {result.failure}"
            yield Message(result.policy.name, text)


def _list_warnings(verdict: Verdict[Any]) -> Iterator[Message]:
    for policy, exemption in verdict.exemptions:
        if exemption.is_expired:
            yield Message(policy, exemption.expiry_notice)
    for result in verdict.results:
        if result.outcome is not None:
            yield from (Message(result.policy.name, text) for text in result.outcome.warnings)
        elif is_ignored_failure(result):
            yield Message(result.policy.name, f"failed and was ignored: {result.failure}")
        yield from _list_denials([result], "warn")


def _list_exemptions(verdict: Verdict[Any]) -> Iterator[Message]:
    for policy, exemption in verdict.exemptions:
        if not exemption.is_expired:
            yield Message(policy, exemption.reason)

"""What the policies of a server would make of a manifest: asked as a server asks them, told in full."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from webhooks import patching
from webhooks.calls import Result
from webhooks.decisions import CHANGES, Deny
from webhooks.dispatch import Dispatcher, Verdict
from webhooks.errors import ConfigurationError, MalformedReview, PatchError, PolicyFailure
from webhooks.limits import Limits
from webhooks.meters import Meters
from webhooks.policy import Kind
from webhooks.registry import Registry
from webhooks.reviewing.requests import Requests, Unaskable, encoded
from webhooks.reviewing.streams import Manifest, Problem
from webhooks.running import Pace, Runner
from webhooks.turns import Turns
from webhooks.wire import admission

_STAGES: tuple[Kind, ...] = ("mutating", "validating")


@dataclass(frozen=True, slots=True)
class Remark:
    """What a policy said: a denial or a warning. Without a policy it is the server that says it."""

    policy: str
    text: str

    def __str__(self) -> str:
        return f"{self.policy}: {self.text}" if self.policy else self.text


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A manifest, and what became of it.

    Attributes:
        manifest: what was reviewed.
        request: what was asked about it.
        denials: why it may not be stored; it may if there are none.
        warnings: what its user would be warned of.
        audit: what the audit record would keep.
        changed_by: the policies that changed it.
        patch: all their changes, as JSON Patch operations.
        result: the object as it would be stored; None where it was denied, and on DELETE.
    """

    manifest: Manifest
    request: Mapping[str, Any]
    denials: Sequence[Remark]
    warnings: Sequence[Remark]
    audit: Mapping[str, str]
    changed_by: Sequence[str]
    patch: Sequence[Mapping[str, Any]]
    result: Any

    @property
    def verdict(self) -> str:
        """In a word: denied, changed or allowed."""
        return "denied" if self.denials else "changed" if self.patch else "allowed"

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
        registry: the policies.
        requests: what is asked.

    Attributes:
        runner: what runs the policies; it is to be started before, and closed at the end.

    Raises:
        ConfigurationError: none of the policies decides about objects.
    """

    def __init__(self, registry: Registry, requests: Requests) -> None:
        if not any(policy.kind in _STAGES for policy in registry):
            raise ConfigurationError("none of these policies is mutating or validating, so none is asked about objects")
        meters = Meters()
        self.runner = Runner(registry, _ignore_pace, meters)
        self._dispatcher = Dispatcher(registry, self.runner, Turns(Limits(), meters))
        self._requests = requests

    async def review(self, manifest: Manifest) -> Reviewed | Problem:
        """Review a manifest: mutating policies first, then validating ones on what those left."""
        try:
            body = self._requests.body(manifest)
            review = admission.decode(encoded(body))
        except (Unaskable, MalformedReview) as error:
            return Problem(manifest.file, manifest.line, str(error))
        return await self._asked(manifest, body, review)

    async def _asked(
        self, manifest: Manifest, body: Mapping[str, Any], review: admission.AdmissionReview
    ) -> Reviewed | Problem:
        request = body["request"]
        tree, patch = request.get("object"), []
        results: list[Result] = []
        audit: dict[str, str] = {}
        denials: list[Remark] = []
        try:
            for stage in _STAGES:
                verdict = await self._decide(stage, review)
                results += verdict.results
                audit |= verdict.outcome.audit if verdict.outcome is not None else {}
                if isinstance(verdict.outcome, Deny):
                    denials = _denials(verdict)
                    break
                if verdict.patch is not None:
                    patch = orjson.loads(verdict.patch)
                    tree = patching.apply(tree, patch)
                    review = admission.decode(encoded({**body, "request": {**request, "object": tree}}))
        except MalformedReview as malformed:
            denials = [Remark("", f"the review was not understood: {malformed}")]
        except (PolicyFailure, PatchError, Unaskable) as error:
            denials = [Remark("", str(error))]
        return Reviewed(
            manifest,
            request,
            denials,
            list(_warnings(results)),
            audit,
            [result.policy.name for result in results if isinstance(result.outcome, CHANGES)] if patch else [],
            patch,
            None if denials else tree,
        )

    async def _decide(self, kind: Kind, review: admission.AdmissionReview) -> Verdict:
        decided = self._dispatcher.decide(kind, review)
        return decided if isinstance(decided, Verdict) else await decided


def _ignore_pace(policy: str, pace: Pace) -> None:
    """Nobody counts how quick policies are."""


def _denials(verdict: Verdict) -> list[Remark]:
    found = []
    for result in verdict.results:
        if isinstance(result.outcome, Deny):
            found.append(Remark(result.policy.name, result.outcome.message))
        elif result.failure is not None and result.policy.on_error != "allow":
            found.append(Remark(result.policy.name, f"failed: {result.failure}"))
    return found


def _warnings(results: Iterable[Result]) -> Iterable[Remark]:
    for result in results:
        if result.outcome is not None:
            yield from (Remark(result.policy.name, text) for text in result.outcome.warnings)
        elif result.policy.on_error == "allow":
            yield Remark(result.policy.name, f"failed and was passed over: {result.failure}")

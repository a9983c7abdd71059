"""What a protocol makes of its policies' outcomes.

A *flow* is a generator that yields the policies to run next, together, and is sent their results; what it returns is
the verdict. So the same rules drive policies that all run in place, with no task and no waiting, and those that wait.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import orjson

from webhooks.engine.annotations import ResponseNotes
from webhooks.engine.invocation import Result
from webhooks.errors import MalformedReview, PatchError, PolicyFailure, PolicyTimeout
from webhooks.objects import json_diff, json_patch
from webhooks.objects.copy_on_write import materialize
from webhooks.objects.lazy_object import LazyObject
from webhooks.policy.exemptions import Exemption
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.admission import AdmissionReview, is_unmodified, object_of, with_object
from webhooks.reviews.authentication import TokenReview
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import (
    CHANGES,
    Allow,
    Authenticated,
    Deny,
    NoOpinion,
    Outcome,
    Patch,
    Replace,
    Unauthenticated,
)

Flow: TypeAlias = Generator[list[tuple[AnyPolicy, Any]], list[Result], "Verdict"]

_ALLOW = Allow()

# What servers apply as we do. They differ in the rest: in what a test takes for equal, and in what the root may do.
_SENT = frozenset(("add", "replace", "remove"))


class Verdict(msgspec.Struct):
    """What a review came to.

    Attributes:
        outcome: the merged outcome; None where a failure leaves the question open, and the caller is to ask again.
        results: what each policy did.
        patch: the JSON Patch document of an Allow that changes the object.
        exemptions: of the review, in force or ended, each with the name of its policy.
    """

    outcome: Outcome | None
    results: Sequence[Result] = ()
    patch: bytes | None = None
    exemptions: Sequence[tuple[str, Exemption]] = ()


def _everyone(review: Any, policies: Iterable[AnyPolicy], notes: ResponseNotes) -> list[tuple[AnyPolicy, Any]]:
    """Those to ask, each with its own review."""
    return [
        (policy, review.copy()) for policy in policies if not (policy.exemptions and _exempt(policy, review, notes))
    ]


def _exempt(policy: AnyPolicy, review: Any, notes: ResponseNotes) -> bool:
    """Whether the operator has exempted a review from a policy, which is noted; and so is that one did until lately."""
    ended = None
    for exemption in policy.exemptions:
        if exemption.covers(review.copy()):
            if not exemption.is_expired:
                notes.add_exemption(policy.name, exemption)
                return True
            ended = exemption
    if ended is not None:
        notes.add_ended(policy.name, ended)
    return False


def _unanimous(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """All are asked and all must allow; every reason is shown."""
    notes, denials = ResponseNotes(), []
    everyone = _everyone(review, policies, notes)
    results = (yield everyone) if everyone else []
    for _, own in everyone:
        if own.object_accessed:
            _refuse_changed(own)
    for result in results:
        denial = _denial(result, notes)
        if denial is not None:
            denials.append((result, denial))
    outcome = _merge_denials(denials, notes) if denials else notes.on(_ALLOW)
    return Verdict(outcome, results, exemptions=notes.exemptions)


def _threaded(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """One after another, each on what the one before left; the first denial ends it."""
    original = review
    results: list[Result] = []
    patches: list[bytes | None] = []
    notes = ResponseNotes()
    for policy in policies:
        if not policy.is_unconditional and not policy.matches(review):
            continue  # asked again for each, since those before may have changed what it goes by
        if policy.exemptions and _exempt(policy, review, notes):
            continue
        own = review.copy()
        [result] = yield [(policy, own)]
        if own.object_accessed:
            _refuse_changed(own)
        if isinstance(result.outcome, CHANGES):
            try:
                changed, patch = _change(review, result.outcome)
            except (PatchError, PolicyFailure, TypeError, ValueError) as error:
                result = Result(policy, None, PolicyFailure(str(error)), result.seconds)
            else:
                if changed is not review:
                    patches.append(patch)
                    review = changed
        results.append(result)
        denial = _denial(result, notes)
        if denial is not None:
            return Verdict(_merge_denials([(result, denial)], notes), results, exemptions=notes.exemptions)
    patch = _patch(object_of(original), object_of(review), patches) if patches else None
    return Verdict(notes.on(_ALLOW), results, patch, notes.exemptions)


def _refuse_changed(review: AdmissionReview) -> None:
    """Stop where a policy has changed what it shares with others, which it can only by going behind its own copy.

    Raises:
        PolicyFailure: nothing that was said of the object is to be relied on.
    """
    if not is_unmodified(review):
        raise PolicyFailure(
            "a policy changed an object behind its own copy: it is to work on copy.deepcopy(review.object)"
        )


def _change(review: AdmissionReview, outcome: Replace | Patch) -> tuple[AdmissionReview, bytes | None]:
    """The review as an outcome leaves it, and the patch that did it, where the outcome is one that can be sent.

    Raises:
        PatchError: operations that do not apply.
        PolicyFailure: an outcome that cannot be followed.
        TypeError: a value in it that is not JSON.
    """
    before, patch = object_of(review), None
    if not before.present or review.operation == "DELETE":
        raise PolicyFailure("changed an object where there is none to change (DELETE)")
    if isinstance(outcome, Patch):
        patch = orjson.dumps(outcome.operations)
        operations = orjson.loads(patch)  # and no longer the policy's own
        if operations != list(outcome.operations):
            raise PolicyFailure("a value in the patch is not JSON")
        changed = before.apply_patch(operations)
        for operation in operations:
            if operation["op"] not in _SENT or not operation["path"]:
                patch = None
    else:
        tree = materialize(outcome.object)
        if not isinstance(tree, dict):
            raise PolicyFailure("replaced the object by something that is none")
        changed = before if tree is before.tree else LazyObject.from_tree(tree)
    return (review if changed is before else with_object(review, changed)), patch


def _patch(original: LazyObject, changed: LazyObject, patches: Sequence[bytes | None]) -> bytes | None:
    """The patch that leads from the original to what the policies left, proven to apply; None where nothing changed.

    Raises:
        PatchError: it does not lead there.
    """
    if len(patches) == 1 and patches[0] is not None:
        return patches[0]
    operations = json_diff.diff(original.tree, changed.tree)
    if not operations:
        return None
    if json_patch.apply(original.tree, operations) != changed.tree:
        raise PatchError("the patch does not lead to the object that was wanted")
    return orjson.dumps(operations)


def _authorized(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """Deny beats Allow beats NoOpinion; a failure, which might have been a denial, beats all but Deny."""
    notes = ResponseNotes()  # which the answer has no place for
    everyone = _everyone(review, policies, notes)
    results = (yield everyone) if everyone else []
    return Verdict(_ranked(results, (Deny, Allow, NoOpinion)), results, exemptions=notes.exemptions)


def _authenticated(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """Unauthenticated beats Authenticated beats NoOpinion; a failure beats all but Unauthenticated."""
    results = yield _everyone(review, policies, ResponseNotes())
    outcome = _ranked(results, (Unauthenticated, Authenticated, NoOpinion))
    return Verdict(_for_audiences(outcome, review) if isinstance(outcome, Authenticated) else outcome, results)


def _for_audiences(outcome: Authenticated, review: TokenReview) -> Outcome:
    """A token is good for those of its audiences that were asked for, if there are such."""
    if outcome.audiences is None or (outcome.audiences and not review.audiences):
        return outcome
    audiences = [audience for audience in review.audiences if audience in outcome.audiences]
    if not audiences:
        return Unauthenticated("the token is for other audiences")
    return msgspec.structs.replace(outcome, audiences=audiences)


def _ranked(results: Sequence[Result], ranks: tuple[type[Outcome], ...]) -> Outcome | None:
    outcomes = [result.outcome or _failed_opinion(result) for result in results]
    refused = [outcome for outcome in outcomes if isinstance(outcome, ranks[0])]
    if refused:
        return refused[0] if len(refused) == 1 else _merge_refusals(refused)
    if None in outcomes:
        return None
    return next((outcome for rank in ranks for outcome in outcomes if isinstance(outcome, rank)), NoOpinion())


def _merge_refusals(refused: Sequence[Outcome]) -> Outcome:
    if isinstance(refused[0], Deny):
        return Deny("; ".join(each.message for each in refused if isinstance(each, Deny)))
    return Unauthenticated("; ".join(each.error for each in refused if isinstance(each, Unauthenticated)))


def _failed_opinion(result: Result) -> Outcome | None:
    _refuse_malformed(result)
    message = f"policy {result.policy.name!r} failed"
    if passed_over(result):
        return NoOpinion(reason=message)
    if result.policy.on_error == "deny":
        return Deny(message) if result.policy.kind == "authorizing" else Unauthenticated(message)
    return None


def denies(result: Result) -> bool:
    """Whether what a policy on objects or images did counts as a denial, whatever its operator makes of those."""
    outcome = result.outcome
    return isinstance(outcome, Deny) if outcome is not None else not passed_over(result)


def passed_over(result: Result) -> bool:
    """Whether a policy failed, and its say is left out."""
    return result.outcome is None and result.policy.on_error == "allow"


def _denial(result: Result, notes: ResponseNotes) -> Deny | None:
    """The denial that a result comes to, if it is one that its operator enforces; what else it says is noted."""
    outcome = result.outcome
    if outcome is None:
        _refuse_malformed(result)
        if passed_over(result):
            notes.add_failure(result.policy.name)
    elif outcome.warnings or outcome.audit:
        notes.add(result.policy.name, outcome)
    if not denies(result):
        return None
    denial = outcome if isinstance(outcome, Deny) else _failed(result)
    if result.policy.mode == "enforce":
        return denial
    notes.add_denial(result.policy.name, denial, warn=result.policy.mode == "warn")
    return None


def _refuse_malformed(result: Result) -> None:
    if isinstance(result.failure, MalformedReview):
        raise result.failure


def _failed(result: Result) -> Deny:
    """What the caller is told of a failure: no more than which policy it was."""
    if isinstance(result.failure, PolicyTimeout):
        return Deny(f"policy {result.policy.name!r} did not answer in time", reason="Timeout", code=504)
    return Deny(f"policy {result.policy.name!r} failed", reason="InternalError", code=500)


def _merge_denials(denials: Sequence[tuple[Result, Deny]], notes: ResponseNotes) -> Outcome:
    own = [pair for pair in denials if pair[0].failure is None]
    first = (own or denials)[0][1]
    if len(denials) == 1:
        return notes.on(first)
    ordered = [*own, *(pair for pair in denials if pair[0].failure is not None)]
    message = "; ".join(f"{result.policy.name}: {denial.message}" for result, denial in ordered)
    causes = [{"reason": result.policy.name, "message": denial.message} for result, denial in ordered]
    return notes.on(Deny(message, reason=first.reason, code=first.code, details=_with_causes(first.details, causes)))


def _with_causes(details: Mapping[str, Any] | None, causes: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
    """A denial's own details (its reason and code stand, so what belongs to them does), with a cause a policy."""
    own = (details or {}).get("causes")
    return {**(details or {}), "causes": [*(own if isinstance(own, list | tuple) else ()), *causes]}


FLOWS: Mapping[Kind, Callable[[Any, Sequence[AnyPolicy]], Flow]] = {
    "mutating": _threaded,
    "validating": _unanimous,
    "image_policy": _unanimous,
    "authorizing": _authorized,
    "authenticating": _authenticated,
}

NO_POLICY_OUTCOME: Mapping[Kind, Outcome] = {
    "mutating": Allow(),
    "validating": Allow(),
    "image_policy": Allow(),
    "authorizing": NoOpinion(),
    "authenticating": NoOpinion(),
}

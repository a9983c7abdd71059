"""How the outcomes of policies become one verdict, by the rules of each protocol.

A *flow* is a generator: it yields the policies to run next, as one batch, gets their results, and returns the verdict.
So the same rules apply to policies that run inline, without any task, and to policies that must be awaited.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from webhooks.engine.annotations import ResponseNotes
from webhooks.engine.invocation import Result
from webhooks.engine.mutations import apply_change, check_unmodified, merge_patches
from webhooks.errors import MalformedReview, PatchError, PolicyFailure, PolicyTimeout
from webhooks.policy.exemptions import Exemption
from webhooks.policy.model import AnyPolicy
from webhooks.reviews.admission import AdmissionReview, shared_object
from webhooks.reviews.authentication import TokenReview
from webhooks.reviews.authorization import AccessReview
from webhooks.reviews.codec import Review
from webhooks.reviews.images import ImageReview
from webhooks.reviews.kinds import Kind
from webhooks.reviews.outcomes import (
    CHANGES,
    Allow,
    Authenticated,
    Decision,
    Deny,
    Identity,
    NoOpinion,
    Opinion,
    Outcome,
    Unauthenticated,
)

O = TypeVar("O", bound=Outcome)  # noqa: E741

_ALLOW = Allow()


class Verdict(msgspec.Struct, Generic[O]):
    """The decision on a review.

    Attributes:
        outcome: the merged outcome; None if a failure leaves the review undecided, and the client must repeat it.
        results: the result of each policy.
        patch: the JSON Patch document of an Allow that changes the object.
        exemptions: the exemptions that matched, active or expired, each with the name of its policy.
    """

    outcome: O | None
    results: Sequence[Result] = ()
    patch: bytes | None = None
    exemptions: Sequence[tuple[str, Exemption]] = ()


Batch: TypeAlias = list[tuple[AnyPolicy, Any]]
Flow: TypeAlias = Generator[Batch, list[Result], Verdict[O]]


def _build_batch(review: Review, policies: Iterable[AnyPolicy], notes: ResponseNotes) -> Batch:
    """Return the policies that are not exempted, each with its own copy of the review."""
    return [
        (policy, review.copy())
        for policy in policies
        if not (policy.exemptions and _is_exempted(policy, review, notes))
    ]


def _is_exempted(policy: AnyPolicy, review: Any, notes: ResponseNotes) -> bool:
    """Check whether an active exemption of a policy covers a review. Notes that exemption, or an expired one."""
    expired = None
    for exemption in policy.exemptions:
        if exemption.covers(review.copy()):
            if not exemption.is_expired:
                notes.add_exemption(policy.name, exemption)
                return True
            expired = exemption
    if expired is not None:
        notes.add_expired_exemption(policy.name, expired)
    return False


def _all_must_allow(review: AdmissionReview | ImageReview, policies: Sequence[AnyPolicy]) -> Flow[Decision]:
    """Run all policies together; all must allow, and all reasons of denials are shown."""
    notes, denials = ResponseNotes(), []
    batch = _build_batch(review, policies, notes)
    results = (yield batch) if batch else []
    for _, copy in batch:
        if copy.object_accessed:
            check_unmodified(copy)
    for result in results:
        denial = _extract_denial(result, notes)
        if denial is not None:
            denials.append((result, denial))
    outcome: Decision = _merge_denials(denials, notes) if denials else notes.apply_to(_ALLOW)
    return Verdict(outcome, results, exemptions=notes.exemptions)


def _mutation_chain(review: AdmissionReview, policies: Sequence[AnyPolicy]) -> Flow[Decision]:
    """Run policies one after another, each on the object that the previous one returned, until one denies."""
    original = review
    results: list[Result] = []
    patches: list[bytes | None] = []
    notes = ResponseNotes()
    for policy in policies:
        if not policy.is_unconditional and not policy.matches(review):
            continue  # checked again for each, because previous policies may have changed labels or the name
        if policy.exemptions and _is_exempted(policy, review, notes):
            continue
        copy = review.copy()
        [result] = yield [(policy, copy)]
        if copy.object_accessed:
            check_unmodified(copy)
        if isinstance(result.outcome, CHANGES):
            try:
                changed, patch = apply_change(review, result.outcome)
            except (PatchError, PolicyFailure, TypeError, ValueError) as error:
                result = Result(policy, None, PolicyFailure(str(error)), result.seconds)
            else:
                if changed is not review:
                    patches.append(patch)
                    review = changed
        results.append(result)
        denial = _extract_denial(result, notes)
        if denial is not None:
            return Verdict(_merge_denials([(result, denial)], notes), results, exemptions=notes.exemptions)
    document = merge_patches(shared_object(original), shared_object(review), patches) if patches else None
    return Verdict(notes.apply_to(_ALLOW), results, document, notes.exemptions)


def _authorize(review: AccessReview, policies: Sequence[AnyPolicy]) -> Flow[Opinion]:
    """Deny beats Allow beats NoOpinion. A failure, which might have been a denial, beats all but Deny."""
    notes = ResponseNotes()  # only for the exemptions: the response has no annotations
    batch = _build_batch(review, policies, notes)
    results = (yield batch) if batch else []
    return Verdict(_select_highest(results, (Deny, Allow, NoOpinion)), results, exemptions=notes.exemptions)


def _authenticate(review: TokenReview, policies: Sequence[AnyPolicy]) -> Flow[Identity]:
    """Unauthenticated beats Authenticated beats NoOpinion. A failure beats all but Unauthenticated."""
    results = yield _build_batch(review, policies, ResponseNotes())
    outcome = _select_highest(results, (Unauthenticated, Authenticated, NoOpinion))
    return Verdict(_check_audiences(outcome, review) if isinstance(outcome, Authenticated) else outcome, results)


def _check_audiences(outcome: Authenticated, review: TokenReview) -> Identity:
    """Limit the audiences of a token to the requested ones; at least one must be common."""
    if outcome.audiences is None or (outcome.audiences and not review.audiences):
        return outcome
    audiences = [audience for audience in review.audiences if audience in outcome.audiences]
    if not audiences:
        return Unauthenticated("the token is for other audiences")
    return msgspec.structs.replace(outcome, audiences=audiences)


def _select_highest(results: Sequence[Result], ranks: tuple[type[Outcome], ...]) -> Any:
    """Return the outcome of the highest rank, all messages merged if it is a denial; None if a failure beats it."""
    outcomes = [result.outcome or _convert_failure(result) for result in results]
    denials = [outcome for outcome in outcomes if isinstance(outcome, ranks[0])]
    if denials:
        return denials[0] if len(denials) == 1 else _merge_messages(denials)
    if None in outcomes:
        return None
    return next((outcome for rank in ranks for outcome in outcomes if isinstance(outcome, rank)), NoOpinion())


def _merge_messages(denials: Sequence[Outcome]) -> Outcome:
    if isinstance(denials[0], Deny):
        return Deny("; ".join(denial.message for denial in denials if isinstance(denial, Deny)))
    return Unauthenticated("; ".join(denial.error for denial in denials if isinstance(denial, Unauthenticated)))


def _convert_failure(result: Result) -> Outcome | None:
    """Return the outcome that a failure of an authorizer or authenticator counts as; None if it decides nothing."""
    _raise_malformed(result)
    message = f"policy {result.policy.name!r} failed"
    if is_ignored_failure(result):
        return NoOpinion(reason=message)
    if result.policy.on_error == "deny":
        return Deny(message) if result.policy.kind == "authorizing" else Unauthenticated(message)
    return None


def is_denial(result: Result) -> bool:
    """Check whether a result of an admission or image policy counts as a denial, in whatever mode the policy runs."""
    outcome = result.outcome
    return isinstance(outcome, Deny) if outcome is not None else not is_ignored_failure(result)


def is_ignored_failure(result: Result) -> bool:
    """Check whether a policy failed, and its failure is ignored."""
    return result.outcome is None and result.policy.on_error == "allow"


def _extract_denial(result: Result, notes: ResponseNotes) -> Deny | None:
    """Return the denial of a result if it is enforced; note everything else that the result contains."""
    outcome = result.outcome
    if outcome is None:
        _raise_malformed(result)
        if is_ignored_failure(result):
            notes.add_failure(result.policy.name)
    elif outcome.warnings or outcome.audit:
        notes.add(result.policy.name, outcome)
    if not is_denial(result):
        return None
    denial = outcome if isinstance(outcome, Deny) else _build_failure_denial(result)
    if result.policy.mode == "enforce":
        return denial
    notes.add_denial(result.policy.name, denial, warn=result.policy.mode == "warn")
    return None


def _raise_malformed(result: Result) -> None:
    if isinstance(result.failure, MalformedReview):
        raise result.failure


def _build_failure_denial(result: Result) -> Deny:
    """Return the denial for a failure. It names the policy only: details are for the log."""
    if isinstance(result.failure, PolicyTimeout):
        return Deny(f"policy {result.policy.name!r} timed out", reason="Timeout", code=504)
    return Deny(f"policy {result.policy.name!r} failed", reason="InternalError", code=500)


def _merge_denials(denials: Sequence[tuple[Result, Deny]], notes: ResponseNotes) -> Deny:
    """Merge denials: reason and code are those of the first, policies' own denials come before failures."""
    own = [pair for pair in denials if pair[0].failure is None]
    first = (own or denials)[0][1]
    if len(denials) == 1:
        return notes.apply_to(first)
    ordered = [*own, *(pair for pair in denials if pair[0].failure is not None)]
    message = "; ".join(f"{result.policy.name}: {denial.message}" for result, denial in ordered)
    causes = [{"reason": result.policy.name, "message": denial.message} for result, denial in ordered]
    details = _add_causes(first.details, causes)
    return notes.apply_to(Deny(message, reason=first.reason, code=first.code, details=details))


def _add_causes(details: Mapping[str, Any] | None, causes: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
    """Return the details of the first denial, which belong to its reason and code, with a cause for each policy."""
    own = (details or {}).get("causes")
    return {**(details or {}), "causes": [*(own if isinstance(own, list | tuple) else ()), *causes]}


FLOWS: Mapping[Kind, Callable[[Any, Sequence[AnyPolicy]], Flow[Any]]] = {
    "mutating": _mutation_chain,
    "validating": _all_must_allow,
    "image_policy": _all_must_allow,
    "authorizing": _authorize,
    "authenticating": _authenticate,
}

NO_POLICY_OUTCOME: Mapping[Kind, Outcome] = {
    "mutating": Allow(),
    "validating": Allow(),
    "image_policy": Allow(),
    "authorizing": NoOpinion(),
    "authenticating": NoOpinion(),
}

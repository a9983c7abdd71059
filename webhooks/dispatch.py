"""From a review to a verdict: select the policies, run them, merge what they said, diff what they changed.

What a protocol makes of its policies' outcomes is a *flow*: a generator that yields the policies to run next, together,
and is sent their results; what it returns is the verdict. So the same rules drive policies that all run in place, with
no task and no waiting, and policies that wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import msgspec
import orjson

from webhooks import patching
from webhooks.annotations import Notes
from webhooks.decisions import Allow, Authenticated, Deny, NoOpinion, Outcome, Patch, Replace, Unauthenticated
from webhooks.drafts import settle
from webhooks.errors import MalformedReview, PatchError, PolicyFailure, PolicyTimeout
from webhooks.policy import Kind, Policy
from webhooks.registry import Registry
from webhooks.running import DEFAULT_TIMEOUT, Pace, Result, Runner
from webhooks.wire.admission import AdmissionReview, object_of, with_object

AnyPolicy: TypeAlias = Policy[Any, Any]
Flow: TypeAlias = Generator[list[tuple[AnyPolicy, Any]], list[Result], "Verdict"]

_CHANGES = frozenset((Replace, Patch))
_ALLOW = Allow()
_MAX_MARGIN = 0.5  # seconds, of the caller's timeout; kept for the way back


class Verdict(msgspec.Struct):
    """What a review came to.

    Attributes:
        outcome: the merged outcome; None where a failure leaves the question open, and the caller is to ask again.
        results: what each policy did.
        patch: the JSON Patch document of an Allow that changes the object.
    """

    outcome: Outcome | None
    results: Sequence[Result] = ()
    patch: bytes | None = None


class Dispatcher:
    """Decides reviews by the policies of a registry.

    Args:
        registry: the policies.
        paced: see `Runner`.
    """

    def __init__(self, registry: Registry, paced: Callable[[str, Pace], None]) -> None:
        self.registry = registry
        self.runner = Runner(registry, paced)

    def decide(
        self, kind: Kind, review: Any, timeout: float | None = None, only: AnyPolicy | None = None
    ) -> Verdict | Awaitable[Verdict]:
        """Decide a review: at once where every policy runs in place, else when awaited.

        Args:
            kind: which policies to ask.
            review: of the protocol that belongs to the kind.
            timeout: seconds until the caller gives up.
            only: the one policy to ask.

        Raises:
            MalformedReview: a part of the review that was needed cannot be read.
        """
        deadline = perf_counter() + budget(timeout)
        policies = self.registry.select(kind, review) if only is None else _if_wanted(only, review)
        if not policies:
            return Verdict(_UNASKED[kind])
        flow = _FLOWS[kind](review, policies)
        if self.runner.in_place(policies):
            return self._drive_in_place(flow, deadline)
        return self._drive(flow, deadline)

    def _drive_in_place(self, flow: Flow, deadline: float) -> Verdict:
        run = self.runner.run_in_place
        try:
            wanted = next(flow)
            while True:
                results = []
                for policy, review in wanted:
                    results.append(run(policy, review, deadline))  # a comprehension is a call more
                wanted = flow.send(results)
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict

    async def _drive(self, flow: Flow, deadline: float) -> Verdict:
        run = self.runner.run
        try:
            wanted = next(flow)
            while True:
                wanted = flow.send(
                    await asyncio.gather(*(run(policy, review, deadline) for policy, review in wanted))
                    if len(wanted) > 1
                    else [await run(wanted[0][0], wanted[0][1], deadline)]
                )
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict


def budget(timeout: float | None) -> float:
    """The seconds that policies have, of those after which the caller gives up."""
    if timeout is None:
        return DEFAULT_TIMEOUT
    return timeout - min(_MAX_MARGIN, timeout / 10)


def _if_wanted(policy: AnyPolicy, review: Any) -> list[AnyPolicy]:
    return [policy] if policy.match.wants_kind(review) and policy.match.wants(review) else []


def _everyone(review: Any, policies: Iterable[AnyPolicy]) -> list[tuple[AnyPolicy, Any]]:
    return [(policy, review.fresh()) for policy in policies]


def _unanimous(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """All are asked and all must allow; every reason is shown."""
    results = yield _everyone(review, policies)
    notes, denials = Notes(), []
    for result in results:
        denial = _denial(result, notes)
        if denial is not None:
            denials.append((result, denial))
    outcome = _merge_denials(denials, notes) if denials else notes.on(_ALLOW)
    return Verdict(outcome, results)


def _threaded(review: AdmissionReview, policies: Sequence[AnyPolicy]) -> Flow:
    """One after another, each on what the one before left; the first denial ends it."""
    original = review
    results: list[Result] = []
    changes: list[Outcome] = []
    notes = Notes()
    for policy in policies:
        [result] = yield [(policy, review.fresh())]
        results.append(result)
        if type(result.outcome) in _CHANGES:
            changed = _change(result, review)
            if changed is not review and result.outcome is not None:
                changes.append(result.outcome)
                review = changed
        denial = _denial(result, notes)
        if denial is not None:
            return Verdict(_merge_denials([(result, denial)], notes), results)
    if review is original:
        return Verdict(notes.on(_ALLOW), results)
    return _patched(object_of(original), object_of(review), changes, results, notes)


def _change(result: Result, review: AdmissionReview) -> AdmissionReview:
    """The review as the policy's outcome leaves it; an outcome that cannot be followed becomes a failure."""
    outcome = result.outcome
    assert isinstance(outcome, Replace | Patch)
    try:
        tree = object_of(review)
        if tree is None:
            raise PolicyFailure("changed an object where there is none to change (DELETE)")
        changed = settle(outcome.object) if isinstance(outcome, Replace) else patching.apply(tree, outcome.operations)
        if not isinstance(changed, dict):
            raise PolicyFailure("replaced the object by something that is none")
    except (PatchError, PolicyFailure, TypeError, ValueError) as error:
        result.failure = PolicyFailure(str(error))
        result.outcome = None
        return review
    return review if changed is tree else with_object(review, changed)


def _patched(original: Any, tree: Any, changes: list[Outcome], results: list[Result], notes: Notes) -> Verdict:
    """The verdict with the one patch that leads from the original to what the policies left, proven to apply."""
    last = results[-1]
    try:
        operations = _operations(original, tree, changes)
        if not operations:
            return Verdict(notes.on(_ALLOW), results)
        patch = _as_sent(operations)
    except (PatchError, PolicyFailure, TypeError) as error:
        last.failure = PolicyFailure(f"no patch could be made: {error}")
        last.outcome = None
        return Verdict(_merge_denials([(last, _failed(last, last.failure))], notes), results)
    return Verdict(notes.on(_ALLOW), results, patch)


def _operations(original: Any, tree: Any, changes: list[Outcome]) -> Sequence[Mapping[str, Any]]:
    """The operations that lead from one to the other, applied here already; none where nothing changed."""
    sole = changes[0]
    if len(changes) == 1 and isinstance(sole, Patch) and tree != original:
        return sole.operations
    operations = patching.diff(original, tree)
    if operations and patching.apply(original, operations) != tree:
        raise PolicyFailure("the patch does not lead to the object that was wanted")
    return operations


def _as_sent(operations: Sequence[Mapping[str, Any]]) -> bytes:
    """Operations as JSON, if that says what they said."""
    patch = orjson.dumps(operations)
    if orjson.loads(patch) != list(operations):
        raise PolicyFailure("a value in the patch is not JSON")
    return patch


def _authorized(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """Deny beats Allow beats NoOpinion; a failure, which might have been a denial, beats all but Deny."""
    results = yield _everyone(review, policies)
    return Verdict(_ranked(results, (Deny, Allow, NoOpinion)), results)


def _authenticated(review: Any, policies: Sequence[AnyPolicy]) -> Flow:
    """Unauthenticated beats Authenticated beats NoOpinion; a failure beats all but Unauthenticated."""
    results = yield _everyone(review, policies)
    return Verdict(_ranked(results, (Unauthenticated, Authenticated, NoOpinion)), results)


def _ranked(results: Sequence[Result], ranks: tuple[type[Outcome], ...]) -> Outcome | None:
    outcomes = [result.outcome or _failed_opinion(result) for result in results]
    refused = [outcome for outcome in outcomes if isinstance(outcome, ranks[0])]
    if refused:
        return refused[0] if len(refused) == 1 else _merge_refusals(refused)
    if None in outcomes:
        return None
    return next(outcome for rank in ranks for outcome in outcomes if isinstance(outcome, rank))


def _merge_refusals(refused: Sequence[Outcome]) -> Outcome:
    if isinstance(refused[0], Deny):
        return Deny("; ".join(each.message for each in refused if isinstance(each, Deny)))
    return Unauthenticated("; ".join(each.error for each in refused if isinstance(each, Unauthenticated)))


def _failed_opinion(result: Result) -> Outcome | None:
    _refuse_malformed(result)
    message = f"policy {result.policy.name!r} failed"
    if result.policy.on_error == "allow":
        return NoOpinion(reason=message)
    if result.policy.on_error == "deny":
        return Deny(message) if result.policy.kind == "authorizing" else Unauthenticated(message)
    return None


def _denial(result: Result, notes: Notes) -> Deny | None:
    """The denial that a result comes to, if it is one; its warnings and annotations are noted."""
    outcome = result.outcome
    if outcome is not None:
        if outcome.warnings or outcome.audit:
            notes.add(result.policy.name, outcome)
        return outcome if isinstance(outcome, Deny) else None
    _refuse_malformed(result)
    assert result.failure is not None
    if result.policy.on_error == "allow":
        notes.add_failure(result.policy.name)
        return None
    return _failed(result, result.failure)


def _refuse_malformed(result: Result) -> None:
    if isinstance(result.failure, MalformedReview):
        raise result.failure


def _failed(result: Result, failure: Exception) -> Deny:
    """What the caller is told of a failure: no more than which policy it was."""
    if isinstance(failure, PolicyTimeout):
        return Deny(f"policy {result.policy.name!r} did not answer in time", reason="Timeout", code=504)
    return Deny(f"policy {result.policy.name!r} failed", reason="InternalError", code=500)


def _merge_denials(denials: Sequence[tuple[Result, Deny]], notes: Notes) -> Outcome:
    own = [pair for pair in denials if pair[0].failure is None]
    first = (own or denials)[0][1]
    if len(denials) == 1:
        return notes.on(first)
    ordered = [*own, *(pair for pair in denials if pair[0].failure is not None)]
    message = "; ".join(f"{result.policy.name}: {denial.message}" for result, denial in ordered)
    causes = [{"reason": result.policy.name, "message": denial.message} for result, denial in ordered]
    return notes.on(Deny(message, reason=first.reason, code=first.code, details={"causes": causes}))


_FLOWS: Mapping[Kind, Callable[[Any, Sequence[AnyPolicy]], Flow]] = {
    "mutating": _threaded,
    "validating": _unanimous,
    "image_policy": _unanimous,
    "authorizing": _authorized,
    "authenticating": _authenticated,
}

_UNASKED: Mapping[Kind, Outcome] = {
    "mutating": Allow(),
    "validating": Allow(),
    "image_policy": Allow(),
    "authorizing": NoOpinion(),
    "authenticating": NoOpinion(),
}

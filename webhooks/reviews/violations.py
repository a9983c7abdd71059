"""What a request brings that was not there before."""

from collections.abc import Callable, Iterable

from webhooks.reviews.admission import AdmissionReview


def introduced(review: AdmissionReview, find: Callable[[AdmissionReview], Iterable[str]]) -> list[str]:
    """The violations that a request brings.

    An object that breaks a rule since before there was one must still be scaled down, labelled and let go of its
    finalizers: what an UPDATE leaves as it was is no reason to refuse it.

    Args:
        review: the request.
        find: finds the violations in the `target` of a review, each told by a text of its own.

    Returns:
        Those of the object that the old object does not have; on DELETE none.
    """
    if review.operation == "DELETE":
        return []
    found = list(find(review))
    before = review.before if found else None
    if before is None:
        return found
    known = set(find(before))
    return [violation for violation in found if violation not in known]

"""What a review is about, whichever protocol it came by: to be told in logs and traces, and nothing to decide by."""

import msgspec


class ReviewSummary(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is told of a review: names, and nothing of what an object holds.

    Attributes:
        uid: of the review.
        operation: what is done: CREATE ..., or the verb of an access.
        resource: to what: ``v1/pods``, ``apps/v1/deployments/scale``, or a path such as ``/healthz``.
        namespace: of the object.
        name: of the object.
        user: who does it, or who holds the token.
        images: those that are to run.
        dry_run: whether nothing will be stored.
    """

    uid: str = ""
    operation: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    images: list[str] = []
    dry_run: bool = False


def resource(group: str, version: str, name: str, subresource: str) -> str:
    """A resource as one text."""
    whole = f"{group}/{version}/{name}" if group else f"{version}/{name}"
    return f"{whole}/{subresource}" if subresource else whole

"""Applies the changes of mutating policies to objects, and merges them into one patch."""

from collections.abc import Sequence

import orjson

from webhooks.errors import PatchError, PolicyFailure
from webhooks.objects import json_diff, json_patch
from webhooks.objects.copy_on_write import materialize
from webhooks.objects.lazy_object import LazyObject
from webhooks.reviews.admission import AdmissionReview, is_unmodified, shared_object, with_object
from webhooks.reviews.outcomes import Patch, Replace

# API servers apply these as we do. In `test`, and in operations on the root, implementations differ.
_PORTABLE_OPERATIONS = frozenset(("add", "replace", "remove"))


def check_unmodified(review: AdmissionReview) -> None:
    """Check that a policy has not modified the objects that all copies share, by bypassing copy-on-write.

    Raises:
        PolicyFailure: it has; no outcome for the object is reliable.
    """
    if not is_unmodified(review):
        raise PolicyFailure("a policy modified a shared object; it must work on copy.deepcopy(review.object)")


def apply_change(review: AdmissionReview, outcome: Replace | Patch) -> tuple[AdmissionReview, bytes | None]:
    """Return the review with a changed object, and the patch of a policy if it can be sent unchanged.

    Raises:
        PatchError: operations do not apply.
        PolicyFailure: the change is invalid.
        TypeError: a value in it is not JSON.
    """
    before, patch = shared_object(review), None
    if not before.present or review.operation == "DELETE":
        raise PolicyFailure("returned a change, but the request has no object to change (DELETE)")
    if isinstance(outcome, Patch):
        patch = orjson.dumps(outcome.operations)
        operations = orjson.loads(patch)  # a copy that the policy cannot modify
        if operations != list(outcome.operations):
            raise PolicyFailure("a value in the patch is not JSON")
        changed = before.apply_patch(operations)
        for operation in operations:
            if operation["op"] not in _PORTABLE_OPERATIONS or not operation["path"]:
                patch = None
    else:
        tree = materialize(outcome.object)
        if not isinstance(tree, dict):
            raise PolicyFailure(f"returned a Replace with a value of type {type(tree).__name__}; must be an object")
        changed = before if tree is before.tree else LazyObject.from_tree(tree)
    return (review if changed is before else with_object(review, changed)), patch


def merge_patches(original: LazyObject, changed: LazyObject, patches: Sequence[bytes | None]) -> bytes | None:
    """Return one patch from the original to the final object, verified by applying it; None if nothing changed.

    Raises:
        PatchError: the patch does not result in the final object.
    """
    if len(patches) == 1 and patches[0] is not None:
        return patches[0]
    operations = json_diff.diff(original.tree, changed.tree)
    if not operations:
        return None
    if json_patch.apply(original.tree, operations) != changed.tree:
        raise PatchError("the merged patch does not result in the final object")
    return orjson.dumps(operations)

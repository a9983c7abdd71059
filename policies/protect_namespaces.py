"""Denies the deletion of certain namespaces, even if other authorizers allow it.

The deletion of a namespace deletes everything in it, and cannot be undone. Requests to delete several namespaces at
once are denied too, because they may include these.

Parameters:
    namespaces: the protected namespaces, as shell patterns.
    except_groups: groups whose members may delete them.

No opinion::

    spec: {user: jane, resourceAttributes: {verb: delete, resource: namespaces, name: team-a}}

Denied::

    spec: {user: jane, resourceAttributes: {verb: delete, resource: namespaces, name: kube-system}}
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from webhooks import AccessReview, Deny, NoOpinion, Opinion, authorizing


@authorizing("core/namespaces", verbs=["delete", "deletecollection"], on_error="deny")
def protect_namespaces(
    access: AccessReview,
    *,
    namespaces: Sequence[str] = ("default", "kube-*"),
    except_groups: Sequence[str] = (),
) -> Opinion:
    """Deny the deletion of protected namespaces, by name or together with others."""
    if not namespaces or set(except_groups) & set(access.groups):
        return NoOpinion()
    if not access.name:
        return Deny(f"delete namespaces one by one, because some are protected: {', '.join(namespaces)}")
    if any(fnmatchcase(access.name, pattern) for pattern in namespaces):
        return Deny(f"namespace {access.name} is protected and must not be deleted")
    return NoOpinion()

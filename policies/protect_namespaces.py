"""Namespaces that a cluster cannot do without are not deleted, whatever other authorizers say.

Parameters:
    namespaces: names, and shell patterns of names.
    except_groups: groups whose members may delete them all the same.

Left to other authorizers::

    user jane deletes the namespace team-a

Denied::

    user jane deletes the namespace kube-system
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
    """Deny deleting the namespaces; deleting a collection of them might delete these too."""
    if set(except_groups) & set(access.groups):
        return NoOpinion()
    if not access.name:
        return Deny(f"namespaces are not deleted together: {', '.join(namespaces)} would go too")
    if any(fnmatchcase(access.name, pattern) for pattern in namespaces):
        return Deny(f"the namespace {access.name} is kept")
    return NoOpinion()

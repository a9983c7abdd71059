"""Namespaces that a cluster cannot do without are not deleted, whatever other authorizers say.

With a namespace goes all that is in it, at one command, and nothing brings it back. To delete namespaces together might
delete these too, and is denied as well.

Parameters:
    namespaces: names, and shell patterns of names.
    except_groups: groups whose members may delete them all the same.

Left to other authorizers::

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
    """Deny deleting the namespaces, by name or among others."""
    if not namespaces or set(except_groups) & set(access.groups):
        return NoOpinion()
    if not access.name:
        return Deny(f"namespaces are not deleted together: {', '.join(namespaces)} would go too")
    if any(fnmatchcase(access.name, pattern) for pattern in namespaces):
        return Deny(f"the namespace {access.name} is kept")
    return NoOpinion()

"""Nobody acts in the name of another, whatever other authorizers say.

A right to impersonate is every right of whoever may be impersonated, and easily given: ``*`` among the verbs of a role
is enough. This asks about each part of another's identity (user, group, UID, further facts, service account, node),
about limited impersonation (``impersonate:user-info`` ...) as about the unlimited one. Whoever is in ``system:masters``
is asked about by no API server.

Parameters:
    names: who may not be impersonated: users and groups, as names or shell patterns; service accounts as
        ``system:serviceaccount:NAMESPACE:NAME``, nodes as ``system:node:NAME``.
    except_users: users who may all the same.
    except_groups: groups whose members may all the same.

Left to other authorizers, with ``names=["system:*"], except_groups=["operators"]``::

    spec: {user: jane, resourceAttributes: {verb: impersonate, resource: users, name: joe}}

Left to other authorizers::

    spec: {groups: [operators], resourceAttributes: {verb: impersonate, resource: users, name: "system:admin"}}

Denied::

    spec: {user: jane, resourceAttributes: {verb: impersonate, resource: groups, name: "system:masters"}}
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from webhooks import AccessReview, Deny, NoOpinion, Opinion, authorizing

_PREFIXES = {"serviceaccounts": "system:serviceaccount:", "nodes": "system:node:"}


@authorizing(
    "users",
    "groups",
    "uids",
    "userextras/*",
    "serviceaccounts",
    "nodes",
    verbs=["impersonate", "impersonate:*"],
    on_error="deny",
)
def deny_impersonation(
    access: AccessReview,
    *,
    names: Sequence[str] = ("*",),
    except_users: Sequence[str] = (),
    except_groups: Sequence[str] = (),
) -> Opinion:
    """Deny impersonating them; a request that names nobody might mean them."""
    if access.user in except_users or set(except_groups) & set(access.groups) or not names:
        return NoOpinion()
    if access.name in ("", "*"):
        return Deny(f"{access.resource} may not all be impersonated")
    name = _full_name(access)
    if any(fnmatchcase(name, pattern) for pattern in names):
        return Deny(f"{name} may not be impersonated")
    return NoOpinion()


def _full_name(access: AccessReview) -> str:
    namespace = f"{access.namespace}:" if access.namespace else ""
    return f"{_PREFIXES.get(access.resource, '')}{namespace}{access.name}"

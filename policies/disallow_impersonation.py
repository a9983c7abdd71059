"""Denies impersonation, even if other authorizers allow it.

The right to impersonate includes all rights of the impersonated user, and ``*`` in the verbs of a role grants it. Each
part of an identity is checked (user, group, UID, extra fields, service account, node), for unlimited and for
constrained impersonation (``impersonate:user-info`` ...). API servers do not send reviews for members of
``system:masters``.

Parameters:
    names: the protected identities: names of users and groups, ``system:serviceaccount:NAMESPACE:NAME`` for service
        accounts, ``system:node:NAME`` for nodes; all as shell patterns.
    except_users: users who may impersonate.
    except_groups: groups whose members may impersonate.

No opinion, with ``names=["system:*"], except_groups=["operators"]``::

    spec: {user: jane, resourceAttributes: {verb: impersonate, resource: users, name: joe}}

No opinion::

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
def disallow_impersonation(
    access: AccessReview,
    *,
    names: Sequence[str] = ("*",),
    except_users: Sequence[str] = (),
    except_groups: Sequence[str] = (),
) -> Opinion:
    """Deny impersonation of a protected identity; a request without a name may mean one."""
    if access.user in except_users or set(except_groups) & set(access.groups) or not names:
        return NoOpinion()
    if access.name in ("", "*"):
        return Deny(f"impersonating all {access.resource} is not allowed")
    name = _full_name(access)
    if any(fnmatchcase(name, pattern) for pattern in names):
        return Deny(f"impersonating {name} is not allowed")
    return NoOpinion()


def _full_name(access: AccessReview) -> str:
    namespace = f"{access.namespace}:" if access.namespace else ""
    return f"{_PREFIXES.get(access.resource, '')}{namespace}{access.name}"

"""Denies everything but reading to members of certain groups, even if other authorizers allow more.

The rights of a user, such as an auditor, grow over time, and a single role can grant write access. Requests with a read
verb that run or connect to something (``exec``, ``attach``, ``portforward``, ``proxy``) count as changes; requests of
users about their own rights (``kubectl auth can-i``) do not. Other authorizers decide what may be read.

Parameters:
    groups: the groups.
    verbs: the read verbs.
    except_subresources: the subresources that count as changes with any verb.

No opinion, with ``groups=["auditors"]``::

    spec: {user: jane, groups: [auditors, admins], resourceAttributes: {verb: list, resource: pods, namespace: prod}}

Denied::

    spec: {user: jane, groups: [auditors, admins], resourceAttributes: {verb: delete, resource: pods, name: web}}

Denied::

    spec:
      user: jane
      groups: [auditors]
      resourceAttributes: {verb: get, resource: pods, subresource: exec, namespace: prod, name: web}
"""

from collections.abc import Sequence

from webhooks import AccessReview, Deny, NoOpinion, Opinion, authorizing


@authorizing("*/*", paths=["*"], on_error="deny")
def read_only_groups(
    access: AccessReview,
    *,
    groups: Sequence[str] = ("read-only",),
    verbs: Sequence[str] = ("get", "list", "watch", "head", "options"),
    except_subresources: Sequence[str] = ("exec", "attach", "portforward", "proxy"),
) -> Opinion:
    """Deny everything but reading to members of the groups."""
    matching = [group for group in groups if group in access.groups]
    if not matching or access.is_self_review:
        return NoOpinion()
    if access.verb in verbs and access.subresource not in ("*", *except_subresources):
        return NoOpinion()
    target = "/".join(filter(None, (access.resource, access.subresource))) if access.is_resource else access.path
    return Deny(f"members of {', '.join(matching)} have only read access: they must not {access.verb} {target}")

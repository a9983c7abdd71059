"""Members of some groups look and change nothing, whatever other authorizers say.

An auditor's rights add up over the years, and one role too many makes a reader a writer. What is asked with a reading
verb but runs or reaches something (``exec``, ``attach``, ``portforward``, ``proxy``) is no reading. Questions about
oneself (``kubectl auth can-i``) are. What may be read is left to other authorizers.

Parameters:
    groups: the groups.
    verbs: what counts as reading.
    except_subresources: those through which a reading verb runs or reaches something.

Left to other authorizers, with ``groups=["auditors"]``::

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

_REVIEW_GROUPS = ("authorization.k8s.io", "authentication.k8s.io", "authorization.svc.io", "authentication.svc.io")


@authorizing("*/*", paths=["*"], on_error="deny")
def read_only_groups(
    access: AccessReview,
    *,
    groups: Sequence[str] = ("read-only",),
    verbs: Sequence[str] = ("get", "list", "watch", "head", "options"),
    except_subresources: Sequence[str] = ("exec", "attach", "portforward", "proxy"),
) -> Opinion:
    """Deny members whatever is no reading."""
    if not set(groups) & set(access.groups) or _is_reading(access, verbs, except_subresources):
        return NoOpinion()
    what = "/".join(filter(None, (access.resource, access.subresource))) if access.is_resource else access.path
    named = ", ".join(group for group in groups if group in access.groups)
    return Deny(f"members of {named} only read: they may not {access.verb} {what}")


def _is_reading(access: AccessReview, verbs: Sequence[str], except_subresources: Sequence[str]) -> bool:
    if access.group in _REVIEW_GROUPS and access.resource.startswith("selfsubject"):
        return access.verb == "create"
    return access.verb in verbs and access.subresource not in ("*", *except_subresources)

"""Roles are not given to those who have not said who they are.

Whoever reaches the API server is ``system:anonymous``, of the group ``system:unauthenticated``: what is bound to these
is open to everybody.

Parameters:
    allowed_roles: Roles and ClusterRoles that may be, such as ``system:public-info-viewer``.
    disallow_authenticated: whether the group ``system:authenticated``, of everybody else, is refused too.

Allowed, with ``allowed_roles=["system:public-info-viewer"]``::

    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:public-info-viewer}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: system:unauthenticated}]

Denied::

    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
    subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:anonymous}]
"""

from collections.abc import Iterator, Sequence

from webhooks import AdmissionReview, Allow, Decision, Deny, field, introduced, items, validating


@validating(
    "rbac.authorization.k8s.io/rolebindings",
    "rbac.authorization.k8s.io/clusterrolebindings",
    operations=["CREATE", "UPDATE"],
)
def disallow_anonymous(
    review: AdmissionReview, *, allowed_roles: Sequence[str] = (), disallow_authenticated: bool = False
) -> Decision:
    """Deny bindings of other roles to anonymous users."""
    refused = ["system:anonymous", "system:unauthenticated", *["system:authenticated"] * disallow_authenticated]
    found = introduced(review, lambda each: _violations(each, allowed_roles, refused))
    return Deny("; ".join(found)) if found else Allow()


def _violations(review: AdmissionReview, allowed_roles: Sequence[str], refused: Sequence[str]) -> Iterator[str]:
    role = field(review.target, "roleRef.name", str)
    for subject in items(review.target, "subjects", dict):
        name = field(subject, "name", str)
        if name in refused and role not in allowed_roles:
            yield f"subjects: {name} may not have the role {role}"

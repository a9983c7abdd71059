"""Denies role bindings for unauthenticated users.

The API server treats requests without credentials as user ``system:anonymous`` in group ``system:unauthenticated``.
Everyone who can reach the API server has the roles of these.

Parameters:
    allowed_roles: Roles and ClusterRoles that may be bound, such as ``system:public-info-viewer``.
    disallow_authenticated: whether to also deny bindings for the group ``system:authenticated``, all other users.

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

from webhooks import AdmissionReview, Decision, deny_new, field, items, validating


@validating(
    "rbac.authorization.k8s.io/rolebindings",
    "rbac.authorization.k8s.io/clusterrolebindings",
    operations=["CREATE", "UPDATE"],
)
def disallow_anonymous(
    review: AdmissionReview, *, allowed_roles: Sequence[str] = (), disallow_authenticated: bool = False
) -> Decision:
    """Deny bindings of other roles to these users."""
    subjects = ["system:anonymous", "system:unauthenticated", *["system:authenticated"] * disallow_authenticated]
    return deny_new(review, _violations, allowed_roles, subjects)


def _violations(review: AdmissionReview, allowed_roles: Sequence[str], denied_subjects: Sequence[str]) -> Iterator[str]:
    role = field(review.target, "roleRef.name", str)
    for subject in items(review.target, "subjects", dict):
        name = field(subject, "name", str)
        if name in denied_subjects and role not in allowed_roles:
            yield f"subjects: {name} must not have the role {role}"

from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .other_objects import check_requests, check_shapes, message

[disallow_anonymous] = load(["library:disallow_anonymous"])

GROUP = "rbac.authorization.k8s.io"


def binding(*names: str, kind: str = "ClusterRoleBinding", role: str = "view") -> Json:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": name} for name in names],
    }


ANONYMOUS = "subjects: system:anonymous must not have the role view"
UNAUTHENTICATED = "subjects: system:unauthenticated must not have the role view"
CASES: list[tuple[Json, list[str], str | None]] = [
    ({}, [], None),
    ({}, ["jane", "system:authenticated", "system:anonymous:x", "anonymous"], None),
    ({}, ["jane", "system:anonymous"], ANONYMOUS),
    ({}, ["system:unauthenticated"], UNAUTHENTICATED),
    ({}, ["system:anonymous", "system:unauthenticated"], f"{ANONYMOUS}; {UNAUTHENTICATED}"),
    ({"allowed_roles": ["view"]}, ["system:anonymous", "system:unauthenticated"], None),
    ({"allowed_roles": ["view"], "disallow_authenticated": True}, ["system:authenticated"], None),
    ({"allowed_roles": ["edit", "vie"]}, ["system:anonymous"], ANONYMOUS),
    (
        {"disallow_authenticated": True},
        ["system:authenticated"],
        "subjects: system:authenticated must not have the role view",
    ),
    ({"disallow_authenticated": True}, ["system:anonymous"], ANONYMOUS),
]


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
@pytest.mark.parametrize(("parameters", "names", "problem"), CASES, ids=repr)
def test_bindings_of_unauthenticated_users_are_denied(
    parameters: Json, names: list[str], problem: str | None, kind: str
) -> None:
    assert message(disallow_anonymous.bind(**parameters), binding(*names, kind=kind)) == problem


@pytest.mark.parametrize("kind", ["User", "Group", "ServiceAccount", ""])
def test_the_kind_of_the_subject_does_not_matter(kind: str) -> None:
    obj = binding("system:anonymous")
    obj["subjects"][0]["kind"] = kind
    assert message(disallow_anonymous, obj) == ANONYMOUS


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
def test_requests(kind: str) -> None:
    check_requests(disallow_anonymous, binding("jane", kind=kind), binding("system:anonymous", kind=kind))
    both = binding("system:anonymous", "system:unauthenticated", kind=kind)
    assert message(disallow_anonymous, both, binding("system:anonymous", kind=kind)) == UNAUTHENTICATED


def test_shapes() -> None:
    good = binding("jane")
    check_shapes(disallow_anonymous, good, "subjects", allowed=([],))
    check_shapes(disallow_anonymous, good, "subjects", 0, allowed=({}, {"x": "y"}))
    check_shapes(disallow_anonymous, good, "subjects", 0, "name", allowed=("", "x"))
    check_shapes(disallow_anonymous, good, "roleRef", allowed=({}, {"x": "y"}))
    without = {**binding("system:anonymous"), "subjects": None}
    assert message(disallow_anonymous, without) is None


@pytest.mark.parametrize(
    "parameters",
    [{"allowed_roles": "view"}, {"allowed_roles": [5]}, {"allowed_roles": None}, {"disallow_authenticated": "yes"}],
    ids=repr,
)
def test_parameters_are_checked(parameters: Any) -> None:
    with pytest.raises(ConfigurationError):
        disallow_anonymous.bind(**parameters)

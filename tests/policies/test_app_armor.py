from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .pods import (
    RESOURCES,
    check_all_kinds,
    check_containers,
    check_exemptions,
    check_shapes,
    container,
    message,
    pod_spec,
    with_context,
)

[app_armor] = load(["library:app_armor"])

ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
DEFAULT, UNCONFINED = {"type": "RuntimeDefault"}, {"type": "Unconfined"}
WEB = {"type": "Localhost", "localhostProfile": "web"}
# Profiles in fields, in annotations, and in messages.
PROFILES: list[tuple[Any, str | None, str]] = [
    (None, None, "runtime/default"),
    (DEFAULT, "runtime/default", "runtime/default"),
    (UNCONFINED, "unconfined", "unconfined"),
    (WEB, "localhost/web", "localhost/web"),
    ({"type": "Localhost"}, "localhost/", "localhost/"),
    ({"type": "New"}, "New", "New"),
    ({}, "without a type", "without a type"),
]
LISTS = [
    ([], []),
    (["runtime/default"], ["runtime/default"]),
    (["unconfined"], ["unconfined"]),
    (["localhost/web"], ["localhost/web"]),
    (["localhost/*"], ["localhost/web", "localhost/"]),
    (["localhost/w*", "*", "localhost"], []),
    (["runtime/default", "localhost/web"], ["runtime/default", "localhost/web"]),
]


@pytest.mark.parametrize(("allowed", "good"), LISTS, ids=repr)
@pytest.mark.parametrize(("of_field", "of_annotation", "name"), PROFILES, ids=repr)
def test_profiles_are_compared(
    allowed: list[str], good: list[str], of_field: Any, of_annotation: str | None, name: str
) -> None:
    policy = app_armor.bind(allowed_profiles=allowed)
    expected = " or ".join(allowed) or "an allowed profile"
    problem = f"container app: securityContext.appArmorProfile must be {expected}, not {name}"
    annotations = None if of_annotation is None else {ANNOTATION + "app": of_annotation}
    for kind in RESOURCES:
        for spec, annotation in (
            (pod_spec(with_context(appArmorProfile=of_field)), None),
            (pod_spec(securityContext={"appArmorProfile": of_field}), None),
            (pod_spec(), annotations),
        ):
            assert message(policy, spec, kind, annotations=annotation) == (None if name in good else problem), (
                kind,
                spec,
            )


# The profiles of the pod, the container and the annotation, and the denied one.
LEVELS: list[tuple[Any, Any, str | None, str | None]] = [
    (UNCONFINED, DEFAULT, None, None),
    (DEFAULT, UNCONFINED, None, "unconfined"),
    (UNCONFINED, None, "runtime/default", None),
    (DEFAULT, None, "unconfined", "unconfined"),
    (None, DEFAULT, "unconfined", "unconfined"),
    (None, UNCONFINED, "runtime/default", "unconfined"),
    (DEFAULT, None, "", None),
    (UNCONFINED, None, "", "unconfined"),
]


@pytest.mark.parametrize(("pod_value", "container_value", "annotation", "wrong"), LEVELS, ids=repr)
def test_the_container_takes_precedence(
    pod_value: Any, container_value: Any, annotation: str | None, wrong: str | None
) -> None:
    spec = pod_spec(with_context(appArmorProfile=container_value), securityContext={"appArmorProfile": pod_value})
    annotations = {} if annotation is None else {ANNOTATION + "app": annotation}
    problem = wrong and f"container app: securityContext.appArmorProfile must be runtime/default, not {wrong}"
    assert message(app_armor, spec, annotations=annotations) == problem


def test_other_annotations_are_ignored() -> None:
    annotations = {ANNOTATION + "other": "unconfined", ANNOTATION: "unconfined", "app": "unconfined"}
    assert message(app_armor, pod_spec(), annotations=annotations) is None


def test_pods_for_windows_are_exempt() -> None:
    policy = app_armor.bind(allowed_profiles=["localhost/web"])
    assert message(policy, pod_spec(os={"name": "windows"})) is None
    assert message(policy, pod_spec(os={"name": "linux"}))


def test_all_objects_and_containers() -> None:
    bad = with_context(appArmorProfile=UNCONFINED)
    check_all_kinds(app_armor, pod_spec(), pod_spec(bad))
    check_all_kinds(app_armor, pod_spec(), pod_spec(securityContext={"appArmorProfile": UNCONFINED}))
    check_containers(app_armor, container(), bad)
    check_containers(
        app_armor, with_context(appArmorProfile=DEFAULT), container(), securityContext={"appArmorProfile": WEB}
    )
    check_exemptions(app_armor, bad)


def test_an_update_must_not_add_another_profile() -> None:
    old, new = (pod_spec(with_context(appArmorProfile=profile)) for profile in (UNCONFINED, WEB))
    assert message(app_armor, new, "Deployment", old=old)


def test_malformed_objects_are_denied() -> None:
    for spec, path in (
        (pod_spec(with_context(appArmorProfile=DEFAULT)), "containers/0/securityContext"),
        (pod_spec(securityContext={"appArmorProfile": DEFAULT}), "securityContext"),
    ):
        check_shapes(app_armor, spec, path, {}, {"x": "y"})
        check_shapes(app_armor, spec, f"{path}/appArmorProfile")
        check_shapes(app_armor, spec, f"{path}/appArmorProfile/type")


@pytest.mark.parametrize("value", ["unconfined", [5], None], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        app_armor.bind(allowed_profiles=value)

from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .pods import (
    check_all_kinds,
    check_containers,
    check_exemptions,
    check_shapes,
    container,
    message,
    pod_spec,
    with_context,
)

[seccomp] = load(["library:seccomp"])

DEFAULT, UNCONFINED = {"type": "RuntimeDefault"}, {"type": "Unconfined"}
WEB, LOG = ({"type": "Localhost", "localhostProfile": name} for name in ("web.json", "log.json"))
BARE = {"type": "Localhost"}

# The allowed profiles and files as parameters, and the profiles that they allow.
ALL: list[Any] = [DEFAULT, UNCONFINED, WEB, LOG, BARE, None]
CASES: list[tuple[list[str], list[str], list[Any]]] = [
    ([], [], []),
    (["RuntimeDefault"], [], [DEFAULT]),
    (["RuntimeDefault"], ["web.json"], [DEFAULT]),
    (["runtime/default"], [], [DEFAULT]),
    (["docker/default"], [], [DEFAULT]),
    (["Unconfined"], [], [UNCONFINED]),
    (["unconfined"], [], [UNCONFINED]),
    (["Localhost"], [], []),
    (["Localhost"], ["web.json"], [WEB]),
    (["Localhost"], ["web.json", "log.json"], [WEB, LOG]),
    (["Localhost"], ["*"], [WEB, LOG, BARE]),
    (["localhost/web.json"], [], [WEB]),
    (["localhost/*"], [], [WEB, LOG, BARE]),
    (["localhost/w*"], [], []),
    (["localhost"], [], []),
    (["RuntimeDefault", "Localhost"], ["log.json"], [DEFAULT, LOG]),
    (["runtimedefault", "LOCALHOST"], ["web.json"], []),
    (["*"], [], ALL),
]


@pytest.mark.parametrize(("profiles", "files", "good"), CASES, ids=repr)
def test_profiles_are_compared(profiles: list[str], files: list[str], good: list[Any]) -> None:
    policy = seccomp.bind(allowed_profiles=profiles, allowed_localhost_files=files)
    for profile in ALL:
        container_value = pod_spec(with_context(seccompProfile=profile))
        pod_value = pod_spec(securityContext={"seccompProfile": profile})
        for spec in (container_value, pod_value):
            assert (message(policy, spec) is None) is (profile in good), (profile, spec)


# The profile of the pod, that of the container, and the denied one.
LEVELS: list[tuple[Any, Any, str | None]] = [
    (None, None, "absent"),
    (None, DEFAULT, None),
    (DEFAULT, None, None),
    (DEFAULT, DEFAULT, None),
    (DEFAULT, UNCONFINED, "Unconfined"),
    (UNCONFINED, DEFAULT, None),
    (UNCONFINED, None, "Unconfined"),
    (DEFAULT, WEB, "localhost/web.json"),
    (DEFAULT, BARE, "localhost/"),
    (DEFAULT, {}, "without a type"),
    (DEFAULT, {"type": ""}, "without a type"),
    (DEFAULT, {"type": "OCI"}, "OCI"),
    (DEFAULT, {"type": "runtimedefault"}, "runtimedefault"),
]


@pytest.mark.parametrize(("pod_value", "container_value", "wrong"), LEVELS, ids=repr)
def test_the_container_takes_precedence(pod_value: Any, container_value: Any, wrong: str | None) -> None:
    spec = pod_spec(with_context(seccompProfile=container_value), securityContext={"seccompProfile": pod_value})
    problem = wrong and f"container app: securityContext.seccompProfile must be RuntimeDefault, not {wrong}"
    assert message(seccomp, spec) == problem


def test_messages() -> None:
    policy = seccomp.bind(allowed_profiles=["unconfined", "docker/default", "localhost/*"])
    problem = (
        "container app: securityContext.seccompProfile must be RuntimeDefault or Unconfined or localhost/*, not absent"
    )
    assert message(policy, pod_spec()) == problem
    problem = "container app: securityContext.seccompProfile must be an allowed profile, not absent"
    assert message(seccomp.bind(allowed_profiles=[]), pod_spec()) == problem


def test_annotations_are_ignored() -> None:
    annotations = {
        "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
        "container.seccomp.security.alpha.kubernetes.io/app": "runtime/default",
    }
    assert message(seccomp, pod_spec(), annotations=annotations)
    confined = pod_spec(securityContext={"seccompProfile": DEFAULT})
    assert message(seccomp, confined, annotations=dict.fromkeys(annotations, "unconfined")) is None


def test_pods_for_windows_are_exempt() -> None:
    assert message(seccomp, pod_spec(os={"name": "windows"})) is None
    assert message(seccomp, pod_spec(os={"name": "linux"}))


def test_all_objects_and_containers() -> None:
    good, bad = with_context(seccompProfile=DEFAULT), with_context(seccompProfile=UNCONFINED)
    check_all_kinds(seccomp, pod_spec(good), pod_spec(bad))
    check_all_kinds(seccomp, pod_spec(securityContext={"seccompProfile": DEFAULT}), pod_spec())
    check_containers(seccomp, good, bad)
    check_containers(seccomp, good, container())
    check_containers(seccomp, container(), bad, securityContext={"seccompProfile": DEFAULT})
    check_exemptions(seccomp, bad)
    check_exemptions(seccomp, container())


def test_an_update_must_not_add_another_profile() -> None:
    assert message(seccomp, pod_spec(with_context(seccompProfile=UNCONFINED)), "Deployment", old=pod_spec())


def test_malformed_objects_are_denied() -> None:
    for spec, path in (
        (pod_spec(with_context(seccompProfile=DEFAULT)), "containers/0/securityContext"),
        (pod_spec(securityContext={"seccompProfile": DEFAULT}), "securityContext"),
    ):
        check_shapes(seccomp, spec, path)
        check_shapes(seccomp, spec, f"{path}/seccompProfile")
        check_shapes(seccomp, spec, f"{path}/seccompProfile/type")


@pytest.mark.parametrize("name", ["allowed_profiles", "allowed_localhost_files"])
@pytest.mark.parametrize("value", ["*", [5], None], ids=repr)
def test_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        seccomp.bind(**{name: value})

from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from .objects import (
    check_containers,
    check_everywhere,
    check_exemptions,
    check_shapes,
    container,
    message,
    secured,
    spec_of,
)

[seccomp] = load(["library:seccomp"])

DEFAULT, UNCONFINED = {"type": "RuntimeDefault"}, {"type": "Unconfined"}
WEB, LOG = ({"type": "Localhost", "localhostProfile": name} for name in ("web.json", "log.json"))
BARE = {"type": "Localhost"}

# What is allowed, of which files, and the profiles that are let in; all others are not.
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
        of_container = spec_of(secured(seccompProfile=profile))
        of_pod = spec_of(securityContext={"seccompProfile": profile})
        for spec in (of_container, of_pod):
            assert (message(policy, spec) is None) is (profile in good), (profile, spec)


# What the pod says, what the container says, and what is wrong.
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


@pytest.mark.parametrize(("of_pod", "of_container", "wrong"), LEVELS, ids=repr)
def test_the_container_takes_precedence(of_pod: Any, of_container: Any, wrong: str | None) -> None:
    spec = spec_of(secured(seccompProfile=of_container), securityContext={"seccompProfile": of_pod})
    problem = wrong and f"container app: securityContext.seccompProfile must be RuntimeDefault, not {wrong}"
    assert message(seccomp, spec) == problem


def test_messages() -> None:
    policy = seccomp.bind(allowed_profiles=["unconfined", "docker/default", "localhost/*"])
    problem = (
        "container app: securityContext.seccompProfile must be RuntimeDefault or Unconfined or localhost/*, not absent"
    )
    assert message(policy, spec_of()) == problem
    problem = "container app: securityContext.seccompProfile must be an allowed profile, not absent"
    assert message(seccomp.bind(allowed_profiles=[]), spec_of()) == problem


def test_annotations_do_not_count() -> None:
    annotations = {
        "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
        "container.seccomp.security.alpha.kubernetes.io/app": "runtime/default",
    }
    assert message(seccomp, spec_of(), annotations=annotations)
    confined = spec_of(securityContext={"seccompProfile": DEFAULT})
    assert message(seccomp, confined, annotations=dict.fromkeys(annotations, "unconfined")) is None


def test_pods_for_windows_have_none() -> None:
    assert message(seccomp, spec_of(os={"name": "windows"})) is None
    assert message(seccomp, spec_of(os={"name": "linux"}))


def test_it_holds_for_every_object_and_container() -> None:
    good, bad = secured(seccompProfile=DEFAULT), secured(seccompProfile=UNCONFINED)
    check_everywhere(seccomp, spec_of(good), spec_of(bad))
    check_everywhere(seccomp, spec_of(securityContext={"seccompProfile": DEFAULT}), spec_of())
    check_containers(seccomp, good, bad)
    check_containers(seccomp, good, container())
    check_containers(seccomp, container(), bad, securityContext={"seccompProfile": DEFAULT})
    check_exemptions(seccomp, bad)
    check_exemptions(seccomp, container())


def test_an_update_may_not_bring_another_profile() -> None:
    assert message(seccomp, spec_of(secured(seccompProfile=UNCONFINED)), "Deployment", old=spec_of())


def test_misshapen_objects_are_denied() -> None:
    for spec, path in (
        (spec_of(secured(seccompProfile=DEFAULT)), "containers/0/securityContext"),
        (spec_of(securityContext={"seccompProfile": DEFAULT}), "securityContext"),
    ):
        check_shapes(seccomp, spec, path)
        check_shapes(seccomp, spec, f"{path}/seccompProfile")
        check_shapes(seccomp, spec, f"{path}/seccompProfile/type")


@pytest.mark.parametrize("name", ["allowed_profiles", "allowed_localhost_files"])
@pytest.mark.parametrize("value", ["*", [5], None], ids=repr)
def test_its_parameters_are_checked(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError):
        seccomp.bind(**{name: value})

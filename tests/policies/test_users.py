from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
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

[users] = load(["library:users"])

RANGES = [{"min": 10, "max": 19}, {"min": 30, "max": 30}]
MUST, MAY = ({"rule": rule, "ranges": RANGES} for rule in ("MustRunAs", "MayRunAs"))
NON_ROOT, ANY = {"rule": "MustRunAsNonRoot"}, {"rule": "RunAsAny"}
NO_ROOT = "container app: securityContext must have runAsNonRoot: true or a runAsUser other than 0, not "
USER = "container app: securityContext.runAsUser must be in 10-19 or 30-30, not "
GROUP = "container app: securityContext.runAsGroup must be in 10-19 or 30-30, not "
OTHERS = "securityContext.supplementalGroups must be in 10-19 or 30-30, not "
FILES = "securityContext.fsGroup must be in 10-19 or 30-30, not "

# The parameters, the security contexts of the pod and the container, and the violation.
CASES: list[tuple[Json, Json, Json, str | None]] = [
    ({}, {}, {}, NO_ROOT + "absent"),
    ({}, {}, {"runAsNonRoot": True}, None),
    ({}, {"runAsNonRoot": True}, {}, None),
    ({}, {"runAsNonRoot": True}, {"runAsNonRoot": False}, NO_ROOT + "absent"),
    ({}, {"runAsNonRoot": False}, {"runAsNonRoot": True}, None),
    ({}, {}, {"runAsUser": 1}, None),
    ({}, {"runAsUser": 1}, {}, None),
    ({}, {"runAsUser": 1}, {"runAsNonRoot": False}, None),
    ({}, {"runAsUser": 1}, {"runAsUser": 0}, NO_ROOT + "0"),
    ({}, {"runAsUser": 0}, {"runAsUser": 1}, None),
    ({}, {"runAsUser": 0}, {}, NO_ROOT + "0"),
    ({}, {"runAsUser": 0}, {"runAsNonRoot": True}, NO_ROOT + "0"),
    ({}, {"runAsNonRoot": True}, {"runAsUser": 0}, NO_ROOT + "0"),
    ({}, {"runAsUser": None, "runAsNonRoot": None}, {"runAsUser": None}, NO_ROOT + "absent"),
    ({"run_as_user": NON_ROOT}, {}, {"runAsUser": 0}, NO_ROOT + "0"),
    ({"run_as_user": ANY}, {}, {"runAsUser": 0}, None),
    ({"run_as_user": ANY}, {}, {}, None),
    ({"run_as_user": MUST}, {}, {}, USER + "absent"),
    ({"run_as_user": MUST}, {}, {"runAsNonRoot": True}, USER + "absent"),
    ({"run_as_user": MUST}, {"runAsUser": 10}, {}, None),
    ({"run_as_user": MUST}, {"runAsUser": 20}, {"runAsUser": 30}, None),
    ({"run_as_user": MUST}, {"runAsUser": 10}, {"runAsUser": 0}, USER + "0"),
    ({"run_as_user": MUST}, {"runAsUser": 20}, {}, USER + "20"),
    (
        {"run_as_user": {"rule": "MustRunAs"}},
        {},
        {"runAsUser": 1},
        USER.replace("10-19 or 30-30", "an allowed range") + "1",
    ),
    ({"run_as_group": MUST}, {}, {"runAsUser": 0}, GROUP + "absent"),
    ({"run_as_group": MUST}, {"runAsGroup": 10}, {}, None),
    ({"run_as_group": MUST}, {"runAsGroup": 10}, {"runAsGroup": 0}, GROUP + "0"),
    ({"run_as_group": MAY}, {}, {}, None),
    ({"run_as_group": MAY}, {"runAsGroup": 9}, {}, GROUP + "9"),
    ({"run_as_group": MAY}, {"runAsGroup": 9}, {"runAsGroup": 19}, None),
    ({"run_as_group": ANY}, {"runAsGroup": 0}, {"runAsUser": 0}, None),
    ({"supplemental_groups": MUST}, {}, {}, OTHERS + "absent"),
    ({"supplemental_groups": MUST}, {"supplementalGroups": []}, {}, OTHERS + "absent"),
    ({"supplemental_groups": MUST}, {"supplementalGroups": [10, 30, 19]}, {}, None),
    ({"supplemental_groups": MUST}, {"supplementalGroups": [10, 20, 0]}, {}, f"{OTHERS}20; {OTHERS}0"),
    ({"supplemental_groups": MAY}, {}, {}, None),
    ({"supplemental_groups": MAY}, {"supplementalGroups": []}, {}, None),
    ({"supplemental_groups": MAY}, {"supplementalGroups": [0]}, {}, OTHERS + "0"),
    ({"supplemental_groups": ANY}, {"supplementalGroups": [0]}, {}, None),
    ({"fs_group": MUST}, {}, {}, FILES + "absent"),
    ({"fs_group": MUST}, {"fsGroup": 30}, {}, None),
    ({"fs_group": MUST}, {"fsGroup": 31}, {}, FILES + "31"),
    ({"fs_group": MAY}, {}, {}, None),
    ({"fs_group": MAY}, {"fsGroup": 0}, {}, FILES + "0"),
    ({"fs_group": ANY}, {"fsGroup": 0}, {}, None),
    ({"run_as_user": MUST, "fs_group": MUST}, {}, {}, f"{USER}absent; {FILES}absent"),
    ({"run_as_user": NON_ROOT, "run_as_group": MAY}, {"runAsGroup": 0}, {}, f"{NO_ROOT}absent; {GROUP}0"),
]


@pytest.mark.parametrize(("parameters", "pod_value", "container_value", "problem"), CASES, ids=repr)
def test_ids_are_compared(parameters: Json, pod_value: Json, container_value: Json, problem: str | None) -> None:
    spec = pod_spec(container(securityContext=container_value), securityContext=pod_value)
    assert message(users.bind(**parameters), spec) == problem


def test_all_containers_are_checked() -> None:
    spec = pod_spec(
        container("a"), with_context("b", runAsUser=0), with_context("c", runAsUser=5), securityContext={"runAsUser": 7}
    )
    assert message(users, spec) == NO_ROOT.replace("app", "b") + "0"


@pytest.mark.parametrize(
    ("parameters", "pod_value", "good"),
    [
        ({}, {}, False),
        ({}, {"runAsNonRoot": True}, True),
        ({"run_as_user": MUST}, {}, True),
        ({"run_as_group": MUST, "fs_group": MUST, "supplemental_groups": MUST}, {}, True),
        ({"run_as_user": NON_ROOT, "fs_group": MUST}, {"runAsNonRoot": True}, True),
        ({"run_as_user": NON_ROOT, "fs_group": MUST}, {}, False),
    ],
    ids=repr,
)
def test_pods_for_windows(parameters: Json, pod_value: Json, good: bool) -> None:
    spec = pod_spec(os={"name": "windows"}, securityContext=pod_value)
    assert (message(users.bind(**parameters), spec) is None) is good


def test_a_pod_of_exempt_images_may_have_any_group() -> None:
    policy = users.bind(fs_group=MAY, exempt_images=["sudo:1"])
    spec = pod_spec(container("a", "sudo:1"), securityContext={"fsGroup": 0})
    assert message(policy, spec) is None
    assert message(policy, {**spec, "initContainers": [container("b")]}) == FILES + "0"


def test_all_objects_and_containers() -> None:
    good, bad = with_context(runAsUser=1000), with_context(runAsUser=0)
    check_all_kinds(users, pod_spec(good), pod_spec(bad))
    check_all_kinds(users, pod_spec(securityContext={"runAsNonRoot": True}), pod_spec())
    check_all_kinds(users.bind(fs_group=MUST), pod_spec(securityContext={"fsGroup": 10}), pod_spec())
    check_containers(users, good, bad)
    check_containers(users, good, container())
    check_containers(users, container(), bad, securityContext={"runAsUser": 5})
    check_containers(users.bind(run_as_group=MAY), container(), with_context(runAsGroup=0))
    check_exemptions(users, bad)
    check_exemptions(users.bind(run_as_group=MUST), container())


def test_an_update_must_not_add_another_number() -> None:
    policy = users.bind(run_as_user=MUST)
    assert message(policy, pod_spec(with_context(runAsUser=0)), "Deployment", old=pod_spec(with_context(runAsUser=5)))
    assert message(users, pod_spec(with_context(runAsUser=0)), "Deployment", old=pod_spec())


def test_malformed_objects_are_denied() -> None:
    policy = users.bind(run_as_user=MUST, run_as_group=MUST, supplemental_groups=MUST, fs_group=MUST)
    pod_value = {"runAsUser": 10, "runAsGroup": 10, "supplementalGroups": [10], "fsGroup": 10}
    spec = pod_spec(with_context(runAsUser=10, runAsGroup=10), securityContext=pod_value)
    assert message(policy, spec) is None
    check_shapes(policy, spec, "securityContext")
    check_shapes(policy, spec, "securityContext/supplementalGroups")
    check_shapes(policy, spec, "securityContext/supplementalGroups/0")
    check_shapes(policy, spec, "securityContext/fsGroup")
    check_shapes(policy, spec, "containers/0/securityContext", {}, {"x": "y"})
    check_shapes(policy, spec, "containers/0/securityContext/runAsUser")
    check_shapes(policy, spec, "containers/0/securityContext/runAsGroup")
    check_shapes(users, pod_spec(with_context(runAsNonRoot=True)), "containers/0/securityContext/runAsNonRoot", True)


@pytest.mark.parametrize(
    "parameters",
    [
        {"run_as_user": "MustRunAs"},
        {"run_as_user": {}},
        {"run_as_user": {"rule": "MayRunAs"}},
        {"run_as_group": {"rule": "MustRunAsNonRoot"}},
        {"fs_group": {"rule": "MustRunAs", "ranges": [{"min": 1}]}},
        {"supplemental_groups": {"rule": "MustRunAs", "ranges": [{"min": "1", "max": 2}]}},
    ],
    ids=repr,
)
def test_parameters_are_checked(parameters: Any) -> None:
    with pytest.raises(ConfigurationError):
        users.bind(**parameters)

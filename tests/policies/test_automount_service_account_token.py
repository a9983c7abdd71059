from typing import Any

import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .objects import LISTS, RESOURCES, check_everywhere, check_shapes, container, message, review_of, spec_of

[automount] = load(["library:automount_service_account_token"])

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def mounting(*paths: Any) -> Json:
    return container(volumeMounts=[{"name": "token", "mountPath": path} for path in paths])


REQUIRED = "automountServiceAccountToken must be false"
MOUNTED = f"container app mounts the service account token: {REQUIRED}"
CASES: list[tuple[Json, str | None]] = [
    (spec_of(automountServiceAccountToken=False), None),
    (spec_of(), None),
    (spec_of(automountServiceAccountToken=None), None),
    (spec_of(automountServiceAccountToken=True), REQUIRED),
    (spec_of(mounting(MOUNT_PATH), automountServiceAccountToken=True), REQUIRED),
    (spec_of(mounting(MOUNT_PATH)), MOUNTED),
    (spec_of(mounting("/data", f"{MOUNT_PATH}/")), MOUNTED),
    (spec_of(mounting("/var/run/../run/./secrets//kubernetes.io/serviceaccount")), MOUNTED),
    (spec_of(mounting(MOUNT_PATH), automountServiceAccountToken=None), MOUNTED),
    (spec_of(mounting(MOUNT_PATH), automountServiceAccountToken=False), None),
    (spec_of(mounting("/var/run/secrets/tokens", f"{MOUNT_PATH}s", f"{MOUNT_PATH}/deeper")), None),
    (spec_of(mounting(None)), None),
    (spec_of(serviceAccountName="web"), None),
]


@pytest.mark.parametrize(("spec", "problem"), CASES, ids=repr)
def test_pods_with_a_token_are_denied(spec: Json, problem: str | None) -> None:
    assert message(automount, spec) == problem


def test_everywhere() -> None:
    check_everywhere(automount, spec_of(automountServiceAccountToken=False), spec_of(automountServiceAccountToken=True))
    check_everywhere(automount, spec_of(), spec_of(mounting(MOUNT_PATH)))
    check_shapes(automount, spec_of(), "automountServiceAccountToken", False)
    check_shapes(automount, spec_of(mounting("/data")), "containers/0/volumeMounts", [])
    check_shapes(automount, spec_of(mounting("/data")), "containers/0/volumeMounts/0", {}, {"x": "y"})
    check_shapes(automount, spec_of(mounting("/data")), "containers/0/volumeMounts/0/mountPath", "", "x")


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize("kind", RESOURCES)
def test_all_containers_are_checked(kind: str, list_: str) -> None:
    spec = {"containers": [container()], list_: [container(), {**mounting(MOUNT_PATH), "name": "bad"}]}
    assert "bad mounts the service account token" in (message(automount, spec, kind) or "")


def test_ephemeral_containers_are_checked() -> None:
    spec = spec_of(ephemeralContainers=[mounting(MOUNT_PATH)])
    assert message(automount, spec, old=spec_of(), subResource="ephemeralcontainers")
    assert automount.match.matches_resource(review_of("Pod", spec, old=spec_of(), subResource="ephemeralcontainers"))
    assert message(automount, spec, old=spec, subResource="ephemeralcontainers") is None

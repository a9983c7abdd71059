from typing import Any

import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import LISTS, RESOURCES, check_all_kinds, check_shapes, container, message, pod_spec, review_of

[automount] = load(["library:automount_service_account_token"])

MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def mounting(*paths: Any) -> Json:
    return container(volumeMounts=[{"name": "token", "mountPath": path} for path in paths])


REQUIRED = "automountServiceAccountToken must be false"
MOUNTED = f"container app mounts the service account token: {REQUIRED}"
CASES: list[tuple[Json, str | None]] = [
    (pod_spec(automountServiceAccountToken=False), None),
    (pod_spec(), None),
    (pod_spec(automountServiceAccountToken=None), None),
    (pod_spec(automountServiceAccountToken=True), REQUIRED),
    (pod_spec(mounting(MOUNT_PATH), automountServiceAccountToken=True), REQUIRED),
    (pod_spec(mounting(MOUNT_PATH)), MOUNTED),
    (pod_spec(mounting("/data", f"{MOUNT_PATH}/")), MOUNTED),
    (pod_spec(mounting("/var/run/../run/./secrets//kubernetes.io/serviceaccount")), MOUNTED),
    (pod_spec(mounting(MOUNT_PATH), automountServiceAccountToken=None), MOUNTED),
    (pod_spec(mounting(MOUNT_PATH), automountServiceAccountToken=False), None),
    (pod_spec(mounting("/var/run/secrets/tokens", f"{MOUNT_PATH}s", f"{MOUNT_PATH}/deeper")), None),
    (pod_spec(mounting(None)), None),
    (pod_spec(serviceAccountName="web"), None),
]


@pytest.mark.parametrize(("spec", "problem"), CASES, ids=repr)
def test_pods_with_a_token_are_denied(spec: Json, problem: str | None) -> None:
    assert message(automount, spec) == problem


def test_all_objects() -> None:
    check_all_kinds(
        automount, pod_spec(automountServiceAccountToken=False), pod_spec(automountServiceAccountToken=True)
    )
    check_all_kinds(automount, pod_spec(), pod_spec(mounting(MOUNT_PATH)))
    check_shapes(automount, pod_spec(), "automountServiceAccountToken", False)
    check_shapes(automount, pod_spec(mounting("/data")), "containers/0/volumeMounts", [])
    check_shapes(automount, pod_spec(mounting("/data")), "containers/0/volumeMounts/0", {}, {"x": "y"})
    check_shapes(automount, pod_spec(mounting("/data")), "containers/0/volumeMounts/0/mountPath", "", "x")


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize("kind", RESOURCES)
def test_all_containers_are_checked(kind: str, list_: str) -> None:
    spec = {"containers": [container()], list_: [container(), {**mounting(MOUNT_PATH), "name": "bad"}]}
    assert "bad mounts the service account token" in (message(automount, spec, kind) or "")


def test_ephemeral_containers_are_checked() -> None:
    spec = pod_spec(ephemeralContainers=[mounting(MOUNT_PATH)])
    assert message(automount, spec, old=pod_spec(), subResource="ephemeralcontainers")
    assert automount.match.matches_resource(review_of("Pod", spec, old=pod_spec(), subResource="ephemeralcontainers"))
    assert message(automount, spec, old=spec, subResource="ephemeralcontainers") is None

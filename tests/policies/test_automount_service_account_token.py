from typing import Any

import pytest

from webhooks.policy.loader import load

from ..support.builders import Json
from .objects import LISTS, RESOURCES, check_everywhere, check_shapes, container, message, review_of, spec_of

[automount] = load(["library:automount_service_account_token"])

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


def mounting(*paths: Any) -> Json:
    return container(volumeMounts=[{"name": "token", "mountPath": path} for path in paths])


SAID = "automountServiceAccountToken must be false"
MOUNTED = f"container app has the service account's token, {SAID}"
CASES: list[tuple[Json, str | None]] = [
    (spec_of(automountServiceAccountToken=False), None),
    (spec_of(), None),
    (spec_of(automountServiceAccountToken=None), None),
    (spec_of(automountServiceAccountToken=True), SAID),
    (spec_of(mounting(PLACE), automountServiceAccountToken=True), SAID),
    (spec_of(mounting(PLACE)), MOUNTED),
    (spec_of(mounting("/data", f"{PLACE}/")), MOUNTED),
    (spec_of(mounting("/var/run/../run/./secrets//kubernetes.io/serviceaccount")), MOUNTED),
    (spec_of(mounting(PLACE), automountServiceAccountToken=None), MOUNTED),
    (spec_of(mounting(PLACE), automountServiceAccountToken=False), None),
    (spec_of(mounting("/var/run/secrets/tokens", f"{PLACE}s", f"{PLACE}/deeper")), None),
    (spec_of(mounting(None)), None),
    (spec_of(serviceAccountName="web"), None),
]


@pytest.mark.parametrize(("spec", "problem"), CASES, ids=repr)
def test_pods_have_no_token(spec: Json, problem: str | None) -> None:
    assert message(automount, spec) == problem


def test_everywhere() -> None:
    check_everywhere(automount, spec_of(automountServiceAccountToken=False), spec_of(automountServiceAccountToken=True))
    check_everywhere(automount, spec_of(), spec_of(mounting(PLACE)))
    check_shapes(automount, spec_of(), "automountServiceAccountToken", False)
    check_shapes(automount, spec_of(mounting("/data")), "containers/0/volumeMounts", [])
    check_shapes(automount, spec_of(mounting("/data")), "containers/0/volumeMounts/0", {}, {"x": "y"})
    check_shapes(automount, spec_of(mounting("/data")), "containers/0/volumeMounts/0/mountPath", "", "x")


@pytest.mark.parametrize("list_", LISTS)
@pytest.mark.parametrize("kind", RESOURCES)
def test_every_container_counts(kind: str, list_: str) -> None:
    spec = {"containers": [container()], list_: [container(), {**mounting(PLACE), "name": "bad"}]}
    assert "bad has the service account's token" in (message(automount, spec, kind) or "")


def test_containers_put_into_running_pods_count_too() -> None:
    spec = spec_of(ephemeralContainers=[mounting(PLACE)])
    assert message(automount, spec, old=spec_of(), subResource="ephemeralcontainers")
    assert automount.match.matches_resource(review_of("Pod", spec, old=spec_of(), subResource="ephemeralcontainers"))
    assert message(automount, spec, old=spec, subResource="ephemeralcontainers") is None

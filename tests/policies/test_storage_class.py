from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .other_objects import check_requests, check_shapes, message

[storage_class] = load(["library:storage_class"])
restricted = storage_class.bind(allowed_storage_classes=["fast", "slow"])

ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def claim(annotations: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": "data"} if annotations is None else {"name": "data", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def stateful_set(*claims: Json) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {"volumeClaimTemplates": list(claims)},
    }


ALLOWED = ": use fast or slow"
ANY = ": use an allowed class"
MISSING = "spec.storageClassName is missing"
CASES: list[tuple[list[str], Json, str | None]] = [
    (["fast", "slow"], claim(storageClassName="fast"), None),
    (["fast", "slow"], claim(storageClassName="slow"), None),
    (["fast", "slow"], claim(storageClassName="fas"), f"storage class 'fas' is not allowed{ALLOWED}"),
    (["fast", "slow"], claim(storageClassName=""), f"storage class '' is not allowed{ALLOWED}"),
    (["fast", "slow"], claim(), f"{MISSING}{ALLOWED}"),
    (["fast", "slow"], claim(storageClassName=None), f"{MISSING}{ALLOWED}"),
    (["fast", "slow"], claim({ANNOTATION: "fast"}), None),
    (["fast", "slow"], claim({"a": "b"}, storageClassName="fast"), None),
    (
        ["fast", "slow"],
        claim({ANNOTATION: "gold"}, storageClassName="fast"),
        f"storage class 'gold' is not allowed{ALLOWED}",
    ),
    (
        ["fast", "slow"],
        claim({ANNOTATION: "fast"}, storageClassName="gold"),
        f"storage class 'gold' is not allowed{ALLOWED}",
    ),
    (["*"], claim(storageClassName="any"), None),
    (["*"], claim(), f"{MISSING}{ANY}"),
    (["*"], claim(storageClassName=""), f"storage class '' is not allowed{ANY}"),
    (["", "fast"], claim(storageClassName=""), None),
    ([], claim(storageClassName="fast"), f"storage class 'fast' is not allowed{ANY}"),
    (["fast", "slow"], stateful_set(), None),
    (["fast", "slow"], stateful_set(claim(storageClassName="fast"), claim(storageClassName="slow")), None),
    (
        ["fast", "slow"],
        stateful_set(claim(storageClassName="fast"), claim(storageClassName="gold"), claim()),
        f"claim data: storage class 'gold' is not allowed{ALLOWED}; claim data: {MISSING}{ALLOWED}",
    ),
]


@pytest.mark.parametrize(("allowed", "obj", "problem"), CASES, ids=repr)
def test_classes_are_compared(allowed: list[str], obj: Json, problem: str | None) -> None:
    assert message(storage_class.bind(allowed_storage_classes=allowed), obj) == problem


def test_the_message_may_omit_the_classes() -> None:
    quiet = restricted.bind(include_storage_classes_in_message=False)
    assert message(quiet, claim()) == f"{MISSING}{ANY}"
    assert message(quiet, claim(storageClassName="gold")) == f"storage class 'gold' is not allowed{ANY}"


def test_all_classes_are_allowed_by_default() -> None:
    assert message(storage_class, claim(storageClassName="any")) is None
    assert message(storage_class, claim()) == f"{MISSING}{ANY}"


def test_requests() -> None:
    check_requests(restricted, claim(storageClassName="fast"), claim(storageClassName="gold"))
    check_requests(restricted, claim(storageClassName="fast"), claim())
    check_requests(restricted, stateful_set(claim(storageClassName="fast")), stateful_set(claim()))


def test_shapes() -> None:
    for policy in (restricted, storage_class):
        check_shapes(policy, claim(storageClassName="fast"), "spec")
        check_shapes(policy, claim(storageClassName="fast"), "spec", "storageClassName", allowed=("x",))
        check_shapes(policy, claim({}, storageClassName="fast"), "metadata", "annotations", allowed=({}, {"x": "y"}))
        check_shapes(policy, claim({}, storageClassName="fast"), "metadata", "annotations", ANNOTATION, allowed=("x",))
        good = stateful_set(claim(storageClassName="fast"))
        check_shapes(policy, good, "spec", "volumeClaimTemplates", allowed=([],))
        check_shapes(policy, good, "spec", "volumeClaimTemplates", 0)
        check_shapes(policy, good, "spec", allowed=({}, {"x": "y"}))


@pytest.mark.parametrize(
    "parameters",
    [
        {"allowed_storage_classes": "fast"},
        {"allowed_storage_classes": None},
        {"allowed_storage_classes": [5]},
        {"include_storage_classes_in_message": "yes"},
    ],
    ids=repr,
)
def test_parameters_are_checked(parameters: Json) -> None:
    with pytest.raises(ConfigurationError):
        storage_class.bind(**parameters)

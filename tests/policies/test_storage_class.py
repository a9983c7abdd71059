from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .kinds import check_requests, check_shapes, message

[storage_class] = load(["library:storage_class"])
known = storage_class.bind(allowed_storage_classes=["fast", "slow"])

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


ALLOWED = "; allowed: fast, slow"
MISSING = "spec.storageClassName is missing"
CASES: list[tuple[list[str], Json, str | None]] = [
    (["fast", "slow"], claim(storageClassName="fast"), None),
    (["fast", "slow"], claim(storageClassName="slow"), None),
    (["fast", "slow"], claim(storageClassName="fas"), f"the storage class 'fas' is not allowed{ALLOWED}"),
    (["fast", "slow"], claim(storageClassName=""), f"the storage class '' is not allowed{ALLOWED}"),
    (["fast", "slow"], claim(), f"{MISSING}{ALLOWED}"),
    (["fast", "slow"], claim(storageClassName=None), f"{MISSING}{ALLOWED}"),
    (["fast", "slow"], claim({ANNOTATION: "fast"}), None),
    (["fast", "slow"], claim({"a": "b"}, storageClassName="fast"), None),
    (
        ["fast", "slow"],
        claim({ANNOTATION: "gold"}, storageClassName="fast"),
        f"the storage class 'gold' is not allowed{ALLOWED}",
    ),
    (
        ["fast", "slow"],
        claim({ANNOTATION: "fast"}, storageClassName="gold"),
        f"the storage class 'gold' is not allowed{ALLOWED}",
    ),
    (["*"], claim(storageClassName="any"), None),
    (["*"], claim(), MISSING),
    (["*"], claim(storageClassName=""), "the storage class '' is not allowed"),
    (["", "fast"], claim(storageClassName=""), None),
    ([], claim(storageClassName="fast"), "the storage class 'fast' is not allowed; allowed: "),
    (["fast", "slow"], stateful_set(), None),
    (["fast", "slow"], stateful_set(claim(storageClassName="fast"), claim(storageClassName="slow")), None),
    (
        ["fast", "slow"],
        stateful_set(claim(storageClassName="fast"), claim(storageClassName="gold"), claim()),
        f"claim data: the storage class 'gold' is not allowed; claim data: {MISSING}{ALLOWED}",
    ),
]


@pytest.mark.parametrize(("allowed", "obj", "problem"), CASES, ids=repr)
def test_claims_name_a_class_that_is_allowed(allowed: list[str], obj: Json, problem: str | None) -> None:
    assert message(storage_class.bind(allowed_storage_classes=allowed), obj) == problem


def test_the_classes_may_be_left_untold() -> None:
    quiet = known.bind(include_storage_classes_in_message=False)
    assert message(quiet, claim()) == MISSING
    assert message(quiet, claim(storageClassName="gold")) == "the storage class 'gold' is not allowed"


def test_any_class_will_do_unless_told_otherwise() -> None:
    assert message(storage_class, claim(storageClassName="any")) is None
    assert message(storage_class, claim()) == MISSING


def test_requests() -> None:
    check_requests(known, claim(storageClassName="fast"), claim(storageClassName="gold"))
    check_requests(known, claim(storageClassName="fast"), claim())
    check_requests(known, stateful_set(claim(storageClassName="fast")), stateful_set(claim()))


def test_shapes() -> None:
    for policy in (known, storage_class):
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
def test_its_parameters_are_checked(parameters: Json) -> None:
    with pytest.raises(ConfigurationError):
        storage_class.bind(**parameters)

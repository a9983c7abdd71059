from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import container, message, pod_spec
from .resources import check_parameter, check_resources, using

[ephemeral_storage_limit] = load(["library:ephemeral_storage_limit"])

LIMIT = "container app: resources.limits.ephemeral-storage"
CASES: list[tuple[str, Json, str | None]] = [
    ("", using({"ephemeral-storage": "1Ti"}), None),
    ("", using({"memory": "1Ti"}), f"{LIMIT} is missing"),
    ("", container(), f"{LIMIT} is missing"),
    ("", using(None, {"ephemeral-storage": "1"}), f"{LIMIT} is missing"),
    ("", using({"ephemeral-storage": "0"}), f"{LIMIT} is 0, which means no limit"),
    ("1Gi", container(), f"{LIMIT} is missing: set it to at most 1Gi"),
    ("1Gi", using({"ephemeral-storage": "1Gi"}), None),
    ("1Gi", using({"ephemeral-storage": "1G"}), None),
    ("1Gi", using({"ephemeral-storage": 1073741824}), None),
    ("1Gi", using({"ephemeral-storage": "1.1Gi"}), f"{LIMIT} is 1.1Gi: set it to at most 1Gi"),
    ("1Gi", using({"ephemeral-storage": "0"}), f"{LIMIT} is 0, which means no limit: set it to at most 1Gi"),
    ("500Mi", using({"ephemeral-storage": "1Pi"}), f"{LIMIT} is 1Pi: set it to at most 500Mi"),
]


@pytest.mark.parametrize(("most", "bad", "problem"), CASES, ids=repr)
def test_limits_are_compared(most: str, bad: Json, problem: str | None) -> None:
    assert message(ephemeral_storage_limit.bind(ephemeral_storage=most), pod_spec(bad)) == problem


@pytest.mark.parametrize("value", ["1GB", "", True, [], {}], ids=repr)
def test_an_invalid_limit_is_denied(value: Any) -> None:
    problem = message(ephemeral_storage_limit, pod_spec(using({"ephemeral-storage": value}))) or ""
    assert problem.startswith(f"{LIMIT} is an invalid quantity {value!r}: ")


def test_all_objects() -> None:
    good = using({"ephemeral-storage": "1Gi"})
    check_resources(ephemeral_storage_limit, good, using({"memory": "1Gi"}))
    check_resources(ephemeral_storage_limit.bind(ephemeral_storage="1Gi"), good, using({"ephemeral-storage": "2Gi"}))


def test_parameters_are_checked() -> None:
    check_parameter(ephemeral_storage_limit, "ephemeral_storage", using({"ephemeral-storage": "1"}))
    for parameters in ({"ephemeral_storage": 1}, {"ephemeral_storage": None}, {"exempt_images": "nginx"}):
        with pytest.raises(ConfigurationError):
            ephemeral_storage_limit.bind(**parameters)

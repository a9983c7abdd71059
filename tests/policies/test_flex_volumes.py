from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import check_all_kinds, check_shapes, message, pod_spec

[flex_volumes] = load(["library:flex_volumes"])


def driven(*drivers: Any) -> Json:
    return pod_spec(
        volumes=[{"name": f"v{index}", "flexVolume": {"driver": driver}} for index, driver in enumerate(drivers)]
    )


CASES: list[tuple[Json, list[str], str | None]] = [
    (pod_spec(), [], None),
    (pod_spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "flexVolume": None}]), [], None),
    (driven("x/lvm"), ["x/lvm"], None),
    (driven("x/lvm", "x/cifs"), ["x/cifs", "x/lvm"], None),
    (driven("x/lvm"), [], "volume v0: flexVolume.driver must be an allowed driver, not x/lvm"),
    (driven("x/lvm"), ["x/lv"], "volume v0: flexVolume.driver must be x/lv, not x/lvm"),
    (driven("x/lvm"), ["X/LVM"], "volume v0: flexVolume.driver must be X/LVM, not x/lvm"),
    (driven("x/lvm"), ["x/*"], "volume v0: flexVolume.driver must be x/*, not x/lvm"),
    (driven("x/lvm", "y/a"), ["x/lvm"], "volume v1: flexVolume.driver must be x/lvm, not y/a"),
    (driven(None), ["x/lvm"], "volume v0: flexVolume.driver must be x/lvm, not None"),
    (driven(""), ["x/lvm"], "volume v0: flexVolume.driver must be x/lvm, not "),
]


@pytest.mark.parametrize(("spec", "drivers", "problem"), CASES, ids=repr)
def test_drivers_are_compared(spec: Json, drivers: list[str], problem: str | None) -> None:
    assert message(flex_volumes.bind(allowed_flex_volumes=[{"driver": driver} for driver in drivers]), spec) == problem


def test_all_objects() -> None:
    check_all_kinds(flex_volumes, pod_spec(), driven("x/lvm"))
    check_all_kinds(flex_volumes.bind(allowed_flex_volumes=[{"driver": "x"}]), driven("x"), driven("y"))


def test_an_update_must_not_add_another_driver() -> None:
    assert message(flex_volumes, driven("y"), "Deployment", old=driven("x"))


def test_malformed_objects_are_denied() -> None:
    check_shapes(flex_volumes, driven("x"), "volumes", [])
    check_shapes(flex_volumes, driven("x"), "volumes/0", {}, {"x": "y"})
    check_shapes(flex_volumes, driven("x"), "volumes/0/flexVolume")
    check_shapes(flex_volumes, driven("x"), "volumes/0/flexVolume/driver")


@pytest.mark.parametrize("value", ["x", ["x"], [{}], [{"driver": 5}], None], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        flex_volumes.bind(allowed_flex_volumes=value)

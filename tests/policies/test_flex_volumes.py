from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .objects import check_everywhere, check_shapes, message, spec_of

[flex_volumes] = load(["library:flex_volumes"])


def driven(*drivers: Any) -> Json:
    return spec_of(
        volumes=[{"name": f"v{index}", "flexVolume": {"driver": each}} for index, each in enumerate(drivers)]
    )


CASES: list[tuple[Json, list[str], str | None]] = [
    (spec_of(), [], None),
    (spec_of(volumes=[{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "flexVolume": None}]), [], None),
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
    assert message(flex_volumes.bind(allowed_flex_volumes=[{"driver": each} for each in drivers]), spec) == problem


def test_it_holds_for_every_object() -> None:
    check_everywhere(flex_volumes, spec_of(), driven("x/lvm"))
    check_everywhere(flex_volumes.bind(allowed_flex_volumes=[{"driver": "x"}]), driven("x"), driven("y"))


def test_an_update_may_not_bring_another_driver() -> None:
    assert message(flex_volumes, driven("y"), "Deployment", old=driven("x"))


def test_misshapen_objects_are_denied() -> None:
    check_shapes(flex_volumes, driven("x"), "volumes", [])
    check_shapes(flex_volumes, driven("x"), "volumes/0", {}, {"x": "y"})
    check_shapes(flex_volumes, driven("x"), "volumes/0/flexVolume")
    check_shapes(flex_volumes, driven("x"), "volumes/0/flexVolume/driver")


@pytest.mark.parametrize("value", ["x", ["x"], [{}], [{"driver": 5}], None], ids=repr)
def test_its_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        flex_volumes.bind(allowed_flex_volumes=value)

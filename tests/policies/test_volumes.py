from typing import Any

import pytest

from webhooks.errors import ConfigurationError
from webhooks.policy.loader import load

from ..support.builders import Json
from .pods import check_all_kinds, check_shapes, message, pod_spec

[volumes] = load(["library:volumes"])

DEFAULT = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
]
OTHERS = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "glusterfs",
    "hostPath",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
    "somethingNew",
]


def using(*types: str) -> Json:
    return pod_spec(volumes=[{"name": f"v{index}", type_: {}} for index, type_ in enumerate(types)])


@pytest.mark.parametrize("type_", DEFAULT)
def test_default_types_are_allowed(type_: str) -> None:
    assert message(volumes, using(type_)) is None
    assert message(volumes.bind(volumes=["nfs"]), using(type_)) == f"volume v0: type must be nfs, not {type_}"


@pytest.mark.parametrize("type_", OTHERS)
def test_other_types_are_denied(type_: str) -> None:
    assert message(volumes, using(type_)) == f"volume v0: type must be {' or '.join(DEFAULT)}, not {type_}"
    assert message(volumes.bind(volumes=[type_]), using(type_)) is None
    assert message(volumes.bind(volumes=["*"]), using(type_)) is None


CASES: list[tuple[Json, list[str], str | None]] = [
    (pod_spec(), [], None),
    (pod_spec(volumes=None), [], None),
    (pod_spec(volumes=[]), [], None),
    (using("secret"), [], "volume v0: type must be an allowed type, not secret"),
    (
        using("nfs", "secret", "nfs"),
        ["secret"],
        "volume v0: type must be secret, not nfs; volume v2: type must be secret, not nfs",
    ),
    (using("nfs"), ["NFS", "nf*"], "volume v0: type must be NFS or nf*, not nfs"),
    (pod_spec(volumes=[{"name": "a", "nfs": None, "secret": {}}]), ["secret"], None),
    (
        pod_spec(volumes=[{"name": "a", "hostPath": {}, "secret": {}}]),
        ["secret"],
        "volume a: type must be secret, not hostPath",
    ),
]


@pytest.mark.parametrize(("spec", "allowed", "problem"), CASES, ids=repr)
def test_types_are_compared(spec: Json, allowed: list[str], problem: str | None) -> None:
    assert message(volumes.bind(volumes=allowed), spec) == problem


def test_all_objects() -> None:
    check_all_kinds(volumes, using("secret"), using("hostPath"))


def test_an_update_must_not_add_another_type() -> None:
    assert message(volumes, using("nfs"), "Deployment", old=using("hostPath"))
    assert message(volumes, using("nfs", "nfs"), "Deployment", old=using("nfs"))


def test_malformed_objects_are_denied() -> None:
    check_shapes(volumes, using("nfs"), "volumes", [])
    check_shapes(volumes, using("nfs"), "volumes/0", {})
    check_shapes(volumes, using("nfs"), "volumes/0/nfs")


@pytest.mark.parametrize("value", ["*", [5], None, {"nfs": True}], ids=repr)
def test_parameters_are_checked(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        volumes.bind(volumes=value)
